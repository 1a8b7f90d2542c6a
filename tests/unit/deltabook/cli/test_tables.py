"""Tables fit the terminal as long as they can."""

from __future__ import annotations

import functools

import pytest
from rich.console import Console

from deltabook.cli import _tables

COLUMNS = ("account", "protocol", "broker", "trades", "live orders", "open notional", "self-trade", "messages")
ROW = ("ouch:ALPHA", "ouch42", 12, "stopped", 12345, None, "decrement", 1234567)


def lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int) -> list[str]:
    terminal = functools.partial(Console, force_terminal=True, color_system=None, width=width)
    monkeypatch.setattr(_tables, "Console", terminal)
    _tables.print_table("1 accounts", COLUMNS, [ROW], left=("account",))
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
    _tables.print_table("1 accounts", ("what",), [("x" * 500,)], left=())
    assert "x" * 500 in capsys.readouterr().out
