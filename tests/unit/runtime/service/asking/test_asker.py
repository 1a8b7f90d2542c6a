"""Questions to a runtime whose feed is in the test's hands: one epoch for all that is read, limits, and a restart."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from deltabook.wire.catalogue import AddViews, NewStream, NewView
from runtime.compiler import SqlError
from runtime.service.asking import TooManyError
from runtime.service.at_epochs import EpochGoneError
from runtime.service.errors import CatalogueError
from runtime.service.sandbox import AskError, AskLimits, CostlyError, Worker
from tests.generators.reader_lab import ReaderLab

FEED = (
    ("1,1,1,7,B,5,100,ACME", "2,2,0,0,H,0,0,"),
    ("2,3,2,7,B,3,101,ACME", "3,4,0,0,H,0,0,"),
    ("3,5,3,8,S,4,105,ACME", "4,6,0,0,H,0,0,"),
)
"""What belongs to one request ends with a heartbeat, which has the number of the message to come."""
VIEWS = {
    "deep": "SELECT symbol, lots FROM depth WHERE lots > 2",
    "depth": "SELECT symbol, SUM(volume) AS lots, COUNT(*) AS orders FROM bids GROUP BY symbol",
}
"""The first reads the second."""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReaderLab:
    return ReaderLab(tmp_path / "run", monkeypatch, tmp_path)


def ask(lab: ReaderLab, sql: str, epoch: int | None = None) -> tuple[int, list[tuple[Any, ...]]]:
    """The epoch and the rows of an answer."""
    found, rows = lab.wait(lab.runtime.parts.asker.ask(sql, epoch))
    return found, list(zip(*[column.to_pylist() for column in rows.table.columns], strict=True))


def say(lab: ReaderLab, *lines: str, lots: int) -> None:
    """Lines of the feed, until they are in a view and its epoch is closed."""
    lab.feed.say(*lines)
    lab.until(lambda: [row[1] for row in lab.rows("bid_volume")] == [lots])
    lab.seal()


def add_views(lab: ReaderLab) -> None:
    views = tuple(NewView(name, sql, lane="express") for name, sql in VIEWS.items())
    lab.wait(lab.control.add(AddViews(views)))


def test_relations_and_views_are_of_one_epoch_whatever_it_is(lab: ReaderLab) -> None:
    add_views(lab)
    both = "SELECT (SELECT SUM(volume) FROM bids), (SELECT SUM(lots) FROM depth), (SELECT SUM(lots) FROM deep)"
    seen: dict[int, Any] = {}
    for lines, lots in zip(FEED, (5, 8, 8), strict=True):
        say(lab, *lines, lots=lots)
        epoch, rows = ask(lab, both)
        assert rows == [(lots, lots, lots)]
        seen[epoch] = rows
    assert len(seen) == 3
    assert {epoch: ask(lab, f"{both} AS OF EPOCH {epoch}")[1] for epoch in seen} == seen
    assert ask(lab, "SELECT symbol, orders FROM depth", min(seen)) == (min(seen), [("ACME", 1)])
    lab.stop()


def test_a_restart_goes_on_with_views_over_views_and_their_past(
    lab: ReaderLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_views(lab)
    say(lab, *FEED[0], *FEED[1], lots=8)
    before = ask(lab, "SELECT * FROM deep")
    lab.stop()
    again = ReaderLab(tmp_path / "run", monkeypatch, tmp_path)
    assert ask(again, "SELECT * FROM deep", before[0]) == before
    with pytest.raises(CatalogueError, match="expected a view that no other view reads, was 'depth', which deep reads"):
        again.wait(again.control.drop("depth", 1.0))
    again.view("over", "SELECT COUNT(*) AS n FROM deep")
    assert ask(again, "SELECT n FROM over")[1] == [(1,)]
    for name in ("over", "deep", "depth"):
        again.wait(again.control.drop(name, 10.0))
    with pytest.raises(
        SqlError, match="unknown relation or view 'deep'; the relations are: asks, bids, trades; the views"
    ):
        ask(again, "SELECT * FROM deep")
    again.stop()


def test_an_epoch_to_come_and_a_view_that_was_not_there_yet(lab: ReaderLab) -> None:
    newest = lab.runtime.epoch
    with pytest.raises(AskError, match=f"expected an epoch up to {newest}, the newest, was 99"):
        ask(lab, "SELECT 1", 99)
    add_views(lab)
    with pytest.raises(EpochGoneError, match="expected an epoch at which view depth exists, was 0"):
        ask(lab, "SELECT * FROM depth", 0)
    assert ask(lab, "SELECT COUNT(*) FROM trades AS OF EPOCH 0") == (0, [(0,)])
    lab.stop()


def test_no_more_questions_than_may_be_asked_at_a_time(lab: ReaderLab) -> None:
    asker = lab.runtime.parts.asker
    add_views(lab)
    lab.feed.say(*FEED[0])
    lab.until(lambda: lab.runtime.parts.hub.step("express") > 0)
    waiting = [Deferred.fromCoroutine(asker.ask("SELECT * FROM depth", None)) for _ in range(2)]
    if asker.running == 2:
        with pytest.raises(TooManyError, match="expected at most 2 questions at a time, was one more"):
            ask(lab, "SELECT 1")
    for one in waiting:
        lab.until(lambda one=one: one.called)  # type: ignore[misc]
    assert asker.running == 0
    lab.stop()


class Slow(ReaderLab):
    """A runtime whose questions run on threads, and whose clock moves."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch, files: Path, **config: Any) -> None:
        super().__init__(directory, monkeypatch, files, **config)
        self.answering: list[Worker] = []
        answer = Worker.answer

        def noted(worker: Worker, *given: Any) -> Any:
            self.answering.append(worker)
            return answer(worker, *given)

        monkeypatch.setattr(Worker, "answer", noted)
        from twisted.internet import threads
        from twisted.python.threadpool import ThreadPool

        self.pool = ThreadPool(1, 2)
        self.pool.start()
        asker: Any = self.runtime.parts.asker
        asker._in_thread = lambda call: threads.deferToThreadPool(self.reactor, self.pool, call)

    def asked(self, sql: str, gone: Deferred[Any] | None = None) -> list[Any]:
        """Ask a question; what comes of it is put into the list."""
        found: list[Any] = []
        asked: Deferred[Any] = Deferred.fromCoroutine(self.runtime.parts.asker.ask(sql, None, gone))
        asked.addBoth(found.append)
        return found

    def until_ended(self, found: list[Any], turn_s: float = 0.05) -> Any:
        """What a question has ended with, which takes some turns of the clock."""
        until = time.monotonic() + 30
        while not found and time.monotonic() < until:
            self.reactor.turn(0.01)
            self.reactor.advance(turn_s)
        return found[0].value if isinstance(found[0], Failure) else found[0]

    def stop(self) -> None:
        super().stop()
        self.pool.stop()


