"""Derived streams of a live runtime: added, shown, read by views and by each other, dropped; over restarts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltabook.wire.catalogue import AddViews, NewStream, NewView
from deltabook.wire.results import Frame
from runtime.compiler import SqlError
from runtime.service.errors import CatalogueError
from runtime.service.subscriptions import Start
from tests.generators.reader_lab import ReaderLab, file_reader
from tests.unit.runtime.service.results.test_hub import Connection

LARGE = NewStream("large", "SELECT t, match_id, volume FROM trades WHERE volume >= 5", retain_rows=2)
LOTS = NewView("lots", "SELECT SUM(volume) AS lots FROM large", lane="express")


def trade(number: int, volume: int) -> str:
    return f"{number},{number * 10},0,0,T,{volume},100,ACME"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    return tmp_path / "files"


def add(lab: ReaderLab, *parts: Any) -> Any:
    streams = tuple(each for each in parts if isinstance(each, NewStream))
    views = tuple(each for each in parts if isinstance(each, NewView))
    return lab.wait(lab.control.add(AddViews(views, 30.0, streams)))


def shown(lab: ReaderLab, name: str) -> list[Any]:
    return sorted(lab.rows(name).elements())


def test_a_stream_and_a_view_of_it_are_added_together(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come with the time, expire, and the view follows; what came before the stream is not in it."""
    lab = ReaderLab(tmp_path / "run", monkeypatch, files)
    lab.feed.say(trade(1, 9), trade(2, 1))
    lab.until(lambda: lab.runtime.figures()["feed_sequence"] == 1)
    status, changed = add(lab, LARGE, LOTS)
    assert (status, [(each.name, each.view_class, each.lane) for each in changed.views]) == (
        200, [("large", "stream", "stream"), ("lots", "linear", "express")],
    )  # fmt: skip
    lab.feed.say(*[trade(number, number) for number in range(3, 10)])
    lab.until(lambda: len(shown(lab, "large")) == 2 and shown(lab, "large")[-1][1] >= 7)
    rows = shown(lab, "large")
    lab.until(lambda: shown(lab, "lots") == [(sum(row[2] for row in rows),)])
    assert [view.name for view in lab.runtime.parts.hub.views] == ["large", "bid_volume", "lots"]
    assert lab.runtime.status()["streams"]["large"].rows == 2
    with pytest.raises(CatalogueError, match="expected a stream that nothing reads, was large, which lots reads"):
        lab.wait(lab.control.drop("large", 30.0))
    lab.stop()
    again = ReaderLab(tmp_path / "run", monkeypatch, files)
    assert shown(again, "large") == rows
    again.wait(again.control.drop("lots", 30.0))
    again.wait(again.control.drop("large", 30.0))
    assert [view.name for view in again.runtime.parts.hub.views] == ["bid_volume"]
    with pytest.raises(SqlError, match="with the columns that it had before it was dropped"):
        add(again, NewStream("large", "SELECT t FROM trades"))
    add(again, LARGE)
    assert shown(again, "large") == []
    again.stop()


def test_rows_of_readers_are_streams(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader's relation with a time is read as it comes; the reader stays while a stream reads it."""
    (files / "a.csv").write_text("".join(f"{t},ACME,{t}\n" for t in range(1, 6)))
    lab = ReaderLab(tmp_path / "run", monkeypatch, files)
    later = NewStream("later", "SELECT t, price FROM a WHERE price > 2")
    with pytest.raises(SqlError, match="'a'"):
        add(lab, later)
    lab.add(file_reader("b", "a.csv"))
    with pytest.raises(CatalogueError, match="which is taken"):
        lab.add(file_reader("touches", "a.csv"))
    add(lab, NewStream("later", "SELECT t, price FROM b WHERE price > 2"))
    with pytest.raises(CatalogueError, match="was later: drop it first"):
        lab.drop("b")
    with pytest.raises(SqlError, match="expected a new name for the stream, was 'b', which is taken"):
        add(lab, NewStream("b", "SELECT t FROM trades"))
    with pytest.raises(SqlError, match="was 'epoch_time', which is taken"):  # every epoch has rows of it
        add(lab, NewStream("epoch_time", "SELECT t FROM trades"))
    lab.stop()


def test_one_that_is_there_already_is_the_same(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that include the same stream can be added one after the other; another SELECT cannot take its name."""
    lab = ReaderLab(tmp_path / "run", monkeypatch, files)
    add(lab, LARGE)
    add(lab, LARGE, NewStream("again", "SELECT t, volume FROM large"))
    assert [stream.name for stream in lab.runtime.parts.catalogue.program.streams] == ["large", "again"]
    with pytest.raises(SqlError, match="expected a new name for the stream, was 'large', which is taken"):
        add(lab, NewStream("large", "SELECT t FROM trades", file="x.sql", line=3))
    with pytest.raises(CatalogueError, match="which again reads"):
        lab.wait(lab.control.drop("large", 30.0))
    assert "reads: trades by t" in lab.runtime.parts.streams.explain("large")
    lab.stop()


def test_committed_epochs_of_a_stream_can_be_followed(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a snapshot on, and after a restart from the epoch that is known, out of the log."""
    lab = ReaderLab(tmp_path / "run", monkeypatch, files)
    add(lab, LARGE)
    connection = follow(lab, Start())
    lab.feed.say(trade(1, 9), trade(2, 8), trade(3, 7))
    frames: list[Frame] = []
    lab.until(lambda: bool(gathered(frames, connection, 1)))
    first = gathered(frames, connection, 1)
    assert first[0] == (10, 1, 9)
    known = frames[-1].header.to_epoch
    assert frames[0].header.kind == "snapshot"
    lab.feed.say(trade(4, 6), trade(5, 5))
    lab.until(lambda: len(shown(lab, "large")) == 2 and shown(lab, "large")[-1][1] >= 3)
    lab.seal()
    expected = shown(lab, "large")
    lab.stop()
    again = ReaderLab(tmp_path / "run", monkeypatch, files)
    resumed = follow(again, Start({"large": known}))
    later: list[Frame] = []
    again.until(lambda: bool(gathered(later, resumed, 1)))
    assert later[0].header.kind == "changes"
    assert later[0].header.from_epoch == known
    assert sorted([*first, *gathered(later, resumed, 1)])[-len(expected) :] == expected
    again.stop()


def follow(lab: ReaderLab, start: Start) -> Connection:
    connection = Connection()
    subscription = lab.runtime.parts.hub.subscribe(["large"], connection, start)
    assert subscription is not None
    subscription.catch_up()
    return connection


def gathered(frames: list[Frame], connection: Connection, weight: int) -> list[Any]:
    """The rows of all frames so far that have this weight."""
    frames += connection.frames()
    rows = [row for frame in frames if frame.rows is not None for row in frame.rows.to_pylist()]
    return [tuple(row.values()) for row in rows if row.pop("weight") == weight]
