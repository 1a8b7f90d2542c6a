"""Many rows are worth a wait for the compiler, few are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.native.tiers import await_kernels
from runtime.plan import Col, Key, Map, Sum
from runtime.views.code import kernel_code
from runtime.views.preaggregate import Preaggregation
from runtime.views.shard import ShardState

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))
SUMS = compile_program([NamedSelect("v", "SELECT a, SUM(b) AS x FROM r GROUP BY a")], [R])


class NoKernels:
    """A compiler that never comes to an end."""

    def __init__(self) -> None:
        self.requested: list[str] = []
        self.waits: list[tuple[list[str], float]] = []

    def get(self, source: str) -> None:
        return None

    def request(self, sources: Sequence[str]) -> None:
        self.requested += sources

    def wait(self, sources: Sequence[str], timeout_s: float) -> bool:
        self.waits.append((list(sources), timeout_s))
        return False


def deltas(rows: int) -> pa.Table:
    numbers = np.arange(rows)
    return pa.table({"a": numbers % 7, "b": numbers, "weight": np.ones(rows, np.int64)})


def test_few_rows_are_interpreted_at_once() -> None:
    kernels = NoKernels()
    assert not await_kernels(kernels, ["a"], 20_000)
    assert not kernels.waits


@pytest.mark.parametrize(("rows", "seconds"), [(100_000, 0.5), (10**9, 60.0)])
def test_a_wait_is_no_longer_than_interpreting_the_rows(rows: int, seconds: float) -> None:
    kernels = NoKernels()
    assert await_kernels(kernels, ["a"], rows)
    assert kernels.waits == [(["a"], seconds)]


def test_a_shard_asks_at_once_and_waits_before_many_rows() -> None:
    kernels = NoKernels()
    state = ShardState(SUMS, inputs="relations", kernels=kernels)
    assert kernels.requested == state.sources()
    state.step_tables({"r": deltas(100)})
    assert not kernels.waits
    state.step_tables({"r": deltas(25_000)})
    assert len(kernels.waits) == 1
    assert set(kernels.waits[0][0]) <= set(state.sources())


def test_totals_of_a_map_wait_before_many_rows() -> None:
    kernels = NoKernels()
    maps = Preaggregation(R, [Map(0, "r", None, (Key("a", "int64", Col("a")),), (Sum("x", Col("b")),))])
    maps.payloads(deltas(100), kernels)
    assert not kernels.waits
    maps.payloads(deltas(25_000), kernels)
    assert kernels.waits == [(maps.sources()[:1], 0.125)]


def test_code_for_people_has_plain_titles() -> None:
    text = kernel_code(SUMS, "v")
    titles = [line for line in text.splitlines() if line.startswith("# kernel ")]
    assert titles[0] == "# kernel 1: adds rows up by key"
    assert not [title for title in titles if '"' in title]
    assert all(f"`{name}" in text for name in ("wide(", "locate(", "touch("))
