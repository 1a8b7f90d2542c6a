"""Whatever the join and the stream, the changes of its graph add up to what the SQL says from scratch."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from runtime.plan import Joined
from tests.conformance.oracle import Oracle, difference, oracle_sql
from tests.generators.joins import RELATIONS, ROW_WORK, JoinLab, draw_join, random_deltas, row_work, short_room
from tests.generators.programs import Row
from tests.harness.examples import examples

MODES = ("sql", "dbtoaster")


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_joins_equal_their_sql(data: st.DataObject) -> None:
    run(data)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_more_joins_equal_their_sql(data: st.DataObject) -> None:
    run(data)


@given(st.data())
@settings(max_examples=examples(30), deadline=None)
def test_joins_equal_their_sql_where_room_is_short(data: st.DataObject) -> None:
    """Every stop of a kernel for want of room is taken."""
    with short_room():
        run(data)


def run(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES), "mode")
    sql = draw_join(data)
    with row_work(data.draw(st.sampled_from(ROW_WORK), "row work")):
        lab = JoinLab(sql, mode, from_payloads=data.draw(st.booleans(), "payloads"))
    assume(lab.has_body)
    body = lab.view.body
    assert isinstance(body, Joined)
    lookups = [lookup for a in body.auxiliaries for statement in a.statements for lookup in statement.lookups]
    event(f"ranges: {any(lookup.ranges for lookup in lookups)}")
    event(f"finds keys: {any(lookup.binds for lookup in lookups)}")
    rng = random.Random(data.draw(st.integers(0, 2**32), "seed"))
    scale = data.draw(st.sampled_from([1, 1, 10**9]), "scale")  # 10**9: ordered indexes are trees
    spread = data.draw(st.sampled_from([3, 30]), "spread")
    oracle, held = Oracle(RELATIONS), {relation.name: list[Row]() for relation in RELATIONS}
    lab.step({})
    for _ in range(data.draw(st.integers(1, 5), "steps")):
        deltas = random_deltas(rng, held, rng.choice([1, 3, 8]), spread, scale)
        assert lab.step(deltas) == {}
        for name, rows in held.items():
            oracle.fill(name, Counter(rows))
        _, expected = oracle.ask(oracle_sql(sql, mode))
        assert not difference(lab.result, expected), f"{sql} ({mode}) on {held}:\n{difference(lab.result, expected)}"
        lab.check()
        if rng.random() < 0.2:
            with row_work(rng.choice(ROW_WORK)):
                lab.restart()
            lab.check()
