"""A shard's changes add up to what the SQL says, at every version, on any number of shards and across restarts.

The oracle is other SQL over HUGEINT columns, from scratch by DuckDB, or nested loops for the finance queries.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any, Literal, cast

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import QUERIES_DIR, query_path
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, Relation, compile_program, read_script
from runtime.epochs import Segment
from runtime.views import ShardState, deliveries
from tests.generators.database import kept
from tests.generators.deltas import FakeSegment, Row, Shards, market_rows
from tests.generators.programs import fill, normal
from tests.harness.examples import examples
from tests.property.test_compiler import CASES, HUGE, RELATIONS, SMALL, Case, finance
from tests.upgrade.make_states import VIEWS

Rows = dict[str, list[Row]]
KINDS = {"int64": "HUGEINT", "float64": "DOUBLE", "string": "VARCHAR"}
LIVE = (
    "best_quote",
    "book_ages",
    "book_depth",
    "broker_levels",
    "broker_volume",
    "depth_top5",
    "imbalance",
    "tape",
    "trade_moments",
    "trades_1s",
    "vwap_book",
    "vwap_trades",
)
FINANCE = ("axf", "bsp", "bsv", "mst", "psp", "vwap")


@kept
def connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def begin_oracle(relations: tuple[Relation, ...], held: Rows) -> None:
    for relation in relations:
        fill(connection(), relation.name, [(c.name, KINDS[c.type]) for c in relation.columns], held[relation.name])


def ask_oracle(sql: str) -> Counter[Row]:
    return Counter(normal(row) for row in connection().execute(sql).fetchall())


@cache
def corpus(part: int) -> tuple[Program, tuple[Case, ...]]:
    """Every fourth query of the compiler's corpus as the views of one program."""
    cases = tuple(case for case in CASES if case.mode == "sql")[part::4]
    selects = [NamedSelect(f"v{place}", case.sql) for place, case in enumerate(cases)]
    return compile_program(selects, RELATIONS), cases


def row_of(relation: Relation, integers: st.SearchStrategy[int]) -> st.SearchStrategy[Row]:
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "int64": integers,
        "float64": st.sampled_from([-1.5, -0.0, 0.0, 0.25, 1.5, 2.0, 1e6]),
        "string": st.sampled_from(["x", "y", "xyz", ""]),
    }
    columns = [st.none() | kinds[c.type] if c.nullable else kinds[c.type] for c in relation.columns]
    return st.tuples(*columns)


def check_stream(data: st.DataObject, part: int, integers: st.SearchStrategy[int]) -> None:
    program, cases = corpus(part)
    shards = Shards(program, data.draw(st.integers(1, 3), "shards"))
    held: Rows = {relation.name: [] for relation in RELATIONS}
    refused: set[str] = set()
    for _ in range(data.draw(st.integers(1, 4), "versions")):
        segments = []
        for _ in range(data.draw(st.integers(1, 2), "segments")):
            deltas = {
                relation.name: draw_deltas(data, relation, integers, held[relation.name]) for relation in RELATIONS
            }
            segments.append(deltas)
        failed = shards.step(segments)
        begin_oracle(RELATIONS, held)
        for place, case in enumerate(cases):
            name = f"v{place}"
            refused |= {name} & set(failed)
            if name in refused:
                check_refused_with_need(case, failed.get(name))
                continue
            try:
                expected = ask_oracle(case.oracle or case.sql)
            except duckdb.OutOfRangeException:
                refused.add(name)  # past 128 bits not even the oracle can say
                continue
            assert shards.result(name) == expected, f"{case.sql} on {held}"
        restart = data.draw(st.sampled_from(["", "runs", "base"]), "restart")
        if restart:
            shards = shards.restarted(from_base=restart == "base")


def draw_deltas(
    data: st.DataObject, relation: Relation, integers: st.SearchStrategy[int], held: list[Row]
) -> list[tuple[Row, int]]:
    """Deltas of one relation: rows added, some of them twice, rows there taken away, and some both."""
    deltas: list[tuple[Row, int]] = []
    for row in data.draw(st.lists(row_of(relation, integers), max_size=4), f"{relation.name} added"):
        times = data.draw(st.sampled_from([1, 1, 2]))
        deltas.append((row, times))
        held += [row] * times
    for _ in range(data.draw(st.integers(0, min(2, len(held))), f"{relation.name} removed")):
        row = held.pop(data.draw(st.integers(0, len(held) - 1)))
        deltas.append((row, -1))
    return deltas


def check_refused_with_need(case: Case, reason: str | None) -> None:
    """A view that was refused had a value that no column of it could hold, and says so."""
    if reason is None:
        return
    assert "expected" in reason, reason
    try:
        expected = ask_oracle(case.oracle or case.sql)
    except duckdb.OutOfRangeException:
        return
    widest = max((abs(value) for row in expected for value in row if isinstance(value, int)), default=0)
    is_deep = "*" in case.sql or "SUM" in case.sql or "+" in case.sql
    assert widest >= 2**94 or is_deep, f"{case.sql}: refused without need: {reason}"


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_changes_add_up_to_what_the_sql_says(part: int, data: st.DataObject) -> None:
    check_stream(data, part, SMALL)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@settings(max_examples=examples(20), deadline=None)
