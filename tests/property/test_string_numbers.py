"""Answers do not depend on which number a string has: strings are numbered anew, and states restored, at random."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Program, Relation, compile_program
from runtime.native.cache import KernelCache
from runtime.views import ShardState, shard

RELATIONS = (
    Relation(
        "r", (Column("id", "int64"), Column("k", "int64", True), Column("x", "int64"), Column("s", "string", True))
    ),
    Relation("q", (Column("id", "int64"), Column("k", "int64"), Column("s", "string"))),
)
VIEWS = {
    "extremes": "SELECT k, MIN(x) AS a, MAX(s) AS m FROM r GROUP BY k",
    "extremes_by_string": "SELECT s, MIN(x) AS a, COUNT(DISTINCT k) AS c FROM r GROUP BY s",
    "least_string": "SELECT k, COUNT(DISTINCT x) AS a, MIN(s) AS m FROM r GROUP BY k",
    "extremes_of_all": "SELECT MIN(s) AS a, MAX(k) AS b FROM r",
    "extremes_of_outer_join": "SELECT r.k, MIN(q.s) AS m, MAX(r.x) AS x FROM r LEFT JOIN q ON r.k = q.k GROUP BY r.k",
    "distinct_extremes": "SELECT DISTINCT m FROM (SELECT k, MIN(s) AS m FROM r GROUP BY k) t",
    "top": "SELECT s, x FROM r ORDER BY s, x LIMIT 4",
    "top_groups": "SELECT k, MIN(s) AS s FROM r GROUP BY k ORDER BY k DESC LIMIT 3",
    "join_by_string": "SELECT r.s, q.id FROM r JOIN q ON r.s = q.s",
    "sums_of_join": "SELECT r.s, SUM(q.id) AS n FROM r JOIN q ON r.k = q.k GROUP BY r.s",
    "range_join": "SELECT q.s, SUM(r.x) AS n FROM r, q WHERE r.k = q.k AND r.x < q.id GROUP BY q.s",
    "self_join": "SELECT a.s AS s, SUM(a.x - b.x) AS n FROM r a, r b WHERE a.s = b.s AND a.x < b.x GROUP BY a.s",
    "semi_join": "SELECT id, s FROM r WHERE s IN (SELECT s FROM q)",
    "conditions": "SELECT s, COUNT(*) AS n FROM r WHERE s < 'm5' OR s LIKE '%3' GROUP BY s",
    "distinct": "SELECT DISTINCT s, k FROM r",
    "recomputed": "SELECT STRING_AGG(s ORDER BY s) AS t FROM r",
    "threshold": "SELECT s, SUM(x) AS n FROM r WHERE x > (SELECT AVG(id) FROM q) GROUP BY s",
    "correlated": "SELECT a.s AS s, SUM(a.x) AS n FROM r a WHERE 2 * (SELECT COUNT(*) FROM r b WHERE b.x > a.x) "
    "< (SELECT COUNT(*) FROM r c) GROUP BY a.s",
    "constants": "SELECT k, LEAST(s, 'm') AS l, GREATEST(s, 'n') AS g FROM r",
    "difference": "SELECT s FROM r EXCEPT ALL SELECT s FROM q",
}  # fmt: skip

Delta = tuple[str, tuple[Any, ...], int]


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_program([NamedSelect(name, sql) for name, sql in VIEWS.items()], RELATIONS)


@pytest.fixture(scope="module")
def kernels(program: Program, tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    cache = KernelCache(tmp_path_factory.mktemp("kernels"))
    report = cache.compile_now(ShardState(program, inputs="relations").sources())
    assert not report.failures
    return cache


def draw_deltas(chance: random.Random, live: list[tuple[str, tuple[Any, ...]]]) -> list[Delta]:
    """Rows that come, and rows that go."""
    deltas: list[Delta] = []
    for _ in range(chance.choice([1, 3, 12])):
        if live and chance.random() < 0.47:
            deltas.append((*live.pop(chance.randrange(len(live))), -1))
            continue
        number, text = chance.randrange(20), f"m{chance.randrange(12)}"
        key = chance.choice([*range(1, 8), None])
        name, row = "r", (number, key, chance.randrange(30), chance.choice([None, *[text] * 4]))
        if chance.random() < 0.3:
            name, row = "q", (number, chance.randrange(8), text)  # type: ignore[assignment]
        live.append((name, row))
        deltas.append((name, row, 1))
    chance.shuffle(deltas)
    return deltas


def tables_of(deltas: list[Delta]) -> dict[str, pa.Table]:
    """The deltas by relation."""
    tables = {}
    for relation in RELATIONS:
        rows = [(*row, weight) for name, row, weight in deltas if name == relation.name]
        if rows:
            types = [*(column.type for column in relation.columns), "int64"]
            names = [*(column.name for column in relation.columns), "weight"]
            arrays = [pa.array(words, type_) for words, type_ in zip(zip(*rows, strict=True), types, strict=True)]
            tables[relation.name] = pa.table(dict(zip(names, arrays, strict=True)))
    return tables


def changes_in(state: ShardState, tables: dict[str, pa.Table]) -> dict[str, Counter[tuple[Any, ...]]]:
    """What a step changes in each view."""
    step = state.step_tables(tables)
    assert not step.failed
    found = {}
    for name, table in step.changes.items():
        changed: Counter[tuple[Any, ...]] = Counter()
        for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
            changed[tuple(row)] += weight
        found[name] = changed
    return found


def check_state(state: ShardState) -> None:
    """Assert the invariants of every structure."""
    for structure in state._graph.structures.values():
        check = getattr(structure, "_check", None)
        if check is not None:
            check()


@pytest.mark.timeout(900)  # the compiler is niced: beside other tests it may take long
@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_strings_change_no_answer(
    program: Program, request: pytest.FixtureRequest, seed: int, *, is_compiled: bool
) -> None:
    """A state that is never saved, one that is saved now and then, and one that is restored change the same rows."""
    kernels = request.getfixturevalue("kernels") if is_compiled else None

    def begin() -> ShardState:
        state = ShardState(program, inputs="relations", kernels=kernels)
        state._look_for_kernels()
        assert state.is_compiled == is_compiled
        return state

    chance = random.Random(seed)
    untouched, saved, restored = begin(), begin(), begin()
    live: list[tuple[str, tuple[Any, ...]]] = []
    with patch.object(shard, "_SPARE_STRINGS", -(2**40)):  # every save numbers the strings anew
        for _ in range(16):
            tables = tables_of(draw_deltas(chance, live))
            if chance.random() < 0.4:
                saved.save_all()
            if chance.random() < 0.3:
                run, restored = restored.save_all(), begin()
                restored.apply_run(run)
            expected = changes_in(untouched, tables)
            assert changes_in(saved, tables) == expected
            assert changes_in(restored, tables) == expected
            for state in (untouched, saved, restored):
                check_state(state)
        assert saved.save_all() == untouched.save_all() == restored.save_all()
