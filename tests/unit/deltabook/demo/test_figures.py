"""Figures: what is required, what rates are, how they read."""

from __future__ import annotations

import pytest
from twisted.internet.task import Clock

from deltabook.demo import DemoFigures
from deltabook.wire.symbols import Instrument


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def figures(clock: Clock) -> DemoFigures:
    return DemoFigures(clock.seconds)


def test_nothing_yet_is_five_shortfalls(figures: DemoFigures) -> None:
    assert figures.shortfalls() == [
        "expected messages above 0, was 0",
        "expected epochs above 0, was 0",
        "expected view updates above 0, was 0",
        "expected orders sent above 0, was 0",
        "expected orders filled above 0, was 0",
    ]


def test_the_rate_is_over_the_time_between_two_statuses(figures: DemoFigures, clock: Clock) -> None:
    clock.advance(2)
    figures.take("runtime", {"messages": 1000}, 1)
    assert figures.messages_per_s == 500
    clock.advance(1)
    figures.take("runtime", {"messages": 1000}, 1)  # nothing new was said
    assert figures.messages_per_s == 500
    figures.take("runtime", {"messages": 1300}, 2)
    assert figures.messages_per_s == 300


def test_seconds_count_from_the_start(figures: DemoFigures, clock: Clock) -> None:
    clock.advance(5)
    assert figures.elapsed_s == 0
    figures.start()
    clock.advance(3)
    assert figures.elapsed_s == 3


def test_gauges_stay_at_the_finish_and_counts_continue(figures: DemoFigures, clock: Clock) -> None:
    clock.advance(1)
    figures.take("runtime", {"messages": 100, "rows_per_s": 50}, 1)
    figures.finish()
    clock.advance(1)
    figures.take("runtime", {"messages": 110, "rows_per_s": 0}, 2)
    assert (figures.messages, figures.messages_per_s, figures.text("runtime", "rows_per_s")) == (110, 100, "50")


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0, "0"), (12345, "12,345"), (1.234, "1.23"), (1234.5, "1,234"), ("busy", "busy")]
)
def test_figures_read_well(figures: DemoFigures, value: int | float | str | None, text: str) -> None:
    figures.take("runtime", {"epoch": value}, 1)
    assert figures.text("runtime", "epoch") == text


def test_position_and_profit_are_read_in_the_scale(clock: Clock) -> None:
    figures = DemoFigures(clock.seconds, Instrument("BTCUSD", "0.01", "0.00000001"))
    assert figures.position(-53_027_938) == "-0.53027938"
    assert figures.money(-3_295_584_852_132) == "-329.56"
    assert figures.money(None) == "-"
    assert DemoFigures(clock.seconds).money(1234) == "1,234"


def test_a_figure_that_is_no_number_counts_as_none(figures: DemoFigures) -> None:
    figures.take("runtime", {"messages": "many"}, 1)
    assert figures.messages == 0


def test_counts_do_not_go_back_when_a_part_is_started_again(figures: DemoFigures) -> None:
    """What a process counts goes on; what stands in its directory is as high as it ever was."""
    figures.take("runtime", {"messages": 1000, "epoch": 20, "view_updates": 60}, 5)
    figures.take("runtime", {}, 0)
    assert (figures.messages, figures.view_updates) == (1000, 60)
    figures.take("runtime", {"messages": 990, "epoch": 19, "view_updates": 4}, 1)
    figures.take("runtime", {"messages": 1010, "epoch": 21, "view_updates": 10}, 2)
    assert (figures.messages, figures.epochs, figures.view_updates) == (1010, 21, 66)
