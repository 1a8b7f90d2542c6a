"""Options that several commands have, and parsers of their values: run ids, addresses, ports, times and formats."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import click

from deltabook.wire.errors import RunIdError
from deltabook.wire.http.peer import split_address

__all__ = [
    "BACKTEST_FORMATS",
    "FORMATS",
    "PORT",
    "QUEUE_MODELS",
    "REPLAY_MODES",
    "RUN_ID",
    "SECONDS",
    "ConfigFileError",
    "FloatRange",
    "OptionError",
    "access_options",
    "address",
    "check_run_id",
    "collar_option",
    "day_option",
    "first_broker_option",
    "given_run_id",
    "json_option",
    "new_run_id",
    "parameters_option",
    "parse_speed",
    "queue_option",
    "replay_options",
    "security_options",
    "status_interval_options",
]


class ConfigFileError(ValueError):
    """The configuration file cannot be used; the message names the file and the key."""


class OptionError(ConfigFileError):
    """The command line is invalid: options contradict each other, are missing, or cannot be parsed."""


def address(text: str, option: str) -> tuple[str, int]:
    """Return host and port; raise `OptionError` with the option's name for any other text, such as a URL."""
    try:
        return text.rpartition(":")[0], split_address(text)[1]
    except ValueError:
        raise OptionError(f"expected HOST:PORT for {option}, was {text!r}") from None


_FORM: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_run_id(now: datetime, suffix: str = "") -> str:
    """Return a unique run id: the time of its start, and four hex digits that distinguish runs of the same second.

    >>> new_run_id(datetime(2026, 11, 21, 9, 30), "07ff")
    '20261121-093000-07ff'
    """
    return f"{now:%Y%m%d-%H%M%S}-{suffix or secrets.token_hex(2)}"


def check_run_id(run_id: str) -> str:
    """Return the run id unchanged; raise `RunIdError` for one that could break a log line, a label or a path."""
    if not _FORM.fullmatch(run_id):
        raise RunIdError(
            f"expected a run id of 1 to 64 letters, digits, dots, dashes and underscores, was {run_id[:80]!r}"
        )
    return run_id


RUN_ID: Final = "deltabook.run_id"
"""Key of the run id in `click.Context.meta`, which a command shares with the root."""


def given_run_id() -> str:
    """Return the run id; empty for a command that was not called through the root command."""
    return str(click.get_current_context().meta.get(RUN_ID, ""))


FORMATS: Final = ("dbtoaster", "bitstamp", "lobster", "itch", "depth", "parquet")
"""Formats of recorded files."""
BACKTEST_FORMATS: Final = (*FORMATS, "trades", "bars")
"""Formats of files that a backtest plays, including those without a book."""
QUEUE_MODELS: Final = ("back", "front", "prorata")
"""Models that determine which orders are cancelled if a level of a depth file shrinks."""
REPLAY_MODES: Final = ("as-recorded", "as-orders")
"""Modes in which recorded files are played."""


def parse_speed(context: click.Context, parameter: click.Parameter, value: str) -> float | None:
    """Return the speed factor, None for ``max``; raise `click.BadParameter` unless it is a finite number above 0."""
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


