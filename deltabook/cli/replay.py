"""`deltabook replay`: play a recorded file through an exchange."""

from __future__ import annotations

import tempfile
from typing import Any

import click
import msgspec

from deltabook.cli._options import PORT, SECONDS, replay_options

__all__ = ["command"]


@click.command("replay")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@replay_options()
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False), help="Directory of the journal.  [default: a temporary one]"
)
@click.option(
    "--port", type=PORT, default="0", help="Port of the text protocol; 0 picks a free port, `none` closes it."
)
@click.option("--itch-port", type=PORT, default="none", help="Port of the feed as ITCH 5.0 over SoupBinTCP.")
@click.option(
    "--admin-port", type=PORT, default="0", help="Port of `deltabook exchange replay`, which pauses and seeks."
)
@click.option("--start-on", "start_on_listeners", default=0, help="Start when this many listeners are connected.")
@click.option(
    "--status-interval",
    "status_interval_s",
    type=SECONDS,
    default=1.0,
    help="Seconds between status lines; 0 writes none.",
)
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def command(directory: str | None, **options: Any) -> None:
    """Replay a recorded file through an exchange.

    The first line of standard output names the ports; the exchange continues to run after the file's end.
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
