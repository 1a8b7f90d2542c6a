"""A runtime serves before Spark is up: what is held back meanwhile, and every way in which a start of Spark ends."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from twisted.logger import capturedLogs, formatEvent
from twisted.python.failure import Failure

from runtime.compiler import NamedSelect
from runtime.epochs import Footer
from runtime.plan import Lane
from runtime.service.config import LiveConfig
from runtime.service.http.routes import Refusal
from runtime.service.http.views import shown_view
from runtime.service.live import LiveRuntime
from runtime.service.subscriptions import Listener, Message, Start
from runtime.spark.config import SparkLaneError
from runtime.spark.lane import Published
from tests.generators.reader_lab import FeedInHand, QueueReactor

SQL = "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol"
_LOOK_SECONDS = 0.005
_MOST_LOOKS = 10_000
VIEWS = [NamedSelect("slow", SQL), NamedSelect("fast", SQL, lane="express")]


class HeldPool:
    """A pool whose threads get no time until a test says so."""

    def __init__(self, reactor: Any) -> None:
        self.held: list[Callable[[], None]] = []
        self._reactor = reactor

    def callInThreadWithCallback(self, done: Callable[..., None], call: Callable[..., Any], *args: Any) -> None:
        def run() -> None:
            try:
                result = call(*args)
            except Exception as error:  # noqa: BLE001 (as a thread pool does)
                self._reactor.callFromThread(done, False, Failure(error))  # type: ignore[no-untyped-call, unused-ignore]
            else:
                self._reactor.callFromThread(done, True, result)

        self.held.append(run)


class Reactor(QueueReactor):
    def __init__(self) -> None:
        super().__init__()
        self.pool = HeldPool(self)

    def getThreadPool(self) -> Any:
        return self.pool

    def settle(self) -> None:
        """Run what the pool and the reactor have to do, until nothing is left."""
        while self.pool.held or self.turn(0.0):
            held, self.pool.held = self.pool.held, []
            for run in held:
                run()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Do the same until something is so, which the engine's own threads may have to bring about."""
        for _ in range(_MOST_LOOKS):
            self.settle()
            if is_so():
                return
            self.turn(_LOOK_SECONDS)
        raise AssertionError("expected it to be so, nothing happens")


class Host:
    """Spark as a runtime sees it: it is up, or fails, when its `start` gets a thread."""

    fails: ClassVar[str] = ""

    def __init__(self, *_: Any) -> None:
        self.is_up = False
        self.restarts = 0
        self.ui_port: int | None = None
        self.calls: list[str] = []

    def prepare(self, program: object) -> None:
        del program

    def start(self, epoch: int) -> None:
        self.calls.append(f"start {epoch}")
        if Host.fails:
            raise SparkLaneError(Host.fails)
        self.is_up = True

    def sealed(self, epoch: int, *, is_awaited: bool) -> None:
        del epoch, is_awaited

    def listened_to(self, is_listened_to: bool) -> None:
        del is_listened_to

    def finish(self, epoch: int, timeout_s: float) -> None:
        del epoch, timeout_s
        raise SparkLaneError("Spark was still starting")

    def give_up(self) -> None:
        self.calls.append("give up")

    def stop(self) -> None:
        self.calls.append("stop")


class Heard(Listener):
    def __init__(self) -> None:
        self.kinds: list[str] = []

    def write(self, message: Message) -> None:
        self.kinds.append(f"{message.header.kind} {message.header.view} {message.header.to_epoch}".replace("  ", " "))

    def flush(self) -> None: ...

    def finish(self) -> None: ...


class Rig:
    def __init__(self, directory: Path) -> None:
        self.reactor: Any = Reactor()
        self.failures: list[str] = []
        config = LiveConfig(directory=directory, feed=("127.0.0.1", 1), stop_s=0.0)
        self.runtime = LiveRuntime(self.reactor, config, VIEWS, self.failures.append)
        self.ports: list[int] = []
        self.runtime.start().addCallback(self.ports.append)
        self.host: Any = self.runtime.parts.spark

    def hear(self, *views: str, start: Start | None = None) -> list[str]:
        heard = Heard()
        subscription = self.runtime.parts.hub.subscribe(views, heard, start)
        assert subscription is not None
        subscription.catch_up()
        return heard.kinds

    def publish(self, version: int) -> None:
        rows = pa.table({"symbol": ["A"], "v": pa.array([Decimal(1)], pa.decimal128(38, 0)), "weight": [1]})
        self.runtime.on_published(Published(version - 1, version, {"slow": rows}, {}, Footer(version - 1, version)))

    def stop(self) -> None:
        ended = self.runtime.stop()
        self.reactor.until(lambda: bool(ended.called))


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    monkeypatch.setattr("runtime.service.inputs.protocols.TextFeedSource", FeedInHand)
    monkeypatch.setattr("runtime.service.parts.SparkHost", Host)
    monkeypatch.setattr(Host, "fails", "")
    return Rig(tmp_path / "run")


