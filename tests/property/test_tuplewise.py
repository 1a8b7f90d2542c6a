"""The tuple-wise kernel says what the SQL says, one delta at a time, and what the kernel for batches says.

Each query of the corpora of joins and selections alone, against the obvious interpreter after every delta and DuckDB
from scratch after every few; then all of them as views of one program, where they share what is kept.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from datetime import date, datetime
from functools import cache
from math import isnan
from typing import Any, Literal

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queries import query_path
from runtime.compiler import MARKET_RELATIONS, Column, NamedSelect, Program, Relation, compile_program, read_script
from runtime.compiler.program import Linear
from runtime.views.tuplewise import TuplewiseProgram
from tests.generators.deltas import Row, Shards, market_rows
from tests.generators.factored import FactoredState
from tests.generators.programs import normal, run_view
from tests.property.test_compiler import CASES, HUGE, SMALL, Case, Order, finance
from tests.property.test_compiler import RELATIONS as CASE_RELATIONS
from tests.property.test_shard import ORDER, ask_oracle, begin_oracle, draw_deltas
from tests.unit.runtime.compiler.test_factored import FINANCE, JOINS, MODES, RELATIONS, SELECTIONS, compiled, streams

Mode = Literal["sql", "dbtoaster"]


class Kernel:
    """A kernel, and what its changes add up to."""

    def __init__(self, program: Program) -> None:
        self.held = TuplewiseProgram(program)
        self.views = [view.name for view in program.views if view.name not in self.held.unsupported]
        self.results = {name: Counter(self.held.result(name)) for name in self.views}

    def step(self, deltas: Mapping[str, Any]) -> None:
        """Rows of each relation with their weights, one after the other."""
        for relation, rows in deltas.items():
            for row, weight in rows:
                for view, values, number in self.held.apply(relation, row, weight):
                    result = self.results[view]
                    result[values] += number
                    assert result[values] >= 0, f"{view}: a row taken away that was not there"
                    if not result[values]:
                        del result[values]
        self.held._check()

    def rows(self, view: str) -> Counter[Row]:
        """The view's rows."""
        assert self.results[view] == self.held.result(view)
        found: Counter[Row] = Counter()
        for row, number in self.results[view].items():
            found[normal(row)] += number
        return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sql", [*JOINS, *SELECTIONS])
def test_a_query_alone(sql: str, mode: Mode) -> None:
    made, oracle = compiled(NamedSelect("v", sql), RELATIONS, mode)
    kernel, state = Kernel(made), FactoredState(made, made.views[0])
    assert kernel.held.unsupported == {}
    live: Counter[tuple[str, Row]] = Counter()
    for step in streams(made.relations, random.Random(sql), 3):
        for relation, rows in step["deltas"].items():
            for delta in rows:
                live[relation, delta[0]] += delta[1]
                kernel.step({relation: [delta]})
                state.step({relation: [delta]})
                live = Counter({row: number for row, number in live.items() if number})
                if live == +live:  # else what a sum over a row too few and one too many is, is open
                    assert kernel.rows("v") == state.rows(), live
        assert kernel.rows("v") == run_view(oracle, oracle.views[0], step["data"]), step["data"]
    for (relation, row), number in live.items():
        kernel.step({relation: [(row, -number)]})
    assert kernel.held.entries() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_all_queries_as_views_of_one_program_say_what_the_kernel_for_batches_says(seed: int, mode: Mode) -> None:
    selects = [NamedSelect(f"v{place}", sql) for place, sql in enumerate([*JOINS, *SELECTIONS])]
    program = compile_program(selects, RELATIONS, mode=mode)
    kernel, shards = Kernel(program), Shards(program, 2)
    assert kernel.held.unsupported == {}
    for step in streams(program.relations, random.Random(seed), 3):
        kernel.step(step["deltas"])
        assert shards.step([step["deltas"]]) == {}
        for view in kernel.views:
            assert kernel.rows(view) == shards.result(view), (view, step["data"])


@cache
def corpus(mode: Mode) -> tuple[Program, tuple[Case, ...]]:
    """The queries of the compiler's corpus as views of one program."""
    cases = tuple(case for case in CASES if case.mode == mode)
    selects = [NamedSelect(f"v{place}", case.sql) for place, case in enumerate(cases)]
    return compile_program(selects, CASE_RELATIONS, mode=mode), cases


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("integers", [SMALL, HUGE], ids=["small", "huge"])
@settings(max_examples=3, deadline=None)
@given(data=st.data())
def test_the_corpus_equals_its_sql(integers: st.SearchStrategy[int], mode: Mode, data: st.DataObject) -> None:
    program, cases = corpus(mode)
    kernel = Kernel(program)
    assert {view.name for view in program.views if isinstance(view.body, Linear)} <= {*kernel.views}
    held: dict[str, list[Row]] = {relation.name: [] for relation in CASE_RELATIONS}
    for _ in range(data.draw(st.integers(1, 4), "versions")):
        deltas = {r.name: draw_deltas(data, r, integers, held[r.name]) for r in CASE_RELATIONS}
        kernel.step({relation.name: deltas[relation.name] for relation in program.relations})
        begin_oracle(CASE_RELATIONS, held)
        for place, case in enumerate(cases):
            if f"v{place}" in kernel.views:
                try:
                    expected = ask_oracle(case.oracle or case.sql)
                except duckdb.OutOfRangeException:
                    continue  # past 128 bits, which is no limit here, not even the oracle can say
                assert kernel.rows(f"v{place}") == expected, f"{case.sql} on {held}"


