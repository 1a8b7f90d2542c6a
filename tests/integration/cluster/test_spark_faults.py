"""Spark's standalone cluster loses workers, executors, its master and its driver: the answers are exact.

The trace is replayed at once and published in small batches, one after the other without a pause, so that whatever is
lost is lost in the middle of a batch.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from queries import query_path
from tests.integration._killed import Held
from tests.integration._processes import Results, Running, await_end_of_java, exchange, feed, feed_position, runtime
from tests.integration.cluster._standalone import Standalone

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1500)]

VIEWS = [query_path(name) for name in ("book_depth", "vwap_book", "broker_volume", "best_quote")]
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--speed", "max"]
SMALL = ["--epoch-messages", "50", "--max-epochs-per-batch", "1", "--shards", "4"]


class Flow:
    """A runtime on the cluster whose batches follow each other, and what became of the faults."""

    def __init__(self, directory: Path, cluster: Standalone) -> None:
        self._place, self._cluster = directory / "runtime", cluster
        self.market = exchange(directory / "exchange", *REPLAY, "--start-on", "1")
        self.port = self.market.ready().ports["text"]
        self.held = Held(self._place, VIEWS, [], lambda begin, until: feed(self.port, until, begin))
        self.engine = self.start()

    def start(self) -> Running:
        """A runtime that begins, or goes on."""
        return runtime(self._place, self.port, VIEWS, *SMALL, *self._cluster.options())

    def published(self) -> int:
        """The newest version."""
        return int(self.engine.figures()["published_epoch"])

    def goes_on(self, versions: int = 2) -> None:
        """Wait for so many versions more."""
        self.engine.wait_for("published_epoch", self.published() + versions)

    def recovers(self, what: str, fault: Callable[[], None]) -> None:
        """Do harm, and say how long it takes until the version after the one that was under way is there."""
        self.goes_on()
        begin = time.monotonic()
        fault()
        self.goes_on()
        sys.stderr.write(f"{what}: two versions later after {time.monotonic() - begin:.1f} s\n")

    def restart(self) -> None:
        """The driver is lost, with everything that runs in it."""
        self.engine.kill()
        await_end_of_java(self._place)
        self.held.check(random.Random(1))
        self.engine = self.start()
        self.engine.ready()

    def finish(self) -> None:
        """Let the rest come, and compare everything."""
        self.market.figures(lambda _: "ended at line" in self.market.errors(), "the end of the replay")
        newest = feed_position(self.port)
        self.engine.wait_for("messages", newest)
        version = Results(self.engine).covering([view.stem for view in VIEWS], newest)
        assert version.sequence == newest
        self.engine.stop()
        assert self.held.check(random.Random(1)) == newest
        assert version.rows == self.held.answers()

    def close(self) -> None:
        """Nothing is left."""
        self.engine.kill()
        self.market.kill()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "cluster") as found:
        yield found


@pytest.fixture
def flow(tmp_path: Path, cluster: Standalone) -> Iterator[Callable[[], Flow]]:
    begun: list[Flow] = []

    def begin() -> Flow:
        begun.append(Flow(tmp_path, cluster))
        begun[-1].engine.ready()
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def test_workers_and_executors_that_are_lost_and_come_back(cluster: Standalone, flow: Callable[[], Flow]) -> None:
    cluster.start_master()
    first, second = cluster.add_worker(), cluster.add_worker()
    run = flow()
    run.recovers("a worker with its executor", second.kill_with_executors)
    third = cluster.add_worker()
    first.await_(lambda: len(third.executors()) == 1, "an executor on the new worker")
    run.recovers("an executor", lambda: os.kill(first.executors()[0], signal.SIGKILL))
    first.await_(lambda: bool(first.executors()), "another executor")
    paused = third.executors()[0]
    run.recovers("an executor that stands still", lambda: os.kill(paused, signal.SIGSTOP))
    with suppress(ProcessLookupError):  # Spark may have killed it, once it missed its heartbeats
        os.kill(paused, signal.SIGCONT)
    run.recovers("the one that is left", first.kill_with_executors)
    run.finish()


def test_the_master_and_the_driver_are_lost_and_come_back(cluster: Standalone, flow: Callable[[], Flow]) -> None:
    master = cluster.start_master()
    workers = [cluster.add_worker(), cluster.add_worker()]
    run = flow()
    run.recovers("the master", master.kill)
    again = cluster.start_master()
    again.await_(lambda: cluster.state()["aliveworkers"] == len(workers), "all workers at the new master")
    run.goes_on()
    assert len(cluster.state()["activeapps"]) == 1
    run.recovers("the driver", run.restart)
    run.finish()
