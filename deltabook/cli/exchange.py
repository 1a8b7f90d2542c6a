"""`deltabook exchange run` and `deltabook replay`: run the simulated exchange, or one that only replays a file.

`_exchange_admin` has the commands that inspect and control a running exchange, and `_exchange_files` has the commands
that read its files.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click
import msgspec

from deltabook.cli._groups import DefaultCommand, LazyGroup
from deltabook.cli._options import (
    PORT,
    SECONDS,
    FloatRange,
    OptionError,
    collar_option,
    given_run_id,
    replay_options,
    security_options,
    status_interval_options,
)
from deltabook.wire.strict_json import decode_strictly
from deltabook.wire.symbols import Instrument

if TYPE_CHECKING:
    from exchange_server.agents import AgentSettings
    from exchange_server.config import PortLimits

__all__ = ["command", "replay_command"]

_PLACES: Final = {
    "accounts": ("_exchange_admin:accounts", "List accounts; stop or revive one, cancel its orders."),
    "auction": ("_exchange_admin:auction", "Start an auction."),
    "book": ("_exchange_admin:book", "Show a symbol's book."),
    "bust": ("_exchange_admin:bust", "Declare a trade void."),
    "close": ("_exchange_admin:close", "End the day of trading."),
    "export-itch": ("_exchange_files:export_itch", "Write a journal's feed as a file of ITCH 5.0."),
    "halt": ("_exchange_admin:halt", "Halt trading."),
    "hash": ("_exchange_admin:show_hash", "Show the hash of the market's state, live or of a journal."),
    "passwd": ("_exchange_files:passwd", "Hash a password for the users file."),
    "pause": ("_exchange_admin:pause", "Pause trading."),
    "replay": ("_exchange_admin:replay", "Show, pause, resume or seek the replay of a recording."),
    "resume": ("_exchange_admin:resume", "Resume trading; a running auction is uncrossed first."),
    "sessions": ("_exchange_admin:sessions", "List connections; close one."),
    "snapshot": ("_exchange_admin:snapshot", "Write a snapshot."),
    "statistics": ("_exchange_admin:statistics", "Show the totals of the session and of each symbol."),
    "status": ("_exchange_admin:status", "Show the state of a running exchange."),
    "verify": ("_exchange_files:verify", "Check a journal and everything computed from it."),
}
"""Location and summary of commands that are in other modules."""


@click.group("exchange", cls=LazyGroup, places=_PLACES, default="run", options_metavar="[OPTIONS of run]")
def command() -> None:
    """Run the simulated exchange, or inspect and control it while it runs.

    `deltabook exchange --dir DIR ...` is short for `deltabook exchange run --dir DIR ...`, whose --help has the
    options. The other commands use the admin port of a running exchange (--admin HOST:PORT, or --dir DIR on its
    machine), or read the journal in a directory.
    """


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
"""Field of the replay's configuration, by option."""
_DAY: Final = {"opening_auction": "opening_s", "trading": "trading_s", "closing_auction": "closing_s"}
"""Field of the day's schedule, by option."""