@cache
def finance_program(mode: Mode) -> Program:
    scripts = [read_script(query_path(name)) for name in FINANCE]
    return compile_program([s for script in scripts for s in script.selects], scripts[0].relations, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_finance_queries_equal_nested_loops_after_every_order(mode: Mode, data: st.DataObject) -> None:
    kernel = Kernel(finance_program(mode))
    assert kernel.views == list(FINANCE)
    held: dict[str, list[Order]] = {"bids": [], "asks": []}
    for _ in range(data.draw(st.integers(1, 12), "orders")):
        side = data.draw(st.sampled_from(["bids", "asks"]))
        rows = held[side]
        if rows and data.draw(st.integers(0, 2), "removed") == 0:
            delta = rows.pop(data.draw(st.integers(0, len(rows) - 1))), -1
        else:
            rows.append(data.draw(ORDER))
            delta = rows[-1], 1
        kernel.step({side: [delta]})
        for name in FINANCE:
            assert kernel.rows(name) == finance(name, held["bids"], held["asks"], mode == "dbtoaster"), name


@pytest.mark.parametrize("seed", range(2))
def test_the_live_views_that_it_has_equal_the_kernel_for_batches(seed: int) -> None:
    names = ("book_ages", "book_depth", "broker_levels", "broker_volume", "imbalance", "trade_moments", "vwap_book")
    program = compile_program([s for n in names for s in read_script(query_path(n)).selects], MARKET_RELATIONS)
    kernel, shards = Kernel(program), Shards(program, 1)
    assert "book_depth" in kernel.views
    for deltas, _ in market_rows(seed, versions=10):
        read = {relation.name: deltas[relation.name] for relation in program.relations}
        kernel.step(read)
        shards.step([deltas])
        for view in kernel.views:
            assert kernel.rows(view) == shards.result(view), view


MOMENTS = Relation("m", (Column("d", "date", nullable=True), Column("t", "timestamp"), Column("f", "float64"),
                         Column("s", "string", nullable=True), Column("i", "int64", nullable=True)))  # fmt: skip
OPERATIONS = (
    "SELECT EXTRACT(year FROM d) AS y, EXTRACT(month FROM t) AS m, SUM(i + EXTRACT(second FROM t)) FROM m GROUP BY ALL",
    "SELECT d, COUNT(*) AS c FROM m WHERE d >= DATE '2024-02-29' OR t < TIMESTAMP '2024-01-01 10:00:00' GROUP BY d",
    "SELECT s, SUM(i) AS x FROM m WHERE s LIKE 'a_%' OR s NOT LIKE '%c' GROUP BY s",
    "SELECT GREATEST(f, 0.5) AS g, LEAST(f, 1e3) AS l, COALESCE(s, 'none') AS n FROM m",
    "SELECT s, AVG(i) AS a, STDDEV(i) AS v, COUNT(i) AS c FROM m GROUP BY s",
    "SELECT f, CASE WHEN f > 1 THEN 'large' WHEN f IS NULL THEN NULL ELSE s END AS c, COUNT(*) FROM m GROUP BY ALL",
)
MOMENT = st.tuples(
    st.none() | st.sampled_from([date(2024, 2, 29), date(1969, 12, 31)]),
    st.sampled_from([datetime(2024, 1, 1, 9, 59, 59, 999999), datetime(1950, 3, 4)]),  # noqa: DTZ001  # as SQL's
    st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300]),
    st.none() | st.sampled_from(["abc", "ab", "a", "", "xc\n"]),
    st.none() | st.integers(-9, 9),
)


def comparable(rows: Counter[Any]) -> Counter[Any]:
    """The rows with NaN, which equals nothing, as a text: the deviation of numbers some of which are there -1 times."""
    found: Counter[Any] = Counter()
    for row, number in rows.items():
        found[tuple("NaN" if isinstance(value, float) and isnan(value) else value for value in row)] += number
    return found


@settings(max_examples=8, deadline=None)
@given(st.lists(st.tuples(MOMENT, st.sampled_from([1, 1, 2, -1])), max_size=12))
def test_operations_on_dates_texts_and_floats_are_those_of_the_kernel_for_batches(deltas: list[Any]) -> None:
    program = compile_program([NamedSelect(f"v{n}", sql) for n, sql in enumerate(OPERATIONS)], [MOMENTS])
    kernel, shards = Kernel(program), Shards(program, 1)
    assert kernel.views == [view.name for view in program.views if isinstance(view.body, Linear)]
    assert len(kernel.views) >= 4
    for start in range(0, len(deltas), 3):
        kernel.step({"m": deltas[start : start + 3]})
        assert shards.step([{"m": deltas[start : start + 3]}]) == {}
        for view in kernel.views:
            assert comparable(kernel.rows(view)) == comparable(shards.result(view)), (view, deltas)
