"""Readers of a running runtime: what they bring is seen by views, once, over restarts, until they go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.internet.defer import Deferred

from deltabook.wire.readers import FileConnection, NewColumn, NewReader, RowsKept, SocketConnection
from runtime.compiler import SqlError
from runtime.service.errors import CatalogueError, ServiceError, UnknownReaderError
from tests.generators.reader_lab import COLUMNS, ReaderLab, file_reader

ROWS = 500
PRICES = "SELECT symbol, COUNT(*) AS n, SUM(price) AS total FROM prices GROUP BY symbol"
FEED = ("1,1,1,7,B,5,100,ACME", "2,2,2,7,S,6,101,ACME", "3,3,0,0,H,0,0,")


def prices(rows: int, first: int = 0) -> str:
    return "".join(f"{n},{'AB'[n % 2]},{100 + n}\n" for n in range(first, first + rows))


def totals(rows: int) -> Counter[tuple[Any, ...]]:
    return Counter(
        {(s, len(r), sum(r)): 1 for k, s in enumerate("AB") if (r := [100 + n for n in range(rows) if n % 2 == k])}
    )


@pytest.fixture
def files(tmp_path: Path) -> Path:
    directory = tmp_path / "files"
    directory.mkdir()
    (directory / "prices.csv").write_text(prices(ROWS))
    return directory


@pytest.fixture
def begin(tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A runtime on the test's directory; each call is a restart."""
    labs: list[ReaderLab] = []

    def call(**config: Any) -> ReaderLab:
        if labs:
            labs[-1].stop()
        labs.append(ReaderLab(tmp_path / "run", monkeypatch, files, **config))
        return labs[-1]

    yield call
    if labs:
        labs[-1].stop()
        assert labs[-1].failures == []


Begin = Callable[..., ReaderLab]


def test_a_file_becomes_a_relation_of_views(begin: Begin) -> None:
    lab = begin()
    status, changed = lab.add(file_reader("prices", "prices.csv"))
    assert (status, changed.reader.name, changed.reader.delivery) == (201, "prices", "exactly-once")
    assert changed.reader.relations == ("prices",)
    lab.view("totals", PRICES)
    lab.until(lambda: lab.state("prices").state == "ended")
    lab.until(lambda: lab.rows("totals") == totals(ROWS))
    assert lab.state("prices").sequence == ROWS
    assert lab.state("prices").views == ("totals",)
    lab.feed.say(*FEED)
    lab.until(lambda: lab.rows("bid_volume") == Counter({("ACME", 5): 1}))


def test_a_restart_goes_on_at_the_offset(begin: Begin, files: Path) -> None:
    lab = begin()
    lab.feed.say(*FEED)
    lab.add(file_reader("prices", "prices.csv"))
    lab.view("totals", PRICES)
    lab.until(lambda: lab.rows("totals") == totals(ROWS))
    lab.seal()
    with (files / "prices.csv").open("a") as file:  # what has grown meanwhile is read by the next start
        file.write(prices(100, first=ROWS))
    again = begin()
    assert again.rows("totals") == totals(ROWS)
    assert again.feed.position.sequence == 3
    again.until(lambda: again.rows("totals") == totals(ROWS + 100))
    assert again.state("prices").sequence == ROWS + 100
    again.seal()
    third = begin()
    third.until(lambda: third.state("prices").state == "ended")
    assert third.rows("totals") == totals(ROWS + 100)


