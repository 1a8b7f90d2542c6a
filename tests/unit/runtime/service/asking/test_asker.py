"""Questions to a runtime whose feed is in the test's hands: one epoch for all that is read, limits, and a restart."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from deltabook.wire.catalogue import AddViews, NewView
from runtime.compiler import SqlError
from runtime.service.asking import AskError, AskLimits, CostlyError, GoneError, TooManyError, asker
from runtime.service.errors import CatalogueError
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
    with pytest.raises(GoneError, match="expected an epoch at which view depth is there, was 0"):
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

    def __init__(self, *given: Any, **config: Any) -> None:
        super().__init__(*given, **config)
        from twisted.internet import threads
        from twisted.python.threadpool import ThreadPool

        self.pool = ThreadPool(1, 2)
        self.pool.start()
        asker: Any = self.runtime.parts.asker
        asker._in_thread = lambda call: threads.deferToThreadPool(self.reactor, self.pool, call)

    def refused(self, sql: str, gone: Deferred[Any] | None = None) -> BaseException:
        """Why a question is not answered, which takes some turns of the clock."""
        found: list[Any] = []
        asked: Deferred[Any] = Deferred.fromCoroutine(self.runtime.parts.asker.ask(sql, None, gone))
        asked.addBoth(found.append)
        if gone is not None:
            gone.callback(None)
        until = time.monotonic() + 30
        while not found and time.monotonic() < until:
            self.reactor.turn(0.01)
            self.reactor.advance(0.05)
        self.pool.stop()
        error: BaseException = found[0].value
        return error


LONG = "SELECT COUNT(*) FROM range(10000000000) a, range(1000) b WHERE a.range % 7 = b.range % 5"


def test_a_question_that_takes_too_long_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=1.0))
    error = lab.refused(LONG)
    assert isinstance(error, CostlyError)
    assert str(error) == "expected an answer within 1 s, was a question that takes longer"
    assert lab.runtime.parts.asker.running == 0
    lab.stop()


def test_a_question_nobody_waits_for_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=600.0))
    assert str(lab.refused(LONG, Deferred())) == "no client waits for the answer any more"
    lab.stop()


def test_a_question_that_takes_too_much_memory_is_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB's own limit does not count what an expression makes."""
    sizes = iter((1 << 30, 2 << 30, 4 << 30))
    monkeypatch.setattr(asker, "resident_bytes", lambda: next(sizes, 5 << 30))
    lab = Slow(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(seconds=600.0, growth_bytes=2 << 30))
    error = lab.refused(LONG)
    assert isinstance(error, CostlyError)
    assert str(error) == "expected a question for which the process grows by at most 2048 MiB, was one that needs more"
    lab.stop()


def test_so_much_is_read_for_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = ReaderLab(tmp_path / "run", monkeypatch, tmp_path, asking=AskLimits(read_bytes=1))
    say(lab, *FEED[0], lots=5)
    with pytest.raises(CostlyError, match="expected to read at most 1 bytes of relations and views, was more"):
        ask(lab, "SELECT * FROM bids")
    lab.stop()
