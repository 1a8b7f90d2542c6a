"""Streams that Hypothesis makes, over many views of one program at once, which share their maps."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from runtime.compiler import Program, Relation
from runtime.plan import EPOCH_TIME
from tests.conformance.corpus import cases
from tests.conformance.harness import Question, check, compiled
from tests.conformance.oracle import Oracle
from tests.conformance.schema import RELATIONS, Row, domain
from tests.conformance.streams import Delta, Stream
from tests.generators.database import kept

PARTS = 8
# To make a failing example smaller over some thirty views takes minutes; the corpus asks each view alone and does it.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)


@kept
def oracle() -> Oracle:
    return Oracle(RELATIONS)


@cache
def question(part: int) -> Question:
    sql = {name.replace(".", "_"): case.sql for name, case in cases().items() if case.mode == "sql"}
    return Question(dict(list(sql.items())[part::PARTS]))


@cache
def program(part: int) -> Program:
    return compiled(question(part))


def rows_of(relation: Relation) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.sampled_from(domain(relation, column)) for column in relation.columns))


@st.composite
def streams(draw: st.DrawFn, relations: tuple[Relation, ...]) -> Stream:
    """Versions in which rows are added, some twice, and rows that are there are taken away; then nothing is left."""
    held: Counter[tuple[str, Row]] = Counter()
    versions = []
    for _ in range(draw(st.integers(1, 3))):
        deltas: list[Delta] = []
        for relation in relations:
            added = draw(st.lists(st.tuples(rows_of(relation), st.sampled_from([1, 1, 2])), max_size=3))
            deltas += [(relation.name, row, times) for row, times in added]
        for name, row, times in deltas:
            held[name, row] += times
        live = sorted((key for key, times in held.items() if times), key=repr)
        for name, row in draw(st.lists(st.sampled_from(live), unique=True, max_size=4)) if live else ():
            deltas.append((name, row, -1))
            held[name, row] -= 1
        deltas = draw(st.permutations(deltas))
        at = draw(st.integers(0, len(deltas)))
        versions.append((tuple(deltas[:at]), tuple(deltas[at:])))
    gone = tuple((name, row, -times) for (name, row), times in held.items() if times)
    return Stream((*versions, (gone,)))


@pytest.mark.parametrize("part", [*range(3), *(pytest.param(part, marks=pytest.mark.slow) for part in range(3, PARTS))])
@settings(max_examples=3, deadline=None, phases=PHASES)
@given(data=st.data())
def test_many_views_of_one_program(part: int, data: st.DataObject) -> None:
    relations = tuple(relation for relation in program(part).relations if relation != EPOCH_TIME)
    stream = data.draw(streams(relations))
    seed = data.draw(st.integers(0, 1000))
    check(question(part), stream, oracle(), shards=(1 + part % 3,), seed=seed, program=program(part))
