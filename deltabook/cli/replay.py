"""`deltabook replay`: play a recorded file through an exchange."""

from __future__ import annotations

import tempfile
from typing import Any

import click
import msgspec

from deltabook.cli._options import parse_speed
from exchange_server.config import ExchangeConfig, ReplayConfig

__all__ = ["command"]


@click.command("replay")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option("--format", type=click.Choice(["dbtoaster", "bitstamp"]), default="dbtoaster", help="Of the file.")
@click.option("--mode", type=click.Choice(["as-recorded", "as-orders"]), default="as-orders", help="How it is played.")
@click.option("--speed", default="1", callback=parse_speed, help="Times real time, or `max`.")
@click.option("--symbol", default="REPLAY", help="Symbol that it becomes.")
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False), help="Journal to keep.  [default: a temporary one]"
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Port of the text protocol, 0: any.")
@click.option("--start-on", "start_on_listeners", default=0, help="Begin with so many listeners.")
@click.option("--status-interval", "status_interval_s", default=1.0, help="Seconds between status lines, 0: none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def command(directory: str | None, **options: Any) -> None:
    """Play a recorded file through an exchange of its own.

    The first line of standard output names the port; the exchange stays up after the file's end.
    """
    from exchange_server.app import run

    replay = msgspec.convert({name: options.pop(name) for name in ReplayConfig.__struct_fields__}, ReplayConfig)
    settings = {**options, "replay": replay, "instruments": (), "agents": False}
    if directory is not None:
        run(ExchangeConfig(directory=directory, **settings))
        return
    with tempfile.TemporaryDirectory(prefix="deltabook-replay-") as temporary:
        run(ExchangeConfig(directory=temporary, fsync="never", **settings))
