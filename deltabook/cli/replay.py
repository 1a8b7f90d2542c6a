"""`deltabook replay`: play a recorded file through an exchange."""

from __future__ import annotations

import tempfile
from typing import Any

import click
import msgspec

from deltabook.cli._options import FORMATS, PORT, QUEUE_MODELS, REPLAY_MODES, parse_speed

__all__ = ["command"]


@click.command("replay")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@click.option("--format", type=click.Choice(FORMATS), default="dbtoaster", help="Of the file.")
@click.option("--replay-mode", "mode", type=click.Choice(REPLAY_MODES), default="as-orders", help="How it is played.")
@click.option("--speed", default="1", callback=parse_speed, help="Times real time, or `max`.")
@click.option("--symbol", default="REPLAY", help="Symbol that it becomes.")
@click.option("--stocks", default="", metavar="A,B", help="Stocks of an ITCH file that are played.")
@click.option("--day", default="", metavar="YYYY-MM-DD", help="Day of a file whose times count from midnight.")
@click.option(
    "--orderbook",
    type=click.Path(dir_okay=False, exists=True),
    help="LOBSTER's order book file of the same messages, by which their book is mended.",
)
@click.option(
    "--trades",
    type=click.Path(dir_okay=False, exists=True),
    help="Trades of the same time as a file of depth.",
)
@click.option(
    "--queue",
    type=click.Choice(QUEUE_MODELS),
    default="back",
    help="Which orders of a level of depth are cancelled: the newest, the oldest, or a share of each.",
)
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False), help="Journal to keep.  [default: a temporary one]"
)
@click.option("--port", type=PORT, default="0", help="Of the text protocol; 0: any free one, `none`: none.")
@click.option("--itch-port", type=PORT, default="none", help="Of the feed as ITCH 5.0 over SoupBinTCP.")
@click.option("--admin-port", type=PORT, default="0", help="Where `deltabook exchange replay` pauses, seeks and so on.")
@click.option("--start-on", "start_on_listeners", default=0, help="Begin with so many listeners.")
@click.option("--status-interval", "status_interval_s", default=1.0, help="Seconds between status lines, 0: none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def command(directory: str | None, **options: Any) -> None:
    """Play a recorded file through an exchange of its own.

    The first line of standard output names the ports; the exchange stays up after the file's end.
    """
    from exchange_server.app import run
    from exchange_server.config import ExchangeConfig, ReplayConfig

    options["stocks"] = tuple(filter(None, options["stocks"].split(",")))
    replay = {name: options.pop(name) for name in ReplayConfig.__struct_fields__}
    settings = {**options, "replay": replay, "instruments": (), "agents": False}
    if directory is not None:
        run(msgspec.convert({**settings, "directory": directory}, ExchangeConfig))
        return
    with tempfile.TemporaryDirectory(prefix="deltabook-replay-") as temporary:
        run(msgspec.convert({**settings, "directory": temporary, "fsync": "never"}, ExchangeConfig))