def _read(path: str, kind: Any, what: str) -> Any:
    """Decode the JSON file of an option; ``what`` is the expected content with the option's name, for errors."""
    try:
        return decode_strictly(Path(path).read_bytes(), kind)
    except OSError as error:
        raise click.BadParameter(f"expected {what}, was {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise click.BadParameter(f"expected {what}, was {error}, in {path}") from error


def _instruments(agents: str, instruments: str | None, *, plays: bool) -> tuple[Instrument, ...]:
    """Return the instruments of --instruments, or else of the file of --agents, or else the default instruments; none
    for a replay without agents.
    """
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
    """Return the symbols of the file of --agents; an empty tuple means all instruments."""
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


_text_port = click.option(
    "--port", type=PORT, default="0", help="Port of the text protocol; 0 picks a free port, `none` closes it."
)
_itch_port = click.option("--itch-port", type=PORT, default=_NONE, help="Port of the feed as ITCH 5.0 over SoupBinTCP.")


@command.command("run", cls=DefaultCommand, short_help="Run the exchange; this is the default command.")
@click.option("--dir", "directory", required=True, type=click.Path(file_okay=False), help="Directory of the journal.")
@_text_port
@_itch_port
@click.option("--ouch-port", type=PORT, default=_NONE, help="Port for orders in OUCH 5.0 and 4.2; requires --users.")
@click.option("--glimpse-port", type=PORT, default=_NONE, help="Port of book snapshots as ITCH (GLIMPSE).")
@click.option(
    "--mold-to",
    default="",
    metavar="HOST:PORT",
    help="Multicast group or address to send the feed to as MoldUDP64.",
)
@click.option("--mold-port", type=PORT, default=_NONE, help="Port for requests of lost datagrams; requires --mold-to.")
@click.option(
    "--admin-port",
    type=PORT,
    default="0",
    help="Port of the admin commands, such as `deltabook exchange status`, and of /metrics.",
)
@click.option("--interface", default="127.0.0.1", help="Address to listen on.")
@click.option(
    "--admin-interface",
    default="127.0.0.1",
    help="Address of the admin port; one other than loopback requires a token and TLS.",
)
@security_options("the admin port", prefix="admin-")
@click.option(
    "--users",
    "users_file",
    default="",
    metavar="FILE",
    help="File with the users of the OUCH, ITCH and GLIMPSE ports.",
)
@click.option(
    "--limits",
    default="",
    metavar="FILE.json",
    help="Limits of each port, such as connections and how far behind a reader may be.",
)
@click.option(
    "--instruments",
    default=None,
    metavar="A,B|FILE.json",
    help="Instruments that are traded.  [default: those of the agents]",
)
@click.option(
    "--agents",
    default=None,
    help="Simulated traders on the symbols of a JSON file, on the `default` symbols, or `none`.  "
    "[default: `none` with --replay, else `default`]",
)
@click.option(
    "--agent-style",
    default="lively",
    metavar="NAME|FILE.json",
    help="Behaviour of the agents: lively, calm, calibrated, day or a file.",
)
@click.option("--seed", default=1, help="Seed of the agents.")
@click.option(
    "--rate",
    "rate_per_s",
    type=FloatRange(0, min_open=True),
    default=2000.0,
    help="Orders per second of all agents together.",
)
@click.option("--replay", "replay_file", type=click.Path(dir_okay=False, exists=True), help="Recorded file to replay.")
@replay_options("replay_")
@click.option(
    "--start-on",
    "start_on_listeners",
    default=0,
    help="Start agents and replay when this many listeners are connected.",
)
@click.option(
    "--start-on-brokers", default=0, help="Start agents and replay when this many interactive clients are logged in."
)
@click.option("--opening-auction", type=SECONDS, default=0.0, help="Seconds of the opening auction; 0 skips it.")
@click.option("--trading", type=SECONDS, default=0.0, help="Seconds of continuous trading; 0 never ends it.")
@click.option(
    "--closing-auction", type=SECONDS, default=0.0, help="Seconds of the closing auction after --trading; 0 skips it."
)
@collar_option
@click.option(
    "--max-live-orders",
    type=click.IntRange(1),
    default=1_000_000,
    help="Refuse orders above this number of live orders.",
)
@click.option(
    "--fsync",
    type=click.Choice(["always", "interval", "never"]),
    default="interval",
    help="When to force the journal to the disk.",
)
@click.option(
    "--fsync-interval",
    "fsync_interval_s",
    type=FloatRange(0.01),
    default=1.0,
    help="Seconds between fsyncs with --fsync interval.",
)
@click.option(
    "--snapshot-inputs",
    type=click.IntRange(0),
    default=1_000_000,
    help="Requests between snapshots; 0 writes none by count.",
)
@click.option(
    "--snapshot-interval",
    "snapshot_interval_s",
    type=SECONDS,
    default=0.0,
    help="Seconds between snapshots; 0 writes none by time.",
)
@click.option(
    "--keep-snapshots",
    type=click.IntRange(0),
    default=0,
    help="Snapshots to keep, with the journal since the oldest of them; 0 keeps everything.",
)
@click.option(
    "--reactor",
    type=click.Choice(["default", "epoll", "poll", "select", "asyncio"]),
    default="default",
    help="Event loop of Twisted.",
)
@click.option(
    "--busy-poll-ms",
    type=FloatRange(0),
    default=0.0,
    help="Poll without sleeping for this long after a request: lower latency at the cost of a busy core.",
)
@status_interval_options("status_interval_s")
def run(agents: str | None, instruments: str | None, agent_style: str, limits: str, **settings: Any) -> None:
    """Run the simulated exchange.

    Only the text port and the admin port are open by default, and all ports listen on loopback by default. The events
    ready, status and stopped are written to standard output, as text on a terminal, else as one JSON object per line.
    """
    from exchange_server.app import run as run_exchange
    from exchange_server.config import ExchangeConfig

    replay = {field: settings.pop(option) for option, field in _REPLAY.items()}
    replay["stocks"] = _stocks(replay["stocks"])
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
    except ValueError as error:  # from msgspec, and from the checks of the settings themselves
        raise OptionError(str(error)) from error
    run_exchange(config)


def _stocks(given: str) -> tuple[str, ...]:
    return tuple(filter(None, given.split(",")))


@click.command("replay")
@click.argument("file", type=click.Path(dir_okay=False, exists=True))
@replay_options()
@click.option(
    "--dir", "directory", type=click.Path(file_okay=False), help="Directory of the journal.  [default: a temporary one]"
)
@_text_port
@_itch_port
@click.option(
    "--admin-port", type=PORT, default="0", help="Port of `deltabook exchange replay`, which pauses and seeks."
)
@click.option("--start-on", "start_on_listeners", default=0, help="Start when this many listeners are connected.")
@status_interval_options("status_interval_s")
def replay_command(directory: str | None, **options: Any) -> None:
    """Replay a recorded file through an exchange.

    The first line of standard output names the ports; the exchange continues to run after the file's end.
    """
    from exchange_server.app import run as run_exchange
    from exchange_server.config import ExchangeConfig, ReplayConfig

    options["stocks"] = _stocks(options["stocks"])
    replay = {name: options.pop(name) for name in ReplayConfig.__struct_fields__}
    settings = {**options, "replay": replay, "instruments": (), "agents": False}
    if directory is not None:
        run_exchange(msgspec.convert({**settings, "directory": directory}, ExchangeConfig))
        return
    with tempfile.TemporaryDirectory(prefix="deltabook-replay-") as temporary:
        run_exchange(msgspec.convert({**settings, "directory": temporary, "fsync": "never"}, ExchangeConfig))
