"""The view program in this process, without Spark, the program's answers, and the check of these answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import pyarrow as pa

from bench.compiledshard import compiled_shard
from bench.views.cases import Case, program_of
from bench.views.handwritten import HANDWRITTEN, Answer, Columns
from bench.views.market import Market
from bench.views.polars_frames import PolarsFrames
from bench.views.scratch import answer_of
from runtime.compiler import Program, Reevaluated
from runtime.views import Step, ViewError

__all__ = ["Answers", "Hosted", "WrongAnswerError", "check", "columns_of", "is_incremental"]

_CHECKED_SIZES = (1, 7, 100, 3, 1000, 2, 500)
_WRITTEN_ORDERS = 300
"""Number of orders for SQL in its original form, in which some queries pair every order with every other order."""


class WrongAnswerError(AssertionError):
    """Two programs that are to be compared disagree."""


class Hosted:
    """View program in this process, which takes Arrow tables of deltas and returns changes; every kernel is compiled
    beforehand.
    """

    def __init__(self, program: Program, *, keeps_taken: bool = False) -> None:
        """Compile a program; with ``keeps_taken``, rows are stored for `ShardState.save`."""
        self.program = program
        self.shard = compiled_shard(program, inputs="relations")
        self.shard.keeps_taken = keeps_taken

    def apply(self, tables: Mapping[str, pa.Table]) -> Step:
        """Apply one version; raise `ViewError` if a view fails."""
        step = self.shard.step_tables(tables)
        if step.failed:
            raise ViewError(f"expected every view to go on, was {step.failed}")
        return step


class Answers:
    """The rows of a program's views, summed from its changes."""

    def __init__(self) -> None:
        self._rows: dict[str, Counter[tuple[int | None, ...]]] = {}

    def take(self, changes: Mapping[str, pa.Table]) -> None:
        """Add a version's changes, by view."""
        for view, table in changes.items():
            *columns, weight = (column.to_pylist() for column in table.columns)
            for values, count in zip(zip(*columns, strict=True), weight, strict=True):
                self.add(view, values, count)

    def add(self, view: str, row: tuple[Any, ...], count: int) -> None:
        """Add one changed row."""
        self._rows.setdefault(view, Counter())[tuple(None if v is None else int(v) for v in row)] += count

    def all_rows(self) -> dict[str, Answer]:
        """Return the rows of every view that has had any."""
        return {view: self.rows(view) for view in self._rows}

    def rows(self, view: str) -> Answer:
        """Return the sorted rows of a view for comparison; a row with a negative count appears as often as the absolute
        value of the count.
        """
        return sorted(
            (row for row, count in self._rows.get(view, Counter()).items() for _ in range(abs(count))), key=repr
        )


def is_incremental(program: Program) -> bool:
    """Return True if no view is recomputed from its state; a case with such a view is left out of the timings."""
    return not any(isinstance(view.body, Reevaluated) for view in program.views)


def columns_of(tables: Mapping[str, pa.Table]) -> dict[str, Columns]:
    """Return a batch as the hand-written programs take it, without copies."""
    return {
        name: {column: table.column(column).to_numpy() for column in table.column_names}
        for name, table in tables.items()
    }


def check(case: Case, live_orders: int) -> None:
    """Check that program, hand-written program, Polars and DuckDB agree after each of some batches; raise
    `WrongAnswerError` if two of them disagree.
    """
    for orders, is_written in ((_WRITTEN_ORDERS, True), (live_orders, False)):
        for number, (answer, other) in enumerate(_answers(case, orders, is_written)):
            if answer != other:
                raise WrongAnswerError(
                    f"expected {other[:3]} for {case.name} after batch {number} at {orders} live orders a side, "
                    f"was {answer[:3]}"
                )


def _answers(case: Case, live_orders: int, is_written: bool) -> Iterator[tuple[Answer, Answer]]:
    market, hosted, answers = Market(live_orders, 7), Hosted(program_of(case)), Answers()
    handwritten = HANDWRITTEN[case.name]() if case.name in HANDWRITTEN else None
    frames = PolarsFrames(case.name, {name: rows.slice(0, 0) for name, rows in market.live(case.relations).items()})
    with duckdb.connect() as connection:
        for size in (0, *_CHECKED_SIZES):
            tables = market.batch(size, case.relations) if size else market.first(case.relations)
            by_hand = sorted(handwritten.apply(columns_of(tables)), key=repr) if handwritten else None
            answers.take(hosted.apply(tables).changes)
            for name, rows in market.live(case.relations).items():
                connection.register(name, rows)
            found = answers.rows(case.name)
            if by_hand is not None:
                yield found, by_hand
            yield found, sorted(frames.apply(tables), key=repr)
            yield found, answer_of(connection, case.tuned)
            if is_written:
                yield found, answer_of(connection, case.sql, case.factor)
