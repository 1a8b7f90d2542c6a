"""`deltabook exchange`: run the simulated exchange."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click
import msgspec

from deltabook.wire.symbols import Instrument, parse_instruments
from exchange_server.config import DEFAULT_INSTRUMENTS, ExchangeConfig, ReplayConfig

__all__ = ["command", "parse_speed"]

_NONE: Final = "none"
_DEFAULT: Final = "default"


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


def _instruments(agents: str) -> tuple[Instrument, ...]:
    if agents in {_NONE, _DEFAULT}:
        return DEFAULT_INSTRUMENTS
    try:
        return tuple(parse_instruments(Path(agents).read_bytes()))
    except OSError as error:
        raise click.BadParameter(f"expected a JSON file of instruments at {agents}, was {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"expected a JSON list of instruments, was {error}, in {agents}") from error


@click.command("exchange")
@click.option("--dir", "directory", required=True, type=click.Path(file_okay=False), help="Directory of the journal.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the text protocol, 0: any.")
@click.option(
    "--itch-port",
    default=None,
    type=click.IntRange(0, 65535),
    help="Port of the feed as ITCH 5.0 over SoupBinTCP, 0: any.",
)
@click.option("--interface", default="127.0.0.1", help="Address to listen at.")
@click.option(
    "--agents",
    default=None,
    help="Background agents on the symbols of a JSON file, on the `default` symbols, or `none`.  "
    "[default: `none` with --replay, else `default`]",
)
@click.option("--seed", default=1, help="Seed of the agents.")
@click.option("--rate", "rate_per_s", default=2000.0, help="Orders per second of all agents.")
@click.option("--replay", "replay_file", type=click.Path(dir_okay=False, exists=True), help="Recorded file to play.")
@click.option(
    "--format", "replay_format", type=click.Choice(["dbtoaster", "bitstamp"]), default="dbtoaster", help="Of the file."
)
@click.option(
    "--replay-mode", type=click.Choice(["as-recorded", "as-orders"]), default="as-orders", help="How it is played."
)
@click.option("--speed", default="1", callback=parse_speed, help="Times real time, or `max`.")
@click.option("--symbol", default="REPLAY", help="Symbol of the replay.")
@click.option("--start-on", "start_on_listeners", default=0, help="Flow starts with so many listeners ...")
@click.option("--start-on-brokers", default=0, help="... and so many interactive clients logged in.")
@click.option(
    "--fsync",
    type=click.Choice(["always", "interval", "never"]),
    default="interval",
    help="When the journal is forced to the disk.",
)
@click.option("--status-interval", "status_interval_s", default=1.0, help="Seconds between status lines, 0: none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def command(agents: str | None, replay_file: str | None, replay_format: str, replay_mode: str, **settings: Any) -> None:
    """Run the simulated exchange.

    Serves the text protocol, and the feed as ITCH too if --itch-port is given; standard output carries one JSON object
    a line: ready, status, stopped.
    """
    from exchange_server.app import run

    speed, symbol = settings.pop("speed"), settings.pop("symbol")
    agents = agents or (_NONE if replay_file else _DEFAULT)
    settings["agents"] = agents != _NONE
    settings["instruments"] = () if replay_file and agents == _NONE else _instruments(agents)
    if replay_file:
        replay = {"file": replay_file, "format": replay_format, "mode": replay_mode, "speed": speed, "symbol": symbol}
        settings["replay"] = msgspec.convert(replay, ReplayConfig)
    run(ExchangeConfig(**settings))
