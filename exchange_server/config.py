"""Frozen settings of an exchange."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from deltabook.wire.access import PortSecurity, is_loopback
from deltabook.wire.symbols import Instrument
from exchange_server.agents import AgentSettings
from exchange_server.day import DaySchedule
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.journal import FsyncPolicy
from exchange_server.matching.inputs import MarketRules, ReplayMode
from exchange_server.matching.market_state import INT64_MAX
from exchange_server.nasdaq.glimpse import GlimpseLimits
from exchange_server.nasdaq.itch import ItchLimits
from exchange_server.nasdaq.mold import RequestLimits
from exchange_server.nasdaq.ouch import OuchLimits
from exchange_server.outputs import FeedForm
from exchange_server.process import ReactorName
from exchange_server.replay import (
    ANY_SYMBOL,
    PRICE_FORMATS,
    QueueModel,
    RecordingFormat,
    outlier_factor,
    scale_of,
    source_format,
)
from exchange_server.replay.files import check_regular
from exchange_server.text import TextLimits

__all__ = ["DEFAULT_INSTRUMENTS", "ExchangeConfig", "ReplayConfig", "agent_instruments", "rules_of"]

_SIZE: Final = re.compile(r"[0-9]{1,20}(?:\.[0-9]{1,20})?")
"""Pattern of the size of a tick or a lot."""

DEFAULT_INSTRUMENTS: Final = (
    Instrument("ACME", "0.01", "1", 10_000),
    Instrument("GLOBEX", "0.01", "1", 25_000),
    Instrument("INITECH", "0.01", "1", 5_000),
)

_LIVE_IDS_ABOVE_RECORDED: Final = 10**17
_BEGINNING_BYTES: Final = 64 * 1024
_LONGEST_DAY_S: Final = 10**9


class ReplayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of the replay of a recorded file."""

    file: str
    """Path of the file; gzip, xz and bzip2 are decompressed."""
    format: RecordingFormat
    """Format of the file."""
    mode: ReplayMode = "as-orders"
    """Effect of the records: orders to trade against, or a book exactly as recorded."""
    speed: float | None = 1.0
    """Recorded seconds per real second; None is as fast as possible."""
    symbol: str = "REPLAY"
    """Symbol of the replayed instrument."""
    stocks: tuple[str, ...] = ()
    """Stocks of an ITCH file to replay, under their own names in place of `symbol`."""
    day: str = ""
    """Day of a file whose times count from midnight, as YYYY-MM-DD."""
    orderbook: str | None = None
    """Path of LOBSTER's order book file for the same messages, by which the replayed book is corrected."""
    trades: str | None = None
    """Path of the recorded trades of the same period, for a file of depth."""
    queue: QueueModel = "back"
    """Choice of the orders that are cancelled when a level of recorded depth shrinks."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Symbols of the replayed instruments; if none is named, those that a Parquet recording contains."""
        if self.format == "parquet" and not self.stocks and self.symbol == ANY_SYMBOL:
            from exchange_server.replay.parquet import read_info  # other files are replayed without pyarrow

            return read_info(Path(self.file)).symbols
        return self.stocks or (self.symbol,)


class PortLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of each server."""

    text: TextLimits = TextLimits()
    """Limits of the text protocol and of its brokers."""
    itch: ItchLimits = ItchLimits()
    """Limits of the ITCH server over SoupBinTCP."""
    glimpse: GlimpseLimits = GlimpseLimits()
    """Limits of the snapshot server."""
    ouch: OuchLimits = OuchLimits()
    """Limits of the OUCH server; limits of its users are in the users file."""
    mold: RequestLimits = RequestLimits()
    """Limits of the server that resends lost datagrams."""

    @property
    def connections(self) -> int:
        """Largest number of connections of all servers together."""
        return sum(limits.connections for limits in (self.text, self.itch, self.glimpse, self.ouch))


class ExchangeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of an exchange process. A port is a number; 0 stands for any free port, None for no port."""

    directory: str
    """Directory of the journal; a new directory begins a new session."""
    port: int | None = 0
    """TCP port of the text protocol."""
    itch_port: int | None = None
    """TCP port of the ITCH feed over SoupBinTCP."""
    ouch_port: int | None = None
    """TCP port for orders in OUCH over SoupBinTCP; needs a users file."""
    glimpse_port: int | None = None
    """TCP port of snapshots as ITCH over SoupBinTCP."""
    mold_to: str = ""
    """HOST:PORT to which the feed is sent as MoldUDP64; HOST is a multicast group or an address. Empty for no such
    feed.
    """
    mold_port: int | None = None
    """UDP port for requests to resend lost datagrams."""
    admin_port: int | None = None
    """TCP port of the admin interface."""
    interface: str = "127.0.0.1"
    """Address to listen at."""
    admin_interface: str = "127.0.0.1"
    """Address that the admin port listens at; any other than loopback needs a token and TLS."""
    admin_token_file: str = ""
    """File with the token that requests to the admin port must present."""
    admin_tls_cert: str = ""
    """PEM file with the certificate of the admin port, which then uses TLS."""
    admin_tls_key: str = ""
    """PEM file with the private key of the certificate."""
    users_file: str = ""
    """File with the users of the binary ports; without it every client may listen there and none may trade."""
    instruments: tuple[Instrument, ...] = DEFAULT_INSTRUMENTS
    """Traded instruments, in addition to the symbols of the replay."""
    agents: bool = True
    """True if background agents trade the instruments."""
    agent_symbols: tuple[str, ...] = ()
    """Symbols that the agents trade; empty for all instruments."""
    agent_settings: AgentSettings = AgentSettings()
    """Settings of the agents."""
    seed: int = 1
    """Seed of the agents' random numbers."""
    rate_per_s: float = 2_000.0
    """Average number of orders of all agents together per second."""
    replay: ReplayConfig | None = None
    """Recorded file to replay; None for no replay."""
    start_on_listeners: int = 0
    """Number of listeners that must be connected before agents, replay and day begin."""
    start_on_brokers: int = 0
    """Number of interactive clients that must be logged in before agents, replay and day begin."""
    day: DaySchedule = DaySchedule()
    """Schedule of the auctions and of the end of the day."""
    collar_bps: int = 0
    """Largest distance of executions from the reference price, in hundredths of a percent; 0 for no limit."""
    max_live_orders: int = 1_000_000
    """Largest number of live orders; further orders are refused."""
    fsync: FsyncPolicy = "interval"
    """Policy of fsync of the journal: always before an answer, at an interval, or never."""
    fsync_interval_s: float = 1.0
    """Time between two fsyncs under the policy ``interval``, in seconds."""
    snapshot_inputs: int = 1_000_000
    """Number of inputs between two snapshots; 0 for no such limit."""
    snapshot_interval_s: float = 0.0
    """Time between two snapshots in seconds; 0 for no such limit."""
    keep_snapshots: int = 0
    """Number of snapshots to keep, at least 2; the journal before the oldest of them is removed. 0: nothing is removed
    from the journal.
    """
    session: str = ""
    """Name of a new session; empty for a random name."""
    reactor: ReactorName = "default"
    """Twisted reactor to use."""
    busy_poll_ms: float = 0.0
    """Time for which the reactor polls without sleeping after the latest request, in ms; 0: it sleeps at once."""
    status_interval_s: float = 1.0
    """Time between two status lines in seconds; 0 for no status lines."""
    run_id: str = ""
    """Name of the run in logs, status lines and metrics; all processes that are started together share it."""
    exit_with_stdin: bool = False
    """True if the exchange stops when standard input ends."""
    limits: PortLimits = PortLimits()
    """Limits of the servers."""

    def __post_init__(self) -> None:
        """Raise `ExchangeConfigurationError` for settings that contradict each other."""
        if self.ouch_port is not None and not self.users_file:
            raise ExchangeConfigurationError("expected a users file for the OUCH port, was none")
        if self.mold_port is not None and not self.mold_to:
            raise ExchangeConfigurationError("expected an address that datagrams are sent to for --mold-port, was none")
        if self.admin_port is not None and not is_loopback(self.admin_interface):
            missing = "a token" if not self.admin_token_file else "TLS" if not self.admin_tls_cert else ""
            if missing:
                raise ExchangeConfigurationError(
                    f"expected {missing} for an admin port that is not on loopback, was none at {self.admin_interface}"
                )
        self._check_numbers()
        if self.day.closing_s > 0 and self.day.trading_s <= 0:
            raise ExchangeConfigurationError("expected an end of trading before the closing auction, was none")
        if self.keep_snapshots == 1 or self.keep_snapshots < 0:
            raise ExchangeConfigurationError(f"expected to keep 2 snapshots or more, or 0, was {self.keep_snapshots}")

    def _check_numbers(self) -> None:
        """Raise `ExchangeConfigurationError` for a number that is out of range, NaN or infinite."""
        for what, value in (("a rate", self.rate_per_s), ("an fsync interval", self.fsync_interval_s)):
            if not 0 < value < math.inf:
                raise ExchangeConfigurationError(f"expected {what} above 0, was {value:g}")
        for what, value in (
            ("to poll for 0 ms or more", self.busy_poll_ms),
            ("0 seconds or more between status lines", self.status_interval_s),
            ("0 seconds or more between snapshots", self.snapshot_interval_s),
            ("an opening auction of 0 seconds or more", self.day.opening_s),
            ("0 seconds of trading or more", self.day.trading_s),
            ("a closing auction of 0 seconds or more", self.day.closing_s),
        ):
            if not 0 <= value < math.inf:
                raise ExchangeConfigurationError(f"expected {what}, was {value:g}")
        if (day_s := self.day.opening_s + self.day.trading_s + self.day.closing_s) > _LONGEST_DAY_S:
            raise ExchangeConfigurationError(f"expected a day of at most {_LONGEST_DAY_S} seconds, was {day_s:g}")
        if not 1 <= self.max_live_orders <= INT64_MAX:
            raise ExchangeConfigurationError(f"expected 1 to {INT64_MAX} live orders, was {self.max_live_orders}")

    @property
    def admin_security(self) -> PortSecurity:
        """Access to the admin port."""
        return PortSecurity(self.admin_token_file, self.admin_tls_cert, self.admin_tls_key)

    @property
    def forms(self) -> tuple[FeedForm, ...]:
        """Forms of the feed that some port publishes."""
        has_itch = self.itch_port is not None or self.glimpse_port is not None or bool(self.mold_to)
        wanted: dict[FeedForm, bool] = {"text": self.port is not None, "itch": has_itch}
        return tuple(form for form, is_wanted in wanted.items() if is_wanted)


