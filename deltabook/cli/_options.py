"""Values that options of several commands take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click

__all__ = [
    "BACKTEST_FORMATS",
    "FORMATS",
    "PORT",
    "QUEUE_MODELS",
    "REPLAY_MODES",
    "SECONDS",
    "depth_options",
    "parse_speed",
]

FORMATS: Final = ("dbtoaster", "bitstamp", "lobster", "itch", "depth", "parquet")
"""Formats of recorded files."""
BACKTEST_FORMATS: Final = (*FORMATS, "trades", "bars")
"""Formats of files that a backtest plays: also those without a book."""
QUEUE_MODELS: Final = ("back", "front", "prorata")
"""How the levels of a file of depth shrink."""
REPLAY_MODES: Final = ("as-recorded", "as-orders")
"""How they are played."""


def depth_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command that replays one recorded file whose book is not whole in it."""
    file = click.Path(dir_okay=False, exists=True)
    for option in (
        click.option(
            "--queue",
            type=click.Choice(QUEUE_MODELS),
            default="back",
            help="Which orders of a level of depth are cancelled: the newest, the oldest, or a share of each.",
        ),
        click.option("--trades", type=file, help="Trades of the same time as a file of depth."),
        click.option(
            "--orderbook",
            type=file,
            help="LOBSTER's order book file of the replayed messages, by which their book is mended.",
        ),
    ):
        command = option(command)
    return command


def parse_speed(context: click.Context, parameter: click.Parameter, value: str) -> float | None:
    """``max`` is None, anything else a factor above 0."""
    del context, parameter
    if value == "max":
        return None
    try:
        speed = float(value)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise click.BadParameter(f"expected `max` or a number above 0, was {value!r}")
    return speed


class _Port(click.ParamType[int | None]):
    """A port to listen at: a number, 0 for any free one, or `none`."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        text = str(value)
        if text == "none":
            return None
        if text.isascii() and text.isdigit() and int(text) < 65536:
            return int(text)
        return self.fail(f"expected a port from 0 to 65535 or `none`, was {text!r}", param, ctx)


PORT: Final = _Port()
"""A port to listen at: a number, 0 for any free one, or `none`."""
SECONDS: Final = click.FloatRange(0)
"""A time."""
