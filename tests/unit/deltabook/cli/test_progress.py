"""Progress is for a terminal: beside the output, gone at its end, and nowhere else."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from deltabook.cli._progress import progress


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
