"""A clean stop takes its steps in their order, waits no longer than it may, and says what is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher

from runtime.service.rundir.clean_stop import CleanStop, StopParts
from runtime.spark.config import SparkLaneError


class Reactor(Clock):  # type: ignore[misc, unused-ignore]  # Twisted's test classes are Any to mypy
    def callFromThread(self, call: Any, *args: Any) -> None:
        call(*args)


class Parts(StopParts):
    """Notes what it is asked to do; the test says what it answers."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.bytes = 0
        self.waits = False
        self.applied = True
        self.seals = True
        self.spark: SparkLaneError | None = None

    def shut_replayed(self) -> None:
        self.calls.append("shut replayed")

    def shut_all(self) -> None:
        self.calls.append("shut all")

    def taken_bytes(self) -> int:
        return self.bytes

    def is_waiting(self) -> bool:
        return self.waits

    def is_applied(self) -> bool:
        return self.applied

    def seal(self, on_sealed: Callable[[], None]) -> None:
        self.calls.append("seal")
        if self.seals:
            on_sealed()

    def settle(self) -> int:
        self.calls.append("settle")
        return 7

    def finish_spark(self, epoch: int, timeout_s: float) -> None:
        self.calls.append(f"spark {epoch} within {timeout_s:.1f} s")
        if self.spark is not None:
            raise self.spark


class Stop:
    """A clean stop on a clock, and what it has logged."""

    def __init__(self, parts: Parts, timeout_s: float = 10.0) -> None:
        self.reactor: Any = Reactor()  # type: ignore[no-untyped-call, unused-ignore]  # as above
        self.said: list[str] = []
        globalLogPublisher.addObserver(cast(Any, self._observe))
        self.stop = CleanStop(self.reactor, parts, timeout_s, self._in_thread)
        self.ended: Deferred[None] = self.stop.run()

    def _observe(self, event: Any) -> None:
        if event.get("log_namespace", "").endswith("CleanStop"):
            self.said.append(event["log_format"].format(**event))

    @staticmethod
    def _in_thread(call: Callable[[], Any]) -> Deferred[Any]:
        return maybeDeferred(call)

    def pass_time(self, seconds: float) -> None:
        self.reactor.pump([0.01] * round(seconds * 100))

    def is_over(self) -> bool:
        return bool(self.ended.called)


@pytest.fixture(autouse=True)
def observers() -> Any:
    before = list(globalLogPublisher._observers)
    yield
    globalLogPublisher._observers[:] = before


def test_steps_in_their_order() -> None:
    parts = Parts()
    stop = Stop(parts)
    assert parts.calls == ["shut replayed"]
    stop.pass_time(0.2)
    assert parts.calls == ["shut replayed", "shut all", "seal", "settle", "spark 7 within 9.9 s"]
    assert stop.is_over()
    assert stop.said == ["everything accepted is sealed and published at epoch 7"]


def test_a_reader_is_read_until_it_is_quiet() -> None:
    """Bytes for which there is no room are yet to come as well."""
    parts = Parts()
    stop = Stop(parts)
    for _ in range(5):
        parts.bytes += 1
        stop.pass_time(0.08)
    parts.waits = True
    stop.pass_time(0.5)
    assert parts.calls == ["shut replayed"]
    parts.waits = False
    stop.pass_time(0.2)
    assert stop.is_over()
    assert stop.said == ["everything accepted is sealed and published at epoch 7"]


def test_a_sender_that_never_pauses_is_cut_off() -> None:
    parts = Parts()
    stop = Stop(parts)
    for _ in range(50):
        parts.bytes += 1
        stop.pass_time(0.05)
    assert stop.is_over()
    assert "stopped at epoch 7 while input was still arriving" in stop.said[0]


def test_what_is_not_applied_in_time_is_said() -> None:
    parts = Parts()
    parts.applied = False
    stop = Stop(parts, 3.0)
    stop.pass_time(2.9)
    assert parts.calls == ["shut replayed", "shut all"]
    stop.pass_time(0.2)
    assert stop.is_over()
    assert "while input was still arriving" in stop.said[0]


def test_a_barrier_that_does_not_come_ends_the_stop() -> None:
    parts = Parts()
    parts.seals = False
    stop = Stop(parts, 3.0)
    stop.pass_time(3.1)
    assert (stop.is_over(), parts.calls[-1]) == (True, "seal")
    assert "stopped before everything accepted was sealed: it took longer than 3.0 s" in stop.said[0]


def test_a_commit_that_hangs_ends_the_stop() -> None:
    """The disk may be slow: all steps have one timeout."""
    parts = Parts()
    stop = Stop(parts, 3.0)
    settled: Deferred[int] = Deferred()
    stop.stop._in_thread = lambda call: settled
    stop.pass_time(2.9)
    assert not stop.is_over()
    stop.pass_time(0.2)
    assert stop.is_over()
    assert "stopped while the last epoch was committed: it took longer than 3.0 s" in stop.said[0]
    settled.callback(7)
    assert not any(call.startswith("spark") for call in parts.calls)


def test_what_spark_has_not_published_is_said() -> None:
    parts = Parts()
    parts.spark = SparkLaneError("expected version 7 within 9.9 s, was 5")
    stop = Stop(parts)
    stop.pass_time(0.2)
    assert stop.is_over()
    reason = "expected version 7 within 9.9 s, was 5"
    assert stop.said == [f"stopped before Spark had committed epoch 7, the next start publishes the rest: {reason}"]


def test_a_hurried_stop_waits_for_nothing_more() -> None:
    parts = Parts()
    parts.applied = False
    stop = Stop(parts, 3600.0)
    stop.pass_time(1.0)
    assert not stop.is_over()
    stop.stop.hurry()
    stop.stop.hurry()
    assert stop.is_over()
    stop.pass_time(0.1)
    assert not any(call.startswith("spark") for call in parts.calls)
