"""Screens: a line every few seconds in a pipe, one screen on a terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from twisted.internet.task import Clock

from deltabook.demo import DemoFigures, LineScreen, LiveScreen


@pytest.fixture
def figures() -> DemoFigures:
    clock = Clock()
    figures = DemoFigures(clock.seconds)
    clock.advance(6)
    figures.start()
    figures.take("exchange", {"sequence": 61234}, 1)
    figures.take(
        "runtime",
        {
            "messages": 61000,
            "epoch": 280,
            "views": 6,
            "view_updates": 1520,
            "lag_ms": 212.0,
            "spark": "up",
            "express_lag_ms": 3.5,
        },
        1,
    )
    figures.take("algo", {"orders_sent": 412, "orders_filled": 96, "sobi.pnl": -3.5, "sobi.position_lots": 7}, 1)
    return figures


def test_a_pipe_gets_whole_lines(figures: DemoFigures) -> None:
    stream = io.StringIO()
    screen = LineScreen(stream)
    screen.report("starting exchange")
    screen.draw(figures)
    screen.close()
    first, second = stream.getvalue().splitlines()
    assert first == "demo: starting exchange"
    assert second.startswith("demo:    6 s  ")
    assert "lag: express 3.50 ms, Spark 212 ms" in second
    assert "6 views, 1,520 updates" in second
    assert "orders: 412 sent, 96 filled" in second
    assert "\x1b" not in stream.getvalue()


def test_a_pipe_gets_a_sign_of_life_before_anything_runs() -> None:
    clock = Clock()
    stream = io.StringIO()
    screen, figures = LineScreen(stream), DemoFigures(clock.seconds)
    for _ in range(12):
        clock.advance(1)
        screen.draw(figures)
    assert stream.getvalue().splitlines() == [
        "demo:    5 s  waiting for a first view update",
        "demo:   10 s  waiting for a first view update",
    ]


def test_a_pipe_gets_figures_before_spark_is_up() -> None:
    clock = Clock()
    stream = io.StringIO()
    screen, figures = LineScreen(stream), DemoFigures(clock.seconds)
    figures.take("runtime", {"view_updates": 9, "spark": "starting", "express_lag_ms": 2.0}, 1)
    for _ in range(9):
        clock.advance(1)
        screen.draw(figures)
    (line,) = stream.getvalue().splitlines()
    assert "lag: express 2.00 ms, Spark is starting" in line


def test_a_terminal_gets_one_screen_that_is_gone_at_the_end(figures: DemoFigures) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30, color_system=None)
    screen = LiveScreen(console)
    for number in range(20):
        screen.report(f"line {number}")
        screen.draw(figures)
    shown = stream.getvalue()
    assert "61,234" in shown
    assert "sobi" in shown
    assert "-3.5" in shown
    screen.close()
    assert stream.getvalue().endswith("\x1b[2K")  # the last line of the screen is wiped
    assert "\x1b[?25h" in stream.getvalue()  # the cursor is shown again
