"""Views show dates and timestamps of the years 1 to 9999; a view with another one fails alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.views import ShardState
from tests.generators.deltas import delta_table

R: Final = Relation("r", (Column("a", "int64"), Column("at", "timestamp")))
VIEWS: Final = {
    "plain": "SELECT a, at FROM r",
    "moved": "SELECT a, at + INTERVAL 1 DAY AS x FROM r",
    "latest": "SELECT MAX(at + INTERVAL 1 DAY) AS x FROM r",
    "far": "SELECT a, CAST(at AS DATE) + CAST(1000000 * a AS INTEGER) AS x FROM r",
    "endless": "SELECT a, CASE WHEN a > 1 THEN CAST('infinity' AS TIMESTAMP) END AS x FROM r",
    "compared": "SELECT a, at + INTERVAL 1 DAY > CAST('infinity' AS TIMESTAMP) AS x FROM r",
}
GOOD: Final = (0, datetime(2024, 2, 28, 12))  # noqa: DTZ001 - the column has no zone
BAD: Final = (9, datetime(9999, 12, 31, 12))  # noqa: DTZ001 - as above
Changed = dict[str, list[tuple[Any, ...]]]


def by_tables(shard: ShardState, row: tuple[Any, ...]) -> Changed:
    """Step with a table, as in both lanes; returns the added rows by view."""
    changes: Mapping[str, pa.Table] = shard.step_tables({"r": delta_table(R, [(row, 1)])}).changes
    return {name: [tuple(line.values())[:-1] for line in table.to_pylist()] for name, table in changes.items()}


def by_rows(shard: ShardState, row: tuple[Any, ...]) -> Changed:
    """Step with a row, as in the express lane."""
    changed: Changed = {}
    for name, values, _ in shard.step_rows([("r", row, 1)]):
        changed.setdefault(name, []).append(values)
    return changed


def by_events(shard: ShardState, row: tuple[Any, ...]) -> Changed:
    """Step by an event, as a backtest does."""
    changed: Changed = {}
    for _, changes in shard.events({"r": delta_table(R, [(row, 1)])}, watched=VIEWS):
        for name, values, _ in changes:
            changed.setdefault(name, []).append(values)
    return changed


@pytest.mark.parametrize("step", [by_tables, by_rows, by_events])
def test_a_moment_beyond_the_calendar_fails_its_view(step: Callable[[ShardState, tuple[Any, ...]], Changed]) -> None:
    program = compile_program([NamedSelect(name, sql) for name, sql in VIEWS.items()], [R])
    shard = ShardState(program, inputs="relations")
    step(shard, GOOD)
    assert shard.failed == {}
    changed = step(shard, BAD)
    assert set(shard.failed) == {"moved", "latest", "far", "endless"}
    assert set(shard.failed.values()) == {"expected dates and timestamps of the years 1 to 9999, was another one"}
    assert changed == {"plain": [BAD], "compared": [(9, False)]}
