"""Epochs of other runtimes come in whole, once, and with the cuts of their own origins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runtime.upstreams import Symbols
from tests.generators.streams_lab import program_of, stream_rows
from tests.generators.upstream_lab import MainRuntime, UpstreamRun, bid, trade


def rows(*given: tuple[object, ...]) -> Counter[tuple[object, ...]]:
    return Counter([row[:-1] for row in given])


def test_several_epochs_may_go_into_one(tmp_path: Path) -> None:
    """With the position behind the last, and what that cuts."""
    up, other = UpstreamRun(tmp_path / "a"), UpstreamRun(tmp_path / "b", 50, "S2")
    up.seal(bid(1), bid(2))
    up.seal(bid(1, weight=-1), bid(3))
    other.seal(bid(7, "BB"))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a"), ("b", tmp_path / "b")])
    footer = main.cut()
    assert (footer.to_epoch, footer.messages) == (1, 5)
    assert {name: (cut.session, cut.sequence) for name, cut in footer.cuts.items()} == {
        "a": ("1", 2),
        "a/feed": ("S1", 4),
        "b": ("32", 1),
        "b/feed": ("S2", 1),
    }
    assert main.rows() == rows(bid(2), bid(3), bid(7, "BB"))
    main.stop()


@pytest.mark.parametrize("most", [1, 2, 3])
def test_an_epoch_ends_behind_the_upstreams_that_fills_it(tmp_path: Path, most: int) -> None:
    """Never within it, however many messages it has."""
    up = UpstreamRun(tmp_path / "a")
    for number in range(0, 9, 3):
        up.seal(*[bid(number + n) for n in range(3)])
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")], epoch_messages=most)
    main.take()
    assert [main.log.read(epoch).footer.messages for epoch in range(1, main.writer.epoch + 1)] == [3, 3, 3]
    main.stop()


def test_a_restart_goes_on_behind_what_is_committed(tmp_path: Path) -> None:
    up = UpstreamRun(tmp_path / "a")
    up.seal(bid(1))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")])
    main.cut()
    up.seal(bid(2))
    main.take()
    main.stop()  # what it has taken is in no epoch
    up.seal(bid(3))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")])
    assert (main.cut().messages, main.rows()) == (2, rows(bid(1), bid(2), bid(3)))
    main.stop()


def test_rows_without_messages_are_an_epochs_too(tmp_path: Path) -> None:
    """As of trades whose time is over."""
    up = UpstreamRun(tmp_path / "a")
    up.seal(bid(1))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")])
    main.cut()
    up.seal(bid(1, weight=-1), messages=0)
    assert (main.cut().to_epoch, main.rows()) == (2, Counter())
    up.seal()
    assert main.cut().to_epoch == 2, "nothing has changed"
    main.stop()


@pytest.mark.parametrize(("symbols", "found"), [("prefixed", {"a:AA", "b:AA"}), ("shared", {"AA"})])
def test_symbols_of_upstreams_are_told_apart_or_add_up(tmp_path: Path, symbols: Symbols, found: set[str]) -> None:
    UpstreamRun(tmp_path / "a").seal(bid(1))
    UpstreamRun(tmp_path / "b", 50, "S2").seal(bid(2))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a"), ("b", tmp_path / "b")], symbols)
    main.cut()
    assert {str(row[5]) for row in main.rows()} == found
    main.stop()


def test_a_symbol_of_two_upstreams_is_refused_over_restarts(tmp_path: Path) -> None:
    up, other = UpstreamRun(tmp_path / "a"), UpstreamRun(tmp_path / "b", 50, "S2")
    up.seal(bid(1))
    both = [("a", tmp_path / "a"), ("b", tmp_path / "b")]
    main = MainRuntime(tmp_path / "m", both)
    main.cut()
    main.stop()
    other.seal(bid(2))
    main = MainRuntime(tmp_path / "m", both)
    main.take()
    assert "expected symbols of a and b that differ, was 'AA' in both" in main.failure
    assert main.writer.epoch == 1
    main.stop()


def test_a_feed_that_two_upstreams_read_is_refused(tmp_path: Path) -> None:
    UpstreamRun(tmp_path / "a").seal(bid(1))
    UpstreamRun(tmp_path / "b", 50).seal(bid(2, "BB"))
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a"), ("b", tmp_path / "b")])
    main.take()
    assert "expected feeds that differ, was session S1 as both a/feed and b/feed" in main.failure
    assert main.writer.epoch == 0
    main.stop()


def test_a_tree_names_every_feed(tmp_path: Path) -> None:
    UpstreamRun(tmp_path / "a").seal(bid(1))
    middle = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")])
    middle.cut()
    top = MainRuntime(tmp_path / "t", [("m", tmp_path / "m")])
    cuts = top.cut().cuts
    assert sorted(cuts) == ["m", "m/a", "m/a/feed"]
    assert cuts["m/a/feed"].session == "S1"
    assert top.rows() == rows(bid(1))
    top.stop()
    middle.stop()


STREAM = program_of("CREATE STREAM s AS SELECT t, match_id FROM trades;")


def test_streams_wait_for_the_slowest_feed_of_an_upstream(tmp_path: Path) -> None:
    """The upstream seals how far it is: its newest trade may be of its fastest feed."""
    up = UpstreamRun(tmp_path / "a")
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")], streams=STREAM)
    up.seal(trade(1, t=20), watermarks={"trades": 10})
    main.cut()
    up.seal(trade(2, t=12), watermarks={"trades": 15})
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == [(12, 2)]
    up.seal(bid(1), watermarks={"trades": 30})  # no trade, and yet it is further
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == [(12, 2), (20, 1)]
    assert main.writer.dead_letters == 0
    main.stop()


def test_an_upstream_without_a_watermark_is_waited_for(tmp_path: Path) -> None:
    """As before the first message of one of its feeds."""
    up = UpstreamRun(tmp_path / "a")
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")], streams=STREAM)
    up.seal(trade(1, t=20), watermarks={})
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == []
    main.stop()


def test_an_old_upstream_is_as_far_as_its_newest_trade(tmp_path: Path) -> None:
    up = UpstreamRun(tmp_path / "a")
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")], streams=STREAM)
    up.seal(trade(1, t=20))
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == [(20, 1)]
    up.seal(trade(2, t=30), watermarks={"trades": 25})  # it was upgraded
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == [(20, 1)]
    main.stop()


def test_a_snapshot_has_the_watermarks_of_its_epoch(tmp_path: Path) -> None:
    up = UpstreamRun(tmp_path / "a")
    up.seal(trade(1, t=20), watermarks={"trades": 10})
    up.seal(bid(1), watermarks={"trades": 11})
    up.retire()
    main = MainRuntime(tmp_path / "m", [("a", tmp_path / "a")], streams=STREAM)
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == []
    up.seal(bid(2), watermarks={"trades": 20})
    main.cut()
    assert stream_rows(tmp_path / "m", "s") == [(20, 1)]
    main.stop()
