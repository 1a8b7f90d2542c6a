"""`deltabook exchange run`: the options of an exchange."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
import msgspec

from deltabook.cli._errors import OptionError
from deltabook.cli._groups import DefaultCommand
from deltabook.cli._options import FORMATS, PORT, QUEUE_MODELS, REPLAY_MODES, SECONDS, parse_speed
from deltabook.cli._run_id import given_run_id
from deltabook.wire.symbols import Instrument

if TYPE_CHECKING:
    from exchange_server.agents import AgentSettings
    from exchange_server.config import PortLimits

__all__ = ["run"]

_NONE: Final = "none"
_DEFAULT: Final = "default"
_REPLAY: Final = {
    "replay_file": "file",
    "replay_format": "format",
    "replay_mode": "mode",
    "speed": "speed",
    "symbol": "symbol",
    "stocks": "stocks",
    "day": "day",
    "orderbook": "orderbook",
    "trades": "trades",
    "queue": "queue",
}
"""Option → field of the replay's configuration."""
_DAY: Final = {"opening_auction": "opening_s", "trading": "trading_s", "closing_auction": "closing_s"}
"""Option → field of the day's schedule."""


def _read(path: str, kind: Any, what: str) -> Any:
    """A JSON file of an option, of this type; ``what`` says the option and what was expected."""
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=kind)
    except OSError as error:
        raise click.BadParameter(f"expected {what}, was {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"expected {what}, was {error}, in {path}") from error


def _instruments(agents: str, instruments: str | None, *, plays: bool) -> tuple[Instrument, ...]:
    """What is traded: the file or list of --instruments, else the file of --agents, else what there is by default."""
    from exchange_server.config import DEFAULT_INSTRUMENTS

    many = tuple[Instrument, ...]
    if instruments is not None:
        if instruments.endswith(".json"):
            return cast(many, _read(instruments, many, "a JSON file of instruments for --instruments"))
        return tuple(Instrument(symbol) for symbol in instruments.split(",") if symbol)
    if agents not in {_NONE, _DEFAULT}:
        return cast(many, _read(agents, many, "a JSON file of instruments for --agents"))
    return () if plays and agents == _NONE else DEFAULT_INSTRUMENTS


def _agent_symbols(agents: str) -> tuple[str, ...]:
    """Those of the file of --agents; none for all that is traded."""
    if agents in {_NONE, _DEFAULT}:
        return ()
    listed = cast(
        "tuple[Instrument, ...]", _read(agents, tuple[Instrument, ...], "a JSON file of instruments for --agents")
    )
    return tuple(instrument.symbol for instrument in listed)


def _agent_settings(style: str) -> AgentSettings:
    from exchange_server.agents import PRESETS, AgentSettings

    if style in PRESETS:
        return PRESETS[style]
    what = f"{', '.join(PRESETS)} or a JSON file for --agent-style"
    return cast(AgentSettings, _read(style, AgentSettings, what))


def _limits(path: str) -> PortLimits:
    from exchange_server.config import PortLimits

    return cast(PortLimits, _read(path, PortLimits, "a JSON file of limits for --limits")) if path else PortLimits()


@click.command("run", cls=DefaultCommand)
@click.option("--dir", "directory", required=True, type=click.Path(file_okay=False), help="Directory of the journal.")
@click.option("--port", type=PORT, default="0", help="Of the text protocol; 0: any free one, `none`: none.")
@click.option("--itch-port", type=PORT, default=_NONE, help="Of the feed as ITCH 5.0 over SoupBinTCP.")
@click.option("--ouch-port", type=PORT, default=_NONE, help="For orders in OUCH 5.0 and 4.2; needs --users.")
@click.option("--glimpse-port", type=PORT, default=_NONE, help="Of snapshots of the books as ITCH (GLIMPSE).")
@click.option(
    "--mold-to",
    default="",
    metavar="HOST:PORT",
    help="Send the feed as MoldUDP64 to a group or an address.",
)
@click.option("--mold-port", type=PORT, default=_NONE, help="Where lost datagrams are asked for; with --mold-to.")
@click.option(
    "--admin-port", type=PORT, default="0", help="For `deltabook exchange status` and the like, and /metrics."
)
@click.option("--interface", default="127.0.0.1", help="Address to listen at.")
@click.option("--admin-interface", default="127.0.0.1", help="The same of the admin port; others need token and TLS.")
@click.option(
    "--admin-token-file",
    "admin_token_file",
    default="",
    metavar="FILE",
    help="File with the token for the admin port.",
)
@click.option("--admin-tls-cert", default="", metavar="FILE", help="PEM file of the admin port's certificate.")
@click.option("--admin-tls-key", default="", metavar="FILE", help="PEM file of its key.")
@click.option(
    "--users",
    "users_file",
    default="",
    metavar="FILE",
    help="Users of the OUCH, ITCH and GLIMPSE ports.",
)
@click.option(
    "--limits",
    default="",
    metavar="FILE.json",
    help="Of each port: connections, how far a reader may be behind, and so on.",
)
@click.option(
    "--instruments", default=None, metavar="A,B|FILE.json", help="What is traded.  [default: the agents' symbols]"
)
@click.option(
    "--agents",
    default=None,
    help="Background agents on the symbols of a JSON file, on the `default` symbols, or `none`.  "
    "[default: `none` with --replay, else `default`]",
)
@click.option(
    "--agent-style", default="lively", metavar="NAME|FILE.json", help="What agents do: lively, calm, calibrated or day."
)
@click.option("--seed", default=1, help="Seed of the agents.")
@click.option("--rate", "rate_per_s", default=2000.0, help="Orders per second of all agents.")
@click.option("--replay", "replay_file", type=click.Path(dir_okay=False, exists=True), help="Recorded file to play.")
@click.option(
    "--format",
    "replay_format",
    type=click.Choice(FORMATS),
    default="dbtoaster",
    help="Of the file.",
)
@click.option("--replay-mode", type=click.Choice(REPLAY_MODES), default="as-orders", help="How it is played.")
@click.option("--speed", default="1", callback=parse_speed, help="Times real time, or `max`.")
@click.option("--symbol", default="REPLAY", help="Symbol of the replay.")
@click.option("--stocks", default="", metavar="A,B", help="Stocks of an ITCH file that are played.")
@click.option(
    "--day",
    default="",
    metavar="YYYY-MM-DD",
    help="Day of a file whose times count from midnight.",
)
@click.option(
    "--orderbook",
    type=click.Path(dir_okay=False, exists=True),
    help="LOBSTER's order book file of the replayed messages, by which their book is mended.",
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
@click.option("--start-on", "start_on_listeners", default=0, help="Flow starts with so many listeners ...")
@click.option("--start-on-brokers", default=0, help="... and so many interactive clients logged in.")
@click.option("--opening-auction", type=SECONDS, default=0.0, help="Seconds; the day begins with the flow. 0: none.")
@click.option("--trading", type=SECONDS, default=0.0, help="Seconds until the end of the day. 0: no end.")
@click.option("--closing-auction", type=SECONDS, default=0.0, help="Seconds, behind --trading. 0: none.")
@click.option("--collar-bps", type=click.IntRange(0, 10_000), default=0, help="Executions no farther; 0: no collar.")
@click.option("--max-live-orders", type=click.IntRange(1), default=1_000_000, help="More are refused.")
@click.option(
    "--fsync",
    type=click.Choice(["always", "interval", "never"]),
    default="interval",
    help="When the journal is forced to the disk.",
)
@click.option("--fsync-interval", "fsync_interval_s", type=click.FloatRange(0.01), default=1.0, help="Seconds.")
@click.option(
    "--snapshot-inputs", type=click.IntRange(0), default=1_000_000, help="Requests between snapshots, 0: none."
)
@click.option(
    "--snapshot-interval", "snapshot_interval_s", type=SECONDS, default=0.0, help="Seconds between them, 0: none."
)
@click.option(
    "--keep-snapshots", type=click.IntRange(0), default=0, help="And the journal from the oldest on. 0: all of it."
)
@click.option(
    "--reactor",
    type=click.Choice(["default", "epoll", "poll", "select", "asyncio"]),
    default="default",
    help="Of Twisted.",
)
@click.option(
    "--busy-poll-ms",
    default=0.0,
    help="Poll without sleeping for so long after a request: quicker answers, a busy core.",
)
@click.option("--status-interval", "status_interval_s", default=1.0, help="Seconds between status lines, 0: none.")
@click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends.")
def run(agents: str | None, instruments: str | None, agent_style: str, limits: str, **settings: Any) -> None:
    """Run the simulated exchange.

    Every port but those of the text protocol and of the admin is closed unless it is asked for, and all are on loopback
    unless told otherwise. Standard output carries one JSON object a line: ready, status, stopped.
    """
    from exchange_server.app import run as run_exchange
    from exchange_server.config import ExchangeConfig

    replay = {field: settings.pop(option) for option, field in _REPLAY.items()}
    replay["stocks"] = tuple(filter(None, replay["stocks"].split(",")))
    plays = replay["file"] is not None
    agents = agents or (_NONE if plays else _DEFAULT)
    settings["agents"] = agents != _NONE
    settings["limits"] = _limits(limits)
    settings["agent_settings"] = _agent_settings(agent_style)
    settings["instruments"] = _instruments(agents, instruments, plays=plays)
    settings["agent_symbols"] = _agent_symbols(agents)
    settings["replay"] = replay if plays else None
    settings["day"] = {field: settings.pop(option) for option, field in _DAY.items()}
    settings["run_id"] = given_run_id()
    try:
        config = msgspec.convert(settings, ExchangeConfig)
    except ValueError as error:  # of msgspec, and of the checks of the settings themselves
        raise OptionError(str(error)) from error
    run_exchange(config)
