"""Tables fit the terminal as long as they can; progress is for a terminal, and gone at its end."""

from __future__ import annotations

import functools
import io

import pytest
from rich.console import Console

from deltabook.cli import _terminal
from deltabook.cli._terminal import progress

COLUMNS = ("account", "protocol", "broker", "trades", "live orders", "open notional", "self-trade", "messages")
ROW = ("ouch:ALPHA", "ouch42", 12, "stopped", 12345, None, "decrement", 1234567)


def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    terminal = functools.partial(Console, force_terminal=True, color_system=None, width=width)
    monkeypatch.setattr(_terminal, "Console", terminal)
    _terminal.print_table("1 accounts", COLUMNS, [ROW], left=("account",))
    return capsys.readouterr().out.splitlines()


def test_a_table_that_fits_is_framed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    title, top, *_ = lines(capsys, monkeypatch, 120)
    assert (title, top[0], top[-1]) == ("1 accounts", "┏", "┓")


def test_the_frame_goes_before_a_cell_is_wrapped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = lines(capsys, monkeypatch, 80)
    assert max(map(len, printed)) <= 80
    assert printed[-1].split() == ["ouch:ALPHA", "ouch42", "12", "stopped", "12345", "decrement", "1234567"]


def test_a_table_that_goes_to_no_terminal_is_as_wide_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    _terminal.print_table("1 accounts", ("what",), [("x" * 500,)], left=())
    assert "x" * 500 in capsys.readouterr().out


def shown(total: int | None, *, is_terminal: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=is_terminal, width=100, color_system=None)
    with progress("Spark is starting", total, console) as advance:
        advance(3, "points")
    return stream.getvalue()


def test_a_terminal_shows_what_is_done_and_of_how_many() -> None:
    text = shown(8, is_terminal=True)
    assert "points" in text
    assert "3/8" in text
    assert text.endswith("\x1b[2K"), "it is gone at the end"


def test_without_a_total_the_count_alone_is_shown() -> None:
    text = shown(None, is_terminal=True)
    assert "points, 3" in text
    assert "/" not in text


@pytest.mark.parametrize("total", [None, 8])
def test_a_pipe_gets_nothing(total: int | None) -> None:
    assert shown(total, is_terminal=False).strip() == ""
