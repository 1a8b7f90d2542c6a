"""Rows taken in one by one by one call give what a step for each of them gives, in both tiers."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from runtime.compiler import NamedSelect, compile_program
from runtime.native.cache import KernelCache
from runtime.plan import Column, Program, Relation
from runtime.views.errors import ViewError
from runtime.views.graph import Change
from runtime.views.shard import ShardState

COLUMNS: Final = ("t", "broker_id", "price", "symbol")
RELATIONS: Final = [
    Relation(
        name,
        (
            Column("t", "int64"),
            Column("broker_id", "int64"),
            Column("price", "int64"),
            Column("symbol", "string", True),
        ),
    )
    for name in ("bids", "asks")
]
VIEWS: Final = {
    "by_broker": "SELECT broker_id, SUM(price) AS value, COUNT(*) AS n FROM bids GROUP BY broker_id",
    "by_symbol": "SELECT symbol, SUM(price) AS value FROM asks WHERE price > 3 GROUP BY symbol",
    "cheap": "SELECT price + 1 AS p, symbol FROM bids WHERE symbol < 'C' OR price = 2",
    "both": "SELECT symbol, price FROM bids UNION ALL SELECT symbol, price FROM asks",
    "cubes": "SELECT SUM(price * price * price) AS x FROM asks",
}
RECOMPUTED: Final = {"texts": "SELECT symbol, STRING_AGG(price::VARCHAR ORDER BY price) AS p FROM bids GROUP BY symbol"}
Row = tuple[str, tuple[Any, ...], int]


def program_of(views: dict[str, str]) -> Program:
    return compile_program([NamedSelect(name, sql) for name, sql in views.items()], RELATIONS)


def shard_of(program: Program, kernels: KernelCache | None = None) -> ShardState:
    shard = ShardState(program, inputs="relations", kernels=kernels)
    shard.keeps_taken = False
    shard.step_rows([])
    return shard


def flow(count: int, seed: int) -> list[Row]:
    """Rows of both relations that come and go, in order."""
    chance = random.Random(seed)
    live: list[Row] = []
    rows: list[Row] = []
    for number in range(count):
        if live and chance.random() < 0.45:
            name, row, _ = live.pop(chance.randrange(len(live)))
            rows.append((name, row, -1))
        else:
            symbol = chance.choice(["A", "B", "CC", None, f"S{number}"])
            rows.append(
                (chance.choice(["bids", "asks"]), (number, chance.randrange(200), chance.randrange(9), symbol), 1)
            )
            live.append(rows[-1])
    return rows


def tables_of(rows: list[Row]) -> tuple[dict[str, pa.Table], np.ndarray[Any, np.dtype[np.int64]]]:
    """The rows of each relation, and the relation of each row."""
    names = list(dict.fromkeys(name for name, _, _ in rows))
    tables = {}
    for name in names:
        given = [(*row, weight) for relation, row, weight in rows if relation == name]
        columns = zip(*given, strict=True)
        arrays = [pa.array(column, pa.string() if n == 3 else pa.int64()) for n, column in enumerate(columns)]
        tables[name] = pa.Table.from_arrays(arrays, names=[*COLUMNS, "weight"])
    return tables, np.array([names.index(name) for name, _, _ in rows], np.int64)


def one_by_one(program: Program, rows: list[Row], watched: set[str]) -> list[tuple[int, list[Change]]]:
    """What steps of one row each change in watched views."""
    shard = shard_of(program)
    given = [(number, shard.step_rows([row])) for number, row in enumerate(rows)]
    kept = [(number, [change for change in changes if change[0] in watched]) for number, changes in given]
    return [(number, changes) for number, changes in kept if changes]


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelCache:
    """A cache with the kernels of `VIEWS`."""
    cache = KernelCache(tmp_path_factory.mktemp("kernels"))
    report = cache.compile_now(ShardState(program_of(VIEWS), inputs="relations").sources())
    assert not report.failures
    return cache


@pytest.mark.parametrize("watched", [set(VIEWS), {"by_symbol"}, set()], ids=["all", "one", "none"])
def test_events_give_what_steps_of_one_row_give(watched: set[str]) -> None:
    program, rows = program_of(VIEWS), flow(300, 1)
    events = shard_of(program).events(*tables_of(rows), watched=watched)
    assert list(events) == one_by_one(program, rows, watched)
    assert events.done == len(rows)


@pytest.mark.slow
@pytest.mark.parametrize("watched", [set(VIEWS), {"by_symbol"}, set()], ids=["all", "one", "none"])
def test_compiled_events_give_what_steps_give(watched: set[str], kernels: KernelCache) -> None:
    program, rows = program_of(VIEWS), flow(3000, 2)
    shard = shard_of(program, kernels)
    assert shard.is_compiled
    events = shard.events(*tables_of(rows), watched=watched)
    assert list(events) == one_by_one(program, rows, watched)
    assert events.done == len(rows)


@pytest.mark.slow
def test_compiled_steps_give_what_interpreted_ones_give(kernels: KernelCache) -> None:
    """Arrow tables too, whose columns the compiled graph binds without numpy."""
    program, rows = program_of(VIEWS), flow(400, 3)
    interpreted, compiled = shard_of(program), shard_of(program, kernels)
    for begin in range(0, len(rows), 7):
        some = rows[begin : begin + 7]
        assert sorted(interpreted.step_rows(some), key=repr) == sorted(compiled.step_rows(some), key=repr)
    for begin in range(0, len(rows), 50):
        tables, _ = tables_of([(name, row, -weight) for name, row, weight in rows[begin : begin + 50]])
        given = [shard.step_tables(tables).changes for shard in (interpreted, compiled)]
        assert given[0].keys() == given[1].keys()
        for name, table in given[0].items():
            assert as_bag(table) == as_bag(given[1][name])


def as_bag(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_rows_are_counted_also_of_views_that_nobody_watches() -> None:
    program, rows = program_of({"by_broker": VIEWS["by_broker"]}), flow(100, 4)
    events = shard_of(program).events(*tables_of(rows))
    assert list(events) == []
    assert events.rows == sum(len(changes) for _, changes in one_by_one(program, rows, {"by_broker"}))


def test_steps_may_be_taken_between_events() -> None:
    program, rows, others = program_of(VIEWS), flow(200, 5), flow(40, 6)
    watched = {"by_broker"}
    shard, reference = shard_of(program), shard_of(program)
    given, expected = [], []
    pending = list(others)
    events = shard.events(*tables_of(rows), watched=watched)
    for _, changes in events:
        given += changes
        if pending:
            given += [change for change in shard.step_rows([pending.pop()]) if change[0] in watched]
    pending = list(others)
    for row in rows:
        changes = [change for change in reference.step_rows([row]) if change[0] in watched]
        expected += changes
        if changes and pending:
            expected += [change for change in reference.step_rows([pending.pop()]) if change[0] in watched]
    assert given == expected


def test_recomputed_views_are_answered_after_every_event() -> None:
    program, rows = program_of({**VIEWS, **RECOMPUTED}), flow(60, 7)
    watched = {"texts", "cheap"}
    assert list(shard_of(program).events(*tables_of(rows), watched=watched)) == one_by_one(program, rows, watched)


def test_a_view_that_fails_at_an_event_leaves_the_others_going() -> None:
    program, rows = program_of(VIEWS), flow(100, 8)
    rows[50] = ("asks", (50, 1, 2**62, "A"), 1)
    watched = set(VIEWS)
    shard = shard_of(program)
    given = list(shard.events(*tables_of(rows), watched=watched))
    assert given == one_by_one(program, rows, watched)
    assert list(shard.failed) == ["cubes"]
    assert any(number > 50 for number, _ in given)
    assert list(shard.step_tables({}).failed) == ["cubes"]


def test_an_order_must_count_every_row_of_every_table() -> None:
    tables, order = tables_of(flow(20, 9))
    with pytest.raises(ViewError, match="expected an order"):
        shard_of(program_of(VIEWS)).events(tables, order[1:])


def test_relations_that_no_view_reads_are_passed_over() -> None:
    program, rows = program_of({"by_broker": VIEWS["by_broker"]}), flow(80, 10)
    watched = {"by_broker"}
    events = shard_of(program).events(*tables_of(rows), watched=watched)
    assert list(events) == one_by_one(program, rows, watched)
    assert events.done == len(rows)
