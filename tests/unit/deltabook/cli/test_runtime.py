"""``deltabook runtime`` says in one line what is wrong with its options and views, before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main

BAD = {
    "stream": ("CREATE STREAM r(a INT) FROM FILE 'v.sql' LINE DELIMITED csv; SELECT a FROM r;", "was CREATE STREAM"),
    "nothing": ("-- no view\n", "expected at least one SELECT in --views"),
    "relation": ("SELECT a FROM nowhere;", "v.sql:1:15: unknown relation 'nowhere'"),
    "column": ("SELECT pric FROM bids;", "v.sql:1:8: unknown column 'pric'"),
    "syntax": ("SELECT price FROM bids WHERE;", "v.sql:1:"),
}


def run(directory: Path, *options: str, feed: str = "127.0.0.1:1", views: str = "v.sql", code: int = 1) -> str:
    arguments = [
        "runtime",
        "--feed",
        feed,
        "--views",
        str(directory / views),
        "--dir",
        str(directory / "run"),
        *options,
    ]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == code
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("deltabook runtime: failed: ")
    return done.stderr


@pytest.mark.parametrize("what", BAD)
def test_views_that_cannot_be_kept_are_one_line(tmp_path: Path, what: str) -> None:
    text, reason = BAD[what]
    (tmp_path / "v.sql").write_text(text)
    assert reason in run(tmp_path, code=2 if what == "nothing" else 1)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    assert "gone.sql, which does not exist" in run(tmp_path, views="gone.sql")


@pytest.mark.parametrize("feed", ["nowhere", "host:", "host:port", "host:0", "host:65536", ":1", "http://127.0.0.1:1"])
def test_an_address_that_is_none_is_one_line(tmp_path: Path, feed: str) -> None:
    assert f"expected HOST:PORT for --feed, was {feed!r}" in run(tmp_path, feed=feed, code=2)


def test_a_runtime_reads_something(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["runtime", "--dir", str(tmp_path / "run")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "expected --feed or --upstream, was neither" in done.stderr


@pytest.mark.parametrize("given", ["a", "=dir", "a=", "A=dir", "feed=dir", "a-b=dir"])
def test_an_upstream_that_is_none_is_one_line(tmp_path: Path, given: str) -> None:
    done = CliRunner().invoke(main, ["runtime", "--upstream", given, "--dir", str(tmp_path / "run")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"was {given!r}" in done.stderr


def test_there_may_be_only_so_many_views(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text("SELECT price FROM bids; SELECT price FROM asks;")
    assert "expected at most 1 views and streams (--most-views), was 2" in run(tmp_path, "--most-views", "1")


@pytest.mark.parametrize("tick", ["0.00005", "0", "-1", "abc", "nan", "inf"])
def test_a_tick_that_itch_cannot_have_is_one_line(tmp_path: Path, tick: str) -> None:
    (tmp_path / "v.sql").write_text("SELECT price FROM bids;")
    said = run(tmp_path, "--feed-protocol", "itch", "--feed-tick", tick, code=2)
    assert f"expected a tick of whole ten-thousandths for --feed-tick, was {tick!r}" in said
