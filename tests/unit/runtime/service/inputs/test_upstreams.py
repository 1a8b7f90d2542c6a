"""What a runtime knows of its upstreams, and what it tells them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from runtime.epochs import Cut, Footer
from runtime.service.errors import ServiceError
from runtime.service.inputs.upstreams import UpstreamConfig, Upstreams, check_upstreams
from runtime.upstreams import Beat, Consumers, UpstreamEpoch, write_beat
from tests.generators.upstream_lab import UpstreamRun, bid


class Sink:
    def offer(self, epoch: UpstreamEpoch) -> bool:
        return bool(epoch)

    def failed(self, reason: str) -> None:
        raise AssertionError(reason)


class Lab:
    """A runtime with one upstream, whose follower looks when it is told to."""

    def __init__(self, directory: Path) -> None:
        self.up = UpstreamRun(directory / "a")
        self.main = UpstreamRun(directory / "m", 500)
        self.reactor: Any = Clock()  # type: ignore[no-untyped-call, unused-ignore]  # Twisted's are Any to mypy
        self.consumers = Consumers(directory / "a")
        self.upstreams = Upstreams(
            self.reactor,
            [UpstreamConfig("a", directory / "a")],
            directory / "m",
            self.main.writer,
            symbols="own",
            now_ns=lambda: 10**9,
            in_thread=self._in_thread,
        )

    def _in_thread(self, call: Callable[[], Any]) -> Deferred[Any]:
        return maybeDeferred(call)

    def take(self) -> None:
        (follower,) = self.upstreams.followers
        while follower.poll(Sink()):
            pass

    def told(self) -> list[int]:
        return [consumer.epoch for consumer in self.consumers.list()]

    def state(self, **beat: Any) -> str:
        """After a second, and a beat if there is one."""
        if beat:
            told = {"is_connected": True, "is_paused": False, **beat}
            write_beat(self.up.directory, Beat(1, 1, **told))
        self.reactor.advance(1)
        self.upstreams.beat()
        return self.upstreams.status()["a"].state


def test_an_upstream_gets_the_committed_position(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.up.seal(bid(1))
    lab.up.seal(bid(2))
    lab.take()
    assert lab.told() == [-1], "before it was looked what is left"
    lab.upstreams.beat()
    assert lab.told() == [-1]
    lab.upstreams.sealed(Footer(0, 1, cuts={"a": Cut("1", 1, 0)}))
    lab.upstreams.beat()
    assert lab.told() == [1]
    line = lab.upstreams.status()["a"]
    assert (line.epoch, line.newest, line.lag_epochs, line.messages) == (1, 2, 1, 2)


def test_a_quiet_market_is_told_from_an_upstream_that_is_gone(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    assert (lab.state(), lab.upstreams.silent) == ("waiting", ("a",))
    lab.take()
    assert [lab.state(time_ns=second) for second in range(1, 4)] == ["reading"] * 3
    assert lab.upstreams.silent == ()
    assert lab.state(time_ns=4, is_paused=True) == "paused"
    assert lab.state(time_ns=5, is_connected=False) == "disconnected"
    assert lab.state(time_ns=6) == "reading"
    assert [lab.state() for _ in range(11)][-2:] == ["reading", "silent"]
    assert lab.state(time_ns=1) == "reading", "whatever its clock says"


def test_a_hanging_disk_of_an_upstream_holds_nothing_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(tmp_path)
    lab.take()
    assert lab.state(time_ns=1) == "reading"
    hanging: list[Callable[[], Any]] = []

    def hang(call: Callable[[], Any]) -> Deferred[Any]:
        hanging.append(call)
        return Deferred()

    monkeypatch.setattr(lab.upstreams, "_in_thread", hang)
    assert [lab.state(time_ns=second) for second in range(2, 13)][-2:] == ["reading", "silent"]
    assert len(hanging) == 1, "one read at a time"


@pytest.mark.parametrize(
    ("given", "kept", "said"),
    [
        ([("a", "x"), ("a", "y")], [], "whose names differ, was a twice"),
        ([("a", "x"), ("b", "./x")], [], "of its own for upstream b, .* that of upstream a"),
        ([("a", "main")], [], "of its own for upstream a, .* this runtime's own"),
        ([("a", "x")], ["a", "b"], "expected --upstream b=DIR again"),
    ],
)
def test_upstreams_that_cannot_be_are_refused(
    tmp_path: Path, given: list[tuple[str, str]], kept: list[str], said: str
) -> None:
    upstreams = [UpstreamConfig(name, tmp_path / where) for name, where in given]
    with pytest.raises(ServiceError, match=said):
        check_upstreams(upstreams, tmp_path / "main", kept)