def agent_instruments(config: ExchangeConfig) -> tuple[Instrument, ...]:
    """Return the instruments that agents trade; raise `ExchangeConfigurationError` for an unknown symbol."""
    if not config.agents:
        return ()
    known = {instrument.symbol: instrument for instrument in config.instruments}
    if missing := [symbol for symbol in config.agent_symbols if symbol not in known]:
        raise ExchangeConfigurationError(
            f"expected symbols of the agents out of {', '.join(sorted(known))}, was {', '.join(missing)}"
        )
    return tuple(known[symbol] for symbol in config.agent_symbols) or config.instruments


def rules_of(config: ExchangeConfig) -> MarketRules:
    """Return the constants of the market; raise `ExchangeConfigurationError` for impossible settings."""
    instruments = list(config.instruments)
    replay = config.replay
    if replay is not None:
        own = {instrument.symbol for instrument in instruments}
        if taken := own & set(replay.symbols):
            raise ExchangeConfigurationError(
                f"expected symbols of its own for the replay, was {', '.join(sorted(taken))}"
            )
        if replay.speed is not None and not 0 < replay.speed < math.inf:
            raise ExchangeConfigurationError(f"expected a replay speed above 0, was {replay.speed}")
        if replay.format in PRICE_FORMATS:
            raise ExchangeConfigurationError(
                f"expected a recording with a book, was one of {replay.format}: only a backtest plays prices alone"
            )
        scale = scale_of(replay.format, Path(replay.file))
        instruments += [Instrument(symbol, *scale) for symbol in replay.symbols]
    for instrument in instruments:
        _check_symbol(instrument.symbol)
        _check_scale(instrument)
    if len({instrument.symbol for instrument in instruments}) < len(instruments) or not instruments:
        raise ExchangeConfigurationError("expected one or more different symbols")
    recorded = replay is not None and replay.mode == "as-recorded"
    return MarketRules(
        instruments=tuple(instruments),
        replay_symbols=replay.symbols if replay else (),
        replay_mode=replay.mode if replay else "as-orders",
        replay_begins="".join(_beginning(Path(name)) for name in (replay.file, replay.orderbook, replay.trades) if name)
        if replay
        else "",
        outlier_factor=outlier_factor(source_format(replay.format, Path(replay.file))) if replay else 0,
        first_order_id=_LIVE_IDS_ABOVE_RECORDED if recorded else 1,
        max_live_orders=config.max_live_orders,
        collar_bps=config.collar_bps,
        opens_with_auction=config.day.opening_s > 0,
    )


def _beginning(path: Path) -> str:
    """Return a hash of the beginning of a recording.

    Return an empty string for an unreadable file, which the loader reports; raise `ReplayFileError` for a pipe.
    """
    check_regular(path)
    try:
        with path.open("rb") as file:
            return blake2b(file.read(_BEGINNING_BYTES), digest_size=8).hexdigest()
    except OSError:
        return ""


def _check_symbol(symbol: str) -> None:
    if not (1 <= len(symbol) <= 16 and symbol.isascii() and symbol.isprintable() and not set(symbol) & set(", ")):
        raise ExchangeConfigurationError(
            f"expected a symbol of 1 to 16 characters, no blanks or commas, was {symbol!r}"
        )


def _check_scale(instrument: Instrument) -> None:
    for what, size in (("tick", instrument.tick_size), ("lot", instrument.lot_size)):
        if not _SIZE.fullmatch(size) or not Decimal(size):
            raise ExchangeConfigurationError(
                f"expected a {what} above 0, as in 0.01, was {size[:100]!r} of {instrument.symbol}"
            )
    if not 0 < instrument.reference_price_ticks <= INT64_MAX:
        raise ExchangeConfigurationError(
            f"expected a reference price of 1 to {INT64_MAX} ticks, was {instrument.reference_price_ticks} of "
            f"{instrument.symbol}"
        )
