"""Settings of an exchange, as a whole and frozen."""

from __future__ import annotations

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
from exchange_server.text import Limits as TextLimits

__all__ = ["DEFAULT_INSTRUMENTS", "ExchangeConfig", "ReplayConfig", "agent_instruments", "rules_of"]

DEFAULT_INSTRUMENTS: Final = (
    Instrument("ACME", "0.01", "1", 10_000),
    Instrument("GLOBEX", "0.01", "1", 25_000),
    Instrument("INITECH", "0.01", "1", 5_000),
)

_LIVE_IDS_ABOVE_RECORDED: Final = 10**17
_BEGINNING_BYTES: Final = 64 * 1024


class ReplayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recorded file to play."""

    file: str
    """Path; gzip, xz and bzip2 are decompressed."""
    format: RecordingFormat
    """Format of the file."""
    mode: ReplayMode = "as-orders"
    """As orders to trade against, or as recorded."""
    speed: float | None = 1.0
    """Recorded seconds per real second; None is as fast as possible."""
    symbol: str = "REPLAY"
    """Instrument that it becomes."""
    stocks: tuple[str, ...] = ()
    """Stocks of an ITCH file that are played, under their own names in place of `symbol`."""
    day: str = ""
    """Day of a file whose times count from midnight, as YYYY-MM-DD."""
    orderbook: str | None = None
    """LOBSTER's order book file of the same messages, by which their book is mended."""
    trades: str | None = None
    """Trades of the same time as a file of depth."""
    queue: QueueModel = "back"
    """Choice of the orders of a level of depth that are cancelled when it shrinks."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Instruments that the file becomes; those of a recording in Parquet are its own where none is named."""
        if self.format == "parquet" and not self.stocks and self.symbol == ANY_SYMBOL:
            from exchange_server.replay.parquet import read_info  # other files are played without pyarrow

            return read_info(Path(self.file)).symbols
        return self.stocks or (self.symbol,)


class PortLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits of each server."""

    text: TextLimits = TextLimits()
    """Limits of the text protocol and of its brokers."""
    itch: ItchLimits = ItchLimits()
    """Limits of ITCH over SoupBinTCP."""
    glimpse: GlimpseLimits = GlimpseLimits()
    """Limits of snapshots."""
    ouch: OuchLimits = OuchLimits()
    """Limits of OUCH; those of its users are in their file."""
    mold: RequestLimits = RequestLimits()
    """Limits of what is sent again to receivers of datagrams."""

    @property
    def connections(self) -> int:
        """Connections of all servers together."""
        return sum(limits.connections for limits in (self.text, self.itch, self.glimpse, self.ouch))


class ExchangeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything an exchange process is told. A port is a number, 0 for any free one, None for none."""

    directory: str
    """Directory of the journal; a new one begins a new session."""
    port: int | None = 0
    """TCP port of the text protocol."""
    itch_port: int | None = None
    """TCP port of the ITCH feed over SoupBinTCP."""
    ouch_port: int | None = None
    """TCP port for orders in OUCH over SoupBinTCP; needs users."""
    glimpse_port: int | None = None
    """TCP port of snapshots as ITCH over SoupBinTCP."""
    mold_to: str = ""
    """HOST:PORT that the feed is sent to as MoldUDP64, a group or an address; empty for none."""
    mold_port: int | None = None
    """UDP port at which lost datagrams are asked for."""
    admin_port: int | None = None
    """TCP port of the operator."""
    interface: str = "127.0.0.1"
    """Address to listen at."""
    admin_interface: str = "127.0.0.1"
    """Address that the admin port listens at; another than loopback needs a token and TLS."""
    admin_token_file: str = ""
    """File with the token that the admin port asks for."""
    admin_tls_cert: str = ""
    """PEM file of the admin port's certificate; it speaks TLS then."""
    admin_tls_key: str = ""
    """PEM file of its key."""
    users_file: str = ""
    """Users of the binary ports; without one everybody may listen and nobody trade there."""
    instruments: tuple[Instrument, ...] = DEFAULT_INSTRUMENTS
    """Instruments that are traded, beside the symbols of the replay."""
    agents: bool = True
    """Background agents trade the instruments."""
    agent_symbols: tuple[str, ...] = ()
    """Those of the instruments that they trade; empty: all."""
    agent_settings: AgentSettings = AgentSettings()
    """Settings of the agents."""
    seed: int = 1
    """Seed of the agents."""
    rate_per_s: float = 2_000.0
    """Orders of all agents together."""
    replay: ReplayConfig | None = None
    """A file to play."""
    start_on_listeners: int = 0
    """Agents, replay and day begin when so many listeners …"""
    start_on_brokers: int = 0
    """… and so many interactive clients are logged in."""
    day: DaySchedule = DaySchedule()
    """Auctions, and the end of the day."""
    collar_bps: int = 0
    """Largest distance of executions from the reference price, in hundredths of a percent; 0 for no limit."""
    max_live_orders: int = 1_000_000
    """More live orders than this are refused."""
    fsync: FsyncPolicy = "interval"
    """Policy of fsync of the journal: always before an answer, at an interval, or never."""
    fsync_interval_s: float = 1.0
    """That interval."""
    snapshot_inputs: int = 1_000_000
    """Inputs between two snapshots; 0: no matter how many."""
    snapshot_interval_s: float = 0.0
    """Seconds between two snapshots; 0: no matter how long."""
    keep_snapshots: int = 0
    """Snapshots that are kept, and with them the journal from the oldest of them on; 0: the whole journal."""
    session: str = ""
    """Name of a new session, empty for a random one."""
    reactor: ReactorName = "default"
    """Twisted's way to wait for the network."""
    busy_poll_ms: float = 0.0
    """Time for which the reactor polls without sleeping after the latest request; 0: it sleeps at once."""
    status_interval_s: float = 1.0
    """Between status lines, 0 for none."""
    run_id: str = ""
    """Name of all that was started together, in logs, status lines and metrics."""
    exit_with_stdin: bool = False
    """Stop when standard input ends."""
    limits: PortLimits = PortLimits()
    """Limits of the servers."""

    def __post_init__(self) -> None:
        """Raises `ExchangeConfigurationError` for settings that contradict each other."""
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
        if self.rate_per_s <= 0:
            raise ExchangeConfigurationError(f"expected a rate above 0, was {self.rate_per_s}")
        if self.day.closing_s > 0 and self.day.trading_s <= 0:
            raise ExchangeConfigurationError("expected an end of trading before the closing auction, was none")
        if self.keep_snapshots == 1 or self.keep_snapshots < 0:
            raise ExchangeConfigurationError(f"expected two snapshots to keep, or 0: all, was {self.keep_snapshots}")
        if self.fsync_interval_s <= 0:
            raise ExchangeConfigurationError(f"expected an fsync interval above 0, was {self.fsync_interval_s}")
        if self.busy_poll_ms < 0:
            raise ExchangeConfigurationError(f"expected to poll for 0 ms or more, was {self.busy_poll_ms:g}")

    @property
    def admin_security(self) -> PortSecurity:
        """Access to the admin port."""
        return PortSecurity(self.admin_token_file, self.admin_tls_cert, self.admin_tls_key)

    @property
    def forms(self) -> tuple[FeedForm, ...]:
        """The forms that the feed is made in: those that somebody may listen to."""
        has_itch = self.itch_port is not None or self.glimpse_port is not None or bool(self.mold_to)
        wanted: dict[FeedForm, bool] = {"text": self.port is not None, "itch": has_itch}
        return tuple(form for form, is_wanted in wanted.items() if is_wanted)


def agent_instruments(config: ExchangeConfig) -> tuple[Instrument, ...]:
    """Return the instruments that agents trade; raises `ExchangeConfigurationError` for a symbol that there is not."""
    if not config.agents:
        return ()
    known = {instrument.symbol: instrument for instrument in config.instruments}
    if missing := [symbol for symbol in config.agent_symbols if symbol not in known]:
        raise ExchangeConfigurationError(
            f"expected symbols of the agents out of {', '.join(sorted(known))}, was {', '.join(missing)}"
        )
    return tuple(known[symbol] for symbol in config.agent_symbols) or config.instruments


def rules_of(config: ExchangeConfig) -> MarketRules:
    """Return the constants of the market; raises `ExchangeConfigurationError` for settings that cannot be."""
    instruments = list(config.instruments)
    replay = config.replay
    if replay is not None:
        own = {instrument.symbol for instrument in instruments}
        if taken := own & set(replay.symbols):
            raise ExchangeConfigurationError(
                f"expected symbols of its own for the replay, was {', '.join(sorted(taken))}"
            )
        if replay.speed is not None and replay.speed <= 0:
            raise ExchangeConfigurationError(f"expected a replay speed above 0, was {replay.speed}")
        if replay.format in PRICE_FORMATS:
            raise ExchangeConfigurationError(
                f"expected a recording with a book, was one of {replay.format}: only a backtest plays prices alone"
            )
        scale = scale_of(replay.format, Path(replay.file))
        instruments += [Instrument(symbol, *scale) for symbol in replay.symbols]
    for instrument in instruments:
        _check_symbol(instrument.symbol)
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
    """Return a hash of the beginning of a recording; empty for an unreadable file, whose error the loader reports."""
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