@given(data=st.data())
def test_many_changes_add_up_to_what_the_sql_says(part: int, data: st.DataObject) -> None:
    check_stream(data, part, data.draw(st.sampled_from([SMALL, HUGE])))


@pytest.mark.parametrize("part", range(4))
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_changes_add_up_near_the_edge_of_int64(part: int, data: st.DataObject) -> None:
    check_stream(data, part, HUGE)


@cache
def dbtoaster_corpus() -> tuple[Program, tuple[Case, ...]]:
    cases = tuple(case for case in CASES if case.mode == "dbtoaster")
    selects = [NamedSelect(f"v{place}", case.sql) for place, case in enumerate(cases)]
    return compile_program(selects, RELATIONS, mode="dbtoaster"), cases


@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_sum_of_nothing_is_zero_in_the_mode_that_says_so(data: st.DataObject) -> None:
    program, cases = dbtoaster_corpus()
    shards = Shards(program, 2)
    held: Rows = {relation.name: [] for relation in RELATIONS}
    for _ in range(3):
        shards.step([{r.name: draw_deltas(data, r, SMALL, held[r.name]) for r in RELATIONS}])
        begin_oracle(RELATIONS, held)
        for place, case in enumerate(cases):
            assert shards.result(f"v{place}") == ask_oracle(case.oracle or case.sql), case.sql


@cache
def finance_program(mode: Literal["sql", "dbtoaster"]) -> Program:
    scripts = [read_script(query_path(name)) for name in FINANCE]
    return compile_program([s for script in scripts for s in script.selects], scripts[0].relations, mode=mode)


ORDER = st.tuples(
    st.integers(0, 4),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([1, 2, 100, 30000]),
    st.sampled_from([1, 2, 5, 1500, 3000]),
)


@pytest.mark.parametrize("mode", ["sql", "dbtoaster"])
@settings(max_examples=examples(10), deadline=None)
@given(data=st.data())
def test_the_finance_queries_equal_nested_loops(mode: Literal["sql", "dbtoaster"], data: st.DataObject) -> None:
    program = finance_program(mode)
    shards = Shards(program, data.draw(st.integers(1, 3), "shards"))
    held: dict[str, list[Any]] = {"bids": [], "asks": []}
    for _ in range(3):
        deltas: dict[str, list[tuple[Row, int]]] = {}
        for side, rows in held.items():
            added: list[Any] = data.draw(st.lists(ORDER, max_size=4))
            rows.extend(added)
            deltas[side] = [(row, 1) for row in added]
            if rows and data.draw(st.sampled_from([0, 1])):
                deltas[side].append((rows.pop(data.draw(st.integers(0, len(rows) - 1))), -1))
        assert shards.step([deltas]) == {}
        for name in FINANCE:
            assert shards.result(name) == finance(name, held["bids"], held["asks"], mode == "dbtoaster"), name
        shards = shards.restarted(from_base=data.draw(st.booleans()))


@cache
def live_program() -> Program:
    views = {path.stem for path in QUERIES_DIR.glob("*.sql") if read_script(path).selects}
    assert views - set(FINANCE) == set(LIVE)
    return compile_program([s for name in LIVE for s in read_script(query_path(name)).selects], MARKET_RELATIONS)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_live_views_equal_their_sql(seed: int, shards: int) -> None:
    """Orders and trades of two symbols come and go; every view that ships, at every version."""
    states = Shards(live_program(), shards)
    for place, (deltas, held) in enumerate(market_rows(seed, versions=12)):
        assert states.step([deltas]) == {}
        begin_oracle(MARKET_RELATIONS, held)
        for name in LIVE:
            (select,) = read_script(query_path(name)).selects
            assert states.result(name) == ask_oracle(select.sql), f"{name} at {place}"
        if place % 4 == 3:
            states = states.restarted(from_base=place % 8 == 3)


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("seed", range(2))
def test_runs_do_not_depend_on_what_memory_went_through(shards: int, seed: int) -> None:
    """A shard that was never restored, and those that were at other times, write the same bytes.

    Spark lets an attempt that it took for lost write over the files of the one that counts.
    """
    selects = [NamedSelect(name, sql) for name, sql in VIEWS.items()]
    selects += [NamedSelect(name, query_path(name).read_text()) for name in ("trades_1s", "book_ages")]
    program = compile_program(selects, MARKET_RELATIONS)
    states = [ShardState(program, shard, shards) for shard in range(shards)]
    chains: list[list[bytes]] = [[] for _ in states]
    others: list[list[ShardState]] = [[] for _ in states]
    for version, (deltas, _) in enumerate(market_rows(seed, 30)):
        segment = cast(Segment, FakeSegment(program.relations, deltas))
        delivered = list(deliveries(program, [segment], shards))
        for shard, state in enumerate(states):
            for each in (state, *others[shard]):
                each.step((d.part, d.deltas) for d in delivered if d.shard == shard)
            is_base = version % 7 == 3
            run = state.save_all() if is_base else state.save()
            assert all((other.save_all() if is_base else other.save()) == run for other in others[shard])
            chains[shard] = [run] if is_base else [*chains[shard], run]
            if version % 5 == 2:
                again = ShardState(program, shard, shards)
                for each_run in chains[shard]:
                    again.apply_run(each_run)
                others[shard].append(again)
    for state, rest in zip(states, others, strict=True):
        assert {other.save_all() for other in rest} == {state.save_all()}
