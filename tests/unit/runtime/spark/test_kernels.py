"""Python workers load what the driver has had compiled, and do without what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from runtime.compiler import Column, NamedSelect, Relation, compile_program
from runtime.native.cache import KernelCache, KernelStatus
from runtime.native.tiers import Kernels
from runtime.spark.kernels import LoadedKernels, request_kernels, worker_kernels
from runtime.views.routing import payload_sources
from runtime.views.shard import ShardState

R = Relation("r", (Column("a", "int64"), Column("b", "int64")))


class FakeCache:
    """A cache folder that others fill, and the clock by which they do."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_on = True
        self.due_s: dict[str, float] = {}
        """Source → when it is in the folder."""
        self.requested: list[str] = []

    def get(self, source: str) -> Any:
        return (lambda address: 0) if self.due_s.get(source, 1e9) <= self.now_s else None

    def status(self) -> KernelStatus:
        return KernelStatus(
            is_on=self.is_on,
            reason="",
            llvmlite="",
            folder=Path(),
            size_bytes=0,
            kernels=0,
            linked=0,
            pending=0,
            failed=0,
        )

    def request(self, sources: Sequence[str]) -> None:
        self.requested += sources

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def loaded(self) -> LoadedKernels:
        return LoadedKernels(cast(KernelCache, self), lambda: self.now_s, self.sleep)


def test_a_worker_of_this_machine_compiles_nothing() -> None:
    cache = FakeCache()
    kernels = cache.loaded()
    kernels.request(["a"])
    assert kernels.get("a") is None
    assert not cache.requested


def test_kernels_are_waited_for_until_they_come() -> None:
    cache = FakeCache()
    cache.due_s = {"a": 1.0, "b": 3.0}
    assert cache.loaded().wait(["a", "b"], 10)
    assert 3 <= cache.now_s < 4


def test_a_kernel_that_does_not_come_is_waited_for_once() -> None:
    cache = FakeCache()
    cache.due_s = {"b": 1.0}
    kernels = cache.loaded()
    assert not kernels.wait(["a"], 5)
    assert 5 <= cache.now_s < 6
    begun_s = cache.now_s
    assert not kernels.wait(["a", "b"], 5)
    assert cache.now_s == begun_s
    cache.due_s["a"] = 0.0
    assert kernels.wait(["a"], 5)


def test_nothing_is_waited_for_where_kernels_are_interpreted() -> None:
    cache = FakeCache()
    cache.is_on = False
    assert not cache.loaded().wait(["a"], 5)
    assert cache.now_s == 0


def test_a_worker_has_one_set_of_kernels() -> None:
    assert worker_kernels(compiles=False) is worker_kernels(compiles=False)
    assert isinstance(worker_kernels(compiles=True), KernelCache)


def test_the_driver_asks_for_what_every_shard_will_run() -> None:
    program = compile_program(
        [
            NamedSelect("sums", "SELECT a, SUM(b) AS x FROM r GROUP BY a"),
            NamedSelect("total", "SELECT SUM(b) AS x FROM r"),
            NamedSelect("pairs", "SELECT SUM(x.b * y.b) AS x FROM r x, r y WHERE x.a = y.a"),
            NamedSelect("early", "SELECT MAX(b) AS x FROM r", lane="express"),
        ],
        [R],
    )
    cache = FakeCache()
    request_kernels(program, 3, cast(Kernels, cache)).join()
    alone = compile_program([NamedSelect(view.name, view.sql) for view in program.views if view.lane == "spark"], [R])
    run = {source for shard in range(3) for source in ShardState(alone, shard, 3).sources()}
    assert set(cache.requested) == run.union(payload_sources(alone))
    assert len(cache.requested) == len(set(cache.requested))