def test_dropping_removes_the_rows_and_frees_the_name(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.until(lambda: lab.state("prices").state == "ended")
    status, changed = lab.drop("prices")
    assert (status, changed.reader.name) == (200, "prices")
    assert changed.epoch == lab.runtime.figures()["epoch"], "the first without its rows, not the last with them"
    assert lab.state("prices") is None
    with pytest.raises(SqlError, match="unknown relation 'prices'"):
        lab.view("totals", PRICES)
    with pytest.raises(CatalogueError, match="with the columns that it had before"):
        lab.add(file_reader("prices", "prices.csv", columns=(NewColumn("other", "int64"),)))
    again = begin()
    again.add(file_reader("prices", "prices.csv"))
    again.view("totals", PRICES)
    again.until(lambda: again.state("prices").state == "ended" and again.rows("totals") == totals(ROWS))


def test_very_many_rows_leave_in_several_epochs(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.service.readers.readers._MOST_LEAVING_ROWS", ROWS // 3)
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.until(lambda: lab.state("prices").state == "ended")
    lab.seal()
    before = lab.runtime.epoch
    _, changed = lab.drop("prices")
    assert changed.epoch == before + 1 + 4, "one in which it stops, and four for a third and the rest"
    assert lab.state("prices") is None
    again = begin()
    again.add(file_reader("prices", "prices.csv"))
    again.view("totals", PRICES)
    again.until(lambda: again.state("prices").state == "ended" and again.rows("totals") == totals(ROWS))


def test_rows_may_stay(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.view("totals", PRICES)
    lab.until(lambda: lab.rows("totals") == totals(ROWS))
    assert lab.drop("prices", rows="stay")[0] == 200
    again = begin()
    assert again.state("prices") is None
    again.view("later", PRICES)
    assert again.rows("later") == again.rows("totals") == totals(ROWS)


def test_a_reader_that_a_view_needs_stays(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.view("totals", PRICES)
    with pytest.raises(CatalogueError, match="no view that needs reader prices, was totals"):
        lab.drop("prices")
    lab.wait(lab.control.drop("totals", 30.0))
    assert lab.drop("prices")[0] == 200


def test_a_view_uses_relations_of_its_named_readers_alone(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    with pytest.raises(CatalogueError, match=r"of prices alone \(prices\), was bids as well"):
        lab.view("mixed", "SELECT COUNT(*) AS n FROM bids, prices WHERE bids.symbol = prices.symbol", "prices")
    with pytest.raises(CatalogueError, match="expected readers of feed, prices for view some, was others"):
        lab.view("some", PRICES, "others")
    lab.view("mixed", "SELECT COUNT(*) AS n FROM bids, prices WHERE bids.symbol = prices.symbol", "prices", "feed")
    lab.view("alone", PRICES, "prices")
    with pytest.raises(CatalogueError, match="was mixed, alone"):
        lab.drop("prices")


def test_a_process_that_ends_while_rows_leave_goes_on(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.until(lambda: lab.state("prices").state == "ended")
    with monkeypatch.context() as broken:
        broken.setattr("runtime.service.readers.readers.rows_that_leave", lambda *_: 1 / 0)
        assert lab.drop("prices")[0] == 202, "it is not gone"
        assert lab.state("prices").state == "leaving"
    again = begin()
    again.until(lambda: again.state("prices") is None)
    again.add(file_reader("prices", "prices.csv"))
    again.view("totals", PRICES)
    again.until(lambda: again.rows("totals") == totals(ROWS))


def test_kept_rows_leave_by_themselves(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv", keep=RowsKept(20)))
    lab.add(file_reader("recent", "prices.csv", keep=RowsKept(1000, "t", 10)))
    lab.view("held", "SELECT COUNT(*) AS n, MIN(t) AS first FROM prices")
    lab.view("timed", "SELECT COUNT(*) AS n, MIN(t) AS first FROM recent")
    lab.until(lambda: lab.rows("held") == Counter({(20, ROWS - 20): 1}))
    lab.until(lambda: lab.rows("timed") == Counter({(11, ROWS - 11): 1}))
    again = begin()
    again.until(lambda: again.state("prices").state == "ended" and again.state("recent").state == "ended")
    assert (again.rows("held"), again.rows("timed")) == (lab.rows("held"), lab.rows("timed"))


def test_one_that_fails_says_why_and_others_go_on(begin: Begin, files: Path) -> None:
    (files / "wrong.csv").write_text(prices(3) + "one,B,5\n" + prices(5))
    lab = begin()
    lab.add(file_reader("wrong", "wrong.csv", options={"malformed": "fail"}))
    lab.until(lambda: lab.state("wrong").state == "failed")
    assert "one" in lab.state("wrong").reason or "int64" in lab.state("wrong").reason
    lab.add(file_reader("prices", "prices.csv"))
    lab.feed.say(*FEED)
    lab.until(lambda: lab.state("prices").state == "ended" and lab.state("feed").sequence == 2)
    (files / "prices.csv").unlink()
    again = begin()
    again.until(lambda: again.state("prices").state == "failed")
    assert "below" in again.state("prices").reason


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (file_reader("Prices", "prices.csv"), "lower-case"),
        (file_reader("a\n", "prices.csv"), "lower-case"),
        (file_reader("feed", "prices.csv"), "taken"),
        (file_reader("x", "prices.csv", relation="bids"), "'bids', which is taken"),
        (file_reader("epoch_time", "prices.csv"), "'epoch_time', which is taken"),
        (file_reader("x", "prices.csv", relation="touches"), "'touches', which is taken"),
        (file_reader("x", "prices.csv", columns=()), "columns of x"),
        (file_reader("x", "prices.csv", columns=(*COLUMNS, COLUMNS[0])), "differ"),
        (file_reader("x", "prices.csv", columns=(NewColumn("a b", "int64"),)), "columns of x"),
        (file_reader("x", "../run/state.db"), r"without \.\."),
        (file_reader("x", "/etc/passwd"), "below"),
        (file_reader("x", "link.csv"), "below"),
        (file_reader("x", "nothing.csv"), "No such file"),
        (file_reader("x", "."), "expected a file below"),
        (file_reader("x", "a\0b"), "below"),
        (file_reader("x", "prices.csv", format="nonsense"), "nonsense"),
        (file_reader("x", "prices.csv", options={"nonsense": "1"}), "nonsense"),
        (file_reader("x", "prices.csv", adaptor="nonsense"), "adaptor out of orderbook, rows"),
        (file_reader("x", "prices.csv", keep=RowsKept(5, "symbol")), "int64 column"),
        (file_reader("x", "prices.csv", keep=RowsKept(5), options={"deletions": "yes"}), "both"),
        (NewReader("x", SocketConnection("127.0.0.1", 1), columns=COLUMNS), "at-most-once"),
        (NewReader("x", SocketConnection("127.0.0.1", 1), "orderbook", "csv"), "format csv"),
        (NewReader("x", SocketConnection("127.0.0.1", 1), "orderbook", columns=COLUMNS), "the market's"),
        (NewReader("x", SocketConnection("127.0.0.1", 1), "orderbook", options={"tick_units": "a"}), "whole numbers"),
        (NewReader("x", SocketConnection("h", 1), "orderbook", options={"tick_units": "0"}), "at least 1"),
    ],
    ids=[
        "capital", "newline", "feed", "market", "epochs", "touches", "none", "twice", "blank", "above", "outside",
        "link", "missing", "directory", "nul", "format", "option", "adaptor", "time", "both", "plain", "feed-format",
        "feed-columns", "feed-option", "tick",
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(begin: Begin, files: Path, tmp_path: Path, wanted: Any, said: str) -> None:
    (tmp_path / "outside.csv").write_text(prices(1))
    (files / "link.csv").symlink_to(tmp_path / "outside.csv")
    lab = begin()
    epoch = lab.runtime.parts.writer.epoch
    with pytest.raises(ServiceError, match=said):
        lab.add(wanted)
    assert lab.runtime.parts.writer.epoch == epoch
    assert [each.name for each in lab.runtime.parts.readers.list().readers] == ["feed"]


def test_limits_and_unknown_names(begin: Begin) -> None:
    lab = begin(most_readers=1)
    lab.add(file_reader("prices", "prices.csv"))
    with pytest.raises(CatalogueError, match="taken"):
        lab.add(file_reader("prices", "prices.csv"))
    with pytest.raises(CatalogueError, match="at most 1 readers"):
        lab.add(file_reader("more", "prices.csv"))
    with pytest.raises(UnknownReaderError, match="one of the readers prices, was 'more'"):
        lab.drop("more")
    with pytest.raises(CatalogueError, match="was started with"):
        lab.drop("feed")


def test_no_files_without_a_directory_for_them(begin: Begin) -> None:
    with pytest.raises(CatalogueError, match="--reader-dir"):
        begin(reader_directories=()).add(file_reader("prices", "prices.csv"))


def test_a_recorded_feed_is_a_market_of_its_own(begin: Begin, files: Path) -> None:
    """Its symbols have the reader's name in front, and leave with it, from views of the market too."""
    (files / "lse.feed").write_text("".join(f"{line}\n" for line in FEED))
    lab = begin()
    lab.feed.say(*FEED)
    lab.add(NewReader("lse", FileConnection("lse.feed"), "orderbook"))
    both = Counter({("ACME", 5): 1, ("lse:ACME", 5): 1})
    lab.until(lambda: lab.rows("bid_volume") == both)
    lab.seal()
    again = begin()
    assert again.rows("bid_volume") == both
    again.until(lambda: again.state("lse").state == "ended")
    again.drop("lse")
    again.until(lambda: again.rows("bid_volume") == Counter({("ACME", 5): 1}))
    assert not [name for name in again.runtime.parts.writer.space if name.startswith("reader/")]
    third = begin()
    assert third.rows("bid_volume") == Counter({("ACME", 5): 1})


def test_a_full_disk_holds_readers_back(begin: Begin) -> None:
    lab = begin()
    lab.runtime.on_full(True)
    lab.add(file_reader("prices", "prices.csv"))
    lab.runtime.parts.ingest.at_cut(dict, lambda _: None)
    lab.view("totals", PRICES)
    assert lab.rows("totals") == Counter()
    lab.runtime.on_full(False)
    lab.until(lambda: lab.rows("totals") == totals(ROWS))


@pytest.mark.parametrize("is_full", [True, False])
def test_a_reader_added_during_a_pause_is_paused_like_others(begin: Begin, is_full: bool) -> None:
    lab = begin()
    while lab.reactor.turn(0.0):
        pass
    readers = lab.runtime.parts.readers
    lab.runtime.on_full(not is_full)
    added = Deferred.fromCoroutine(readers.add(file_reader("prices", "prices.csv")))
    assert lab.reactor.turn(), "it has been tried out"
    assert lab.reactor.turn(), "its epoch has been cut, so that its gate has been made"
    assert "prices" not in readers.gates()
    lab.runtime.on_full(is_full)
    lab.wait(added)
    assert readers.gates()["prices"]._is_shut is is_full
    lab.runtime.on_full(False)
    lab.view("totals", PRICES)
    lab.until(lambda: lab.rows("totals") == totals(ROWS))


def test_a_clean_stop_is_not_undone_when_there_is_room_again(
    tmp_path: Path, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what is read after its last epoch is lost with the process, or delays it."""
    lab = ReaderLab(tmp_path / "run", monkeypatch, files)
    lab.add(file_reader("prices", "prices.csv"))
    lab.runtime.on_full(True)
    stopped = lab.runtime.stop()
    lab.runtime.on_full(False)
    assert lab.runtime.parts.inputs.is_paused
    assert lab.runtime.parts.readers.gates()["prices"]._is_shut
    lab.runtime.hurry()
    lab.wait(stopped)


def test_after_the_feeds_end_changes_are_refused(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    lab.view("totals", PRICES)
    lab.until(lambda: lab.rows("totals") == totals(ROWS))
    lab.feed.say(*FEED)
    lab.feed.finish()
    lab.until(lambda: lab.runtime.figures()["feed_ended"] == 1)
    for change in (
        lambda: lab.view("other", PRICES),
        lambda: lab.add(file_reader("more", "prices.csv", relation="more")),
        lambda: lab.wait(lab.control.drop("totals", 1.0)),
        lambda: lab.drop("prices", rows="stay"),
    ):
        with pytest.raises(CatalogueError, match="expected a feed that is being read, was one that has ended"):
            change()
    assert (lab.rows("bid_volume"), lab.rows("totals")) == (Counter({("ACME", 5): 1}), totals(ROWS))
    assert lab.runtime.figures()["disconnected"] == 0
    lab.runtime.beat()
    assert lab.runtime.parts.hub.held_lanes == frozenset(), "subscribers get the last changes"
    again = begin()
    assert again.state("prices").views == ("totals",)
    again.drop("prices", rows="stay")


def test_what_is_said_of_readers_is_json(begin: Begin) -> None:
    lab = begin()
    lab.add(file_reader("prices", "prices.csv"))
    told = msgspec.json.decode(msgspec.json.encode(lab.runtime.parts.readers.list()))
    assert [each["name"] for each in told["readers"]] == ["feed", "prices"]
    assert told["readers"][0]["relations"] == ["bids", "asks", "trades"]


def test_a_relation_is_not_called_as_a_view(begin: Begin) -> None:
    """Else a view that names it would read one or the other."""
    lab = begin()
    lab.view("prices", "SELECT symbol, MAX(price) AS bid FROM bids GROUP BY symbol")
    with pytest.raises(CatalogueError, match="expected a name for the relation that no view has, was 'prices'"):
        lab.add(file_reader("prices", "prices.csv"))


def test_a_file_without_a_well_formed_row_is_a_failed_reader(begin: Any, files: Path) -> None:
    """It has ended, and brought nothing; one good row among the malformed ones is enough to have ended well."""
    running: ReaderLab = begin()
    for name, text, state in (("broken", "1;A;2\n3;B;4\n", "failed"), ("mixed", "1;A;2\n3,B,4\n", "ended")):
        (files / f"{name}.csv").write_text(text)
        running.add(file_reader(name, f"{name}.csv"))
        running.until(lambda: running.state(name).state != "reading")  # noqa: B023 (called in the loop)
        assert running.state(name).state == state
    assert running.state("mixed").malformed == 1
    reason = "expected rows, was none: all 2 tuples are malformed; see dead-letters.jsonl"
    assert (running.state("broken").reason, running.state("mixed").reason) == (reason, "")
