"""A follower offers every epoch once, in order, whatever room there is."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from runtime.upstreams import Follower, UpstreamEpoch, UpstreamLog
from tests.generators.upstream_lab import UpstreamRun, bid

WAIT_S = 30


class Sink:
    """Has room for so many."""

    def __init__(self, room: int = 100) -> None:
        self.room = room
        self.taken: list[int] = []
        self.reason = ""
        self._news = threading.Condition()

    def offer(self, epoch: UpstreamEpoch) -> bool:
        with self._news:
            if not self.room:
                self._news.notify_all()
                return False
            self.room -= 1
            self.taken.append(epoch.position.epoch)
            self._news.notify_all()
            return True

    def failed(self, reason: str) -> None:
        with self._news:
            self.reason = reason
            self._news.notify_all()

    def wait(self, *, taken: int = 0, fails: bool = False) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.taken) >= taken and bool(self.reason) >= fails, WAIT_S)


def follower(directory: Path) -> Follower:
    return Follower(UpstreamLog(-1, "a", directory, None))


def test_epochs_come_as_they_are_sealed(tmp_path: Path) -> None:
    run, sink = UpstreamRun(tmp_path / "a"), Sink()
    following = follower(tmp_path / "a")
    following.open(sink)
    for number in range(3):
        run.seal(bid(number))
        sink.wait(taken=number + 2)
    following.close()
    figures = following.figures
    assert (sink.taken, figures.taken, figures.epochs, figures.rows, figures.messages) == ([0, 1, 2, 3], 3, 4, 3, 3)


def test_a_refused_epoch_comes_again(tmp_path: Path) -> None:
    run, sink = UpstreamRun(tmp_path / "a"), Sink(room=1)
    run.seal(bid(1))
    following = follower(tmp_path / "a")
    assert following.poll(sink)
    assert not following.poll(sink)
    following.shut(True)
    sink.room = 2
    assert not following.poll(sink)
    following.shut(False)
    assert following.poll(sink)
    assert (sink.taken, following.poll(sink)) == ([0, 1], False)


def test_a_log_that_cannot_be_read_on_is_said_once(tmp_path: Path) -> None:
    run, sink = UpstreamRun(tmp_path / "a"), Sink()
    run.writer.log.path(0).write_bytes(b"torn")
    following = follower(tmp_path / "a")
    following.open(sink)
    sink.wait(fails=True)
    following.close()
    assert "expected a segment" in sink.reason


def test_an_epoch_that_is_retired_unread_is_said(tmp_path: Path) -> None:
    """As for a consumer that was forgotten: the next epoch never comes."""
    run, sink = UpstreamRun(tmp_path / "a"), Sink(room=1)
    following = follower(tmp_path / "a")
    following.open(sink)
    sink.wait(taken=1)
    following.shut(True)
    for number in range(5):
        run.seal(bid(number))
    assert run.retire() == 5
    following.shut(False)
    sink.wait(fails=True)
    following.close()
    assert "expected epoch 1, the next one" in sink.reason
    assert "was a log whose first epoch is 5" in sink.reason


def test_whatever_ends_the_thread_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    UpstreamRun(tmp_path / "a")
    sink, following = Sink(), follower(tmp_path / "a")

    def broken() -> None:
        raise ValueError("two chunks")

    monkeypatch.setattr(following.log, "next", broken)
    following.open(sink)
    sink.wait(fails=True)
    following.close()
    assert sink.reason == "upstream a: ValueError: two chunks"