LONG = "SELECT COUNT(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5"


def test_a_question_that_takes_too_long_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=1.0))
    found = lab.asked(LONG)
    lab.until(lambda: bool(lab.answering))
    (killed,) = lab.answering
    error = lab.until_ended(found)
    assert isinstance(error, CostlyError)
    assert str(error) == "expected an answer within 1 s, was a question that takes longer"
    assert killed._process.returncode == -signal.SIGKILL
    assert lab.runtime.parts.asker.running == 0
    assert [column.to_pylist() for column in lab.until_ended(lab.asked("SELECT 1"), 0.0)[1].table.columns] == [[1]]
    lab.stop()


def test_a_question_nobody_waits_for_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=600.0))
    gone: Deferred[Any] = Deferred()
    found = lab.asked(LONG, gone)
    lab.until(lambda: bool(lab.answering))
    gone.callback(None)
    assert str(lab.until_ended(found)) == "no client waits for the answer any more"
    lab.stop()


def test_a_killed_process_costs_its_question_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=600.0))
    found, other = lab.asked(LONG), list[Any]()
    lab.until(lambda: bool(lab.answering))
    (killed,) = lab.answering
    other = lab.asked("SELECT COUNT(*) FROM range(5)")
    os.kill(killed.pid, signal.SIGKILL)
    error = lab.until_ended(found, 0.0)
    assert isinstance(error, CostlyError)
    assert "was its end by SIGKILL" in str(error)
    assert lab.until_ended(other, 0.0)[1].table.num_rows == 1
    say(lab, *FEED[0], lots=5)
    assert lab.until_ended(lab.asked("SELECT SUM(volume) AS v FROM bids"), 0.0)[1].table.to_pylist() == [{"v": 5}]
    lab.stop()


def test_a_stop_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=600.0))
    found = [lab.asked(LONG) for _ in range(2)]
    lab.until(lambda: len(lab.answering) == 2)
    workers = lab.answering
    lab.runtime.parts.asker.stop()
    assert [str(lab.until_ended(each)) for each in found] == ["the runtime stops"] * 2
    assert not any(worker.is_ready for worker in workers)
    assert all(worker._process.returncode is not None for worker in workers)
    lab.stop()


def test_the_time_of_a_question_is_that_of_its_epoch(lab: ReaderLab) -> None:
    """A question about an epoch has the same answer whenever it is asked."""
    times = {}
    assert ask(lab, "SELECT now()")[1] == [(None,)]
    for lines, lots in zip(FEED[:2], (5, 8), strict=True):
        say(lab, *lines, lots=lots)
        epoch, rows = ask(lab, "SELECT epoch_us(now())")
        times[epoch] = rows
    assert len(times) == 2
    assert {epoch: ask(lab, "SELECT epoch_us(now())", epoch)[1] for epoch in times} == times
    lab.stop()


def test_a_name_of_with_hides_a_relation_in_its_scope_alone(lab: ReaderLab) -> None:
    say(lab, *FEED[0], lots=5)
    sql = "SELECT volume, y FROM bids, (WITH bids AS (SELECT 7 AS y) SELECT * FROM bids) AS z"
    assert ask(lab, sql)[1] == [(5, 7)]
    lab.stop()


def test_a_stream_at_an_epoch_before_a_restart(lab: ReaderLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = NewStream("large", "SELECT t, volume FROM trades WHERE volume >= 5")
    lab.wait(lab.control.add(AddViews(streams=(large,))))
    lab.feed.say(*[f"{number},{number * 10},0,0,T,{number},100,ACME" for number in range(1, 9)])
    lab.until(lambda: bool(lab.rows("large")))
    epoch, rows = ask(lab, "SELECT * FROM large")
    assert rows
    lab.feed.say(*[f"{number},{number * 10},0,0,T,{number},100,ACME" for number in range(9, 12)])
    lab.until(lambda: len(ask(lab, "SELECT * FROM large")[1]) > len(rows))
    lab.stop()
    again = ReaderLab(tmp_path / "run", monkeypatch, tmp_path)
    assert ask(again, "SELECT * FROM large", epoch) == (epoch, rows)
    again.stop()


def test_so_much_is_read_for_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ReaderLab(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(read_bytes=1))
    say(lab, *FEED[0], lots=5)
    with pytest.raises(CostlyError, match="expected to read at most 1 bytes of relations and views, was more"):
        ask(lab, "SELECT * FROM bids")
    lab.stop()