day_option: Final = click.option(
    "--day", default="", metavar="YYYY-MM-DD", help="Day of a recording whose times count from midnight."
)
queue_option: Final = click.option(
    "--queue",
    type=click.Choice(QUEUE_MODELS),
    default="back",
    help="Orders that are cancelled when a level of a depth file shrinks: the newest, the oldest, or a share of each.",
)
collar_option: Final = click.option(
    "--collar-bps",
    type=click.IntRange(0, 10_000),
    default=0,
    help="Maximum distance of an execution from the reference price, in basis points; 0 sets no limit.",
)
_Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def _all_of(*options: _Decorator) -> _Decorator:
    """Return a decorator that adds options; help texts list the options in this order."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def replay_options(prefix: str = "") -> _Decorator:
    """Return a decorator that adds the options of a command that replays one recorded file.

    ``prefix`` is the beginning of the names of the arguments for the file's format and for the mode.
    """
    file = click.Path(dir_okay=False, exists=True)
    options = (
        click.option(
            "--format",
            f"{prefix}format",
            type=click.Choice(FORMATS),
            default="dbtoaster",
            help="Format of the recorded file.",
        ),
        click.option(
            "--replay-mode",
            f"{prefix}mode",
            type=click.Choice(REPLAY_MODES),
            default="as-orders",
            help="Reproduce the recorded executions, or send the records as orders.",
        ),
        click.option("--speed", default="1", callback=parse_speed, help="Multiple of real time, or `max`."),
        click.option("--symbol", default="REPLAY", help="Symbol of the replay."),
        click.option(
            "--stocks",
            default="",
            metavar="A,B",
            help="Stocks of an ITCH file to replay; an ITCH file requires at least one.",
        ),
        day_option,
        click.option(
            "--orderbook",
            type=file,
            help="LOBSTER's order book file of the replayed messages, by which the book is corrected.",
        ),
        click.option("--trades", type=file, help="File with the trades of the period of a depth file."),
        queue_option,
    )

    return _all_of(*options)


class _Port(click.ParamType[int | None]):
    """Port to listen on: a number, 0 for any free one, or `none`."""

    name = "port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | None:
        text = str(value)
        if text == "none":
            return None
        if text.isascii() and text.isdigit() and int(text) < 65536:
            return int(text)
        return self.fail(f"expected a port from 0 to 65535 or `none`, was {text!r}", param, ctx)


PORT: Final = _Port()
"""Port to listen on: a number, 0 for any free one, or `none`."""


class FloatRange(click.FloatRange):
    """Range of finite numbers. Click's own type accepts NaN, and accepts infinity on a side of the range that has no
    bound.
    """

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number; call `fail` for text that is not a finite number within the range."""
        number: float = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{number} is not a finite number.", param, ctx)


SECONDS: Final = FloatRange(0)
"""Time in seconds."""
_FILE: Final = click.Path(dir_okay=False)

json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
parameters_option: Final = click.option(
    "--param", "parameters", multiple=True, metavar="[STRATEGY.]KEY=VALUE", help="Parameter of a strategy; repeatable."
)
first_broker_option: Final = click.option(
    "--broker", "first_broker_id", type=click.IntRange(1), default=9001, help="Broker number of the first strategy."
)


def status_interval_options(name: str = "status_interval", default: float = 1.0) -> _Decorator:
    """Return a decorator that adds the options of a supervised process: ``name`` and ``exit_with_stdin``."""
    return _all_of(
        click.option(
            "--status-interval",
            name,
            type=SECONDS,
            default=default,
            help="Seconds between status lines; 0 writes none.",
        ),
        click.option("--exit-with-stdin", is_flag=True, help="Stop when standard input ends."),
    )


def access_options(port: str, *, prefix: str = "", variable: str = "") -> _Decorator:
    """Return a decorator that adds the options for access to a port of another process: its token, and its CA.

    ``port`` names the port in the help texts. ``prefix`` is the beginning of the options' names. ``variable`` is the
    beginning of the names of their environment variables, if these are not the usual names.
    """
    return _all_of(
        click.option(
            f"--{prefix}token-file",
            envvar=f"{variable}_TOKEN_FILE" if variable else None,
            type=_FILE,
            default="",
            help=f"File with the token of {port}.",
        ),
        click.option(
            f"--{prefix}ca-file",
            envvar=f"{variable}_CA_FILE" if variable else None,
            type=_FILE,
            default="",
            help=f"PEM file with the CA that issued the certificate of {port}; connects with TLS.",
        ),
    )


def security_options(port: str, *, prefix: str = "") -> _Decorator:
    """Return a decorator that adds the options for the security of a port that the command opens: token and TLS.

    ``port`` names the port in the help texts. ``prefix`` is the beginning of the options' names.
    """
    return _all_of(
        click.option(
            f"--{prefix}token-file",
            type=_FILE,
            default="",
            help=f"File with the token that clients of {port} must send.",
        ),
        click.option(f"--{prefix}tls-cert", type=_FILE, default="", help=f"PEM file with the certificate of {port}."),
        click.option(
            f"--{prefix}tls-key",
            type=_FILE,
            default="",
            help=f"PEM file with the private key for the certificate of {port}.",
        ),
    )