def test_results_are_served_before_spark_is_up(rig: Rig) -> None:
    """A view of the express lane is read at once; nothing is sent of one of Spark's before it has joined."""
    assert (rig.ports, rig.host.calls) == ([1], [])
    assert rig.runtime.figures()["spark"] == "starting"
    fast, slow, both = rig.hear("fast"), rig.hear("slow"), rig.hear("slow", "fast")
    assert (fast, slow, both) == (["snapshot fast 1"], [], ["snapshot fast 1"])
    rig.runtime.beat()
    assert (fast[1:], slow, both[1:]) == (["heartbeat 0"], [], [])
    rig.publish(1)
    rig.reactor.settle()
    assert rig.runtime.figures()["spark"] == "up"
    assert slow == ["snapshot slow 1", "heartbeat 1"]
    assert both[1:] == ["snapshot slow 1", "heartbeat 1"]
    rig.stop()


def test_a_view_without_a_version_has_no_rows_yet(rig: Rig) -> None:
    """Nobody takes a Spark that starts for an empty answer."""
    with pytest.raises(Refusal, match="view slow has no version yet: Spark is starting") as refused:
        shown_view(rig.runtime.parts.hub, "slow")
    assert refused.value.status == 503
    shown_view(rig.runtime.parts.hub, "fast")
    rig.publish(1)
    rig.reactor.settle()
    shown_view(rig.runtime.parts.hub, "slow")
    rig.stop()


def test_a_follower_of_epochs_begins_with_the_first_version(rig: Rig) -> None:
    heard = rig.hear("slow", start=Start())
    assert heard == []
    rig.publish(1)
    rig.reactor.settle()
    rig.publish(2)
    rig.reactor.settle()
    assert heard == ["snapshot slow 1", "heartbeat 1", "changes slow 2"]
    rig.stop()


def test_a_failed_start_of_spark_ends_the_runtime(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Host, "fails", "no memory\nat all")
    rig.reactor.settle()
    assert rig.failures == ["Spark did not start: no memory at all"]
    rig.stop()
    assert rig.host.calls[-2:] == ["give up", "stop"]


def test_a_stop_waits_for_the_start_and_reports_no_failure(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark is stopped by nobody before the thread that starts it has ended."""
    monkeypatch.setattr(Host, "fails", "the streaming query was stopped")
    start, rig.reactor.pool.held = rig.reactor.pool.held, []
    ended: list[object] = []
    rig.runtime.stop().addCallback(ended.append)
    rig.reactor.settle()
    assert (ended, rig.host.calls) == ([], ["give up"])
    rig.reactor.pool.held += start
    rig.reactor.settle()
    assert (ended, rig.host.calls) == ([None], ["give up", "start 1", "stop"])
    assert rig.failures == []


def test_a_clean_stop_does_not_wait_for_a_spark_that_starts(
    tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.runtime, "_config", LiveConfig(directory=tmp_path / "run", feed=("127.0.0.1", 1)))
    with capturedLogs() as events:
        ended = rig.runtime.stop()

        def is_ended() -> bool:
            rig.reactor.advance(0.01)
            return bool(ended.called)

        rig.reactor.until(is_ended)
    told = [formatEvent(event) for event in events]
    assert any("stopped before Spark had committed epoch" in line and "still starting" in line for line in told), told
    assert not any("everything accepted is sealed and published" in line for line in told)


@pytest.mark.parametrize("lane", ["spark", "express"])
def test_views_are_added_while_spark_starts(rig: Rig, lane: Lane) -> None:
    """They are sealed at once; one of Spark's is published when Spark has come so far."""
    added: list[object] = []
    rig.runtime.parts.catalogue.add([NamedSelect("more", SQL, lane=lane)]).addCallback(added.append)
    rig.reactor.until(lambda: bool(added))
    assert added == [2]
    is_published: list[bool] = []
    rig.runtime.parts.catalogue.when_published(2, 60.0, lane).addCallback(is_published.append)
    if lane == "express":
        rig.reactor.until(lambda: bool(is_published))
    assert is_published == ([True] if lane == "express" else [])
    rig.publish(1)
    rig.publish(2)
    rig.reactor.settle()
    assert is_published == [True]
    rig.stop()
