"""Whatever the selection and the stream, the changes of its graph add up to what the SQL says from scratch."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import ExitStack
from unittest.mock import patch

from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from runtime.native import structures
from runtime.plan import Selected
from tests.conformance.oracle import Oracle, difference, oracle_sql
from tests.generators.programs import Row
from tests.generators.selections import RELATIONS, SelectionLab, draw_selection, random_deltas
from tests.harness.examples import examples

MODES = ("sql", "dbtoaster")


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_selections_equal_their_sql(data: st.DataObject) -> None:
    run(data)


@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_selections_equal_their_sql_where_room_is_short(data: st.DataObject) -> None:
    """Every stop of a kernel for want of room is taken."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(structures, "_SMALL", 1))
        run(data)


def run(data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from(MODES), "mode")
    sql = draw_selection(data)
    lab = SelectionLab(sql, mode, from_payloads=data.draw(st.booleans(), "payloads"))
    assume(lab.has_body)
    body = lab.view.body
    assert isinstance(body, Selected)
    event(f"monotone: {all(factor.monotone for factor in body.factors)}")
    rng = random.Random(data.draw(st.integers(0, 2**32), "seed"))
    scale = data.draw(st.sampled_from([1, 1, 7, 10**12]), "scale")  # 10**12: ordered indexes are trees
    oracle, held = Oracle(RELATIONS), {relation.name: list[Row]() for relation in RELATIONS}
    lab.step({})
    for _ in range(data.draw(st.integers(1, 6), "steps")):
        deltas = random_deltas(rng, held, scale, rng.choice([1, 1, 8, 30]), rng.choice([3, 30, 200]))
        assert lab.step(deltas) == {}
        for name, rows in held.items():
            oracle.fill(name, Counter(rows))
        _, expected = oracle.ask(oracle_sql(sql, mode))
        assert not difference(lab.result, expected), f"{sql} ({mode}) on {held}:\n{difference(lab.result, expected)}"
        lab.check()
        if rng.random() < 0.2:
            lab.restart()
            lab.check()
