"""Settings of an exchange, as a whole and frozen."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.errors import ExchangeConfigurationError
from exchange_server.inputs import MarketRules, ReplayMode
from exchange_server.journal import FsyncPolicy
from exchange_server.nasdaq import SoupLimits
from exchange_server.text import Limits

__all__ = ["DEFAULT_INSTRUMENTS", "ExchangeConfig", "ReplayConfig", "ReplayFormat", "rules_of"]

ReplayFormat = Literal["dbtoaster", "bitstamp"]

DEFAULT_INSTRUMENTS: Final = (
    Instrument("ACME", "0.01", "1", 10_000),
    Instrument("GLOBEX", "0.01", "1", 25_000),
    Instrument("INITECH", "0.01", "1", 5_000),
)

_LIVE_IDS_ABOVE_RECORDED: Final = 10**17
_OUTLIER_FACTOR: Final = 10
_SCALES: Final = {"dbtoaster": ("0.0001", "1"), "bitstamp": ("0.01", "0.00000001")}


class ReplayConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A recorded file to play."""

    file: str
    """Path; ``.gz`` is decompressed."""
    format: ReplayFormat
    """What is in it."""
    mode: ReplayMode = "as-orders"
    """As orders to trade against, or as recorded."""
    speed: float | None = 1.0
    """Recorded seconds per real second; None is as fast as possible."""
    symbol: str = "REPLAY"
    """Instrument that it becomes."""


class ExchangeConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything an exchange process is told."""

    directory: str
    """Of the journal; a new one begins a new session."""
    port: int = 0
    """TCP port of the text protocol, 0 for any free one."""
    itch_port: int | None = None
    """TCP port of the ITCH feed over SoupBinTCP, 0 for any free one; None for no such feed."""
    interface: str = "127.0.0.1"
    """Address to listen at."""
    instruments: tuple[Instrument, ...] = DEFAULT_INSTRUMENTS
    """What is traded, beside the symbol of the replay."""
    agents: bool = True
    """Background agents trade the instruments."""
    seed: int = 1
    """Of the agents."""
    rate_per_s: float = 2_000.0
    """Orders of all agents together."""
    replay: ReplayConfig | None = None
    """A file to play."""
    start_on_listeners: int = 0
    """Agents and replay begin when so many listeners …"""
    start_on_brokers: int = 0
    """… and so many interactive clients are logged in."""
    fsync: FsyncPolicy = "interval"
    """When the journal is forced to the disk: always before an answer, every second, or never."""
    session: str = ""
    """Name of a new session, empty for a random one."""
    status_interval_s: float = 1.0
    """Between status lines, 0 for none."""
    exit_with_stdin: bool = False
    """Stop when standard input ends."""
    limits: Limits = Limits()
    """What the server of the text protocol puts up with."""
    soup_limits: SoupLimits = SoupLimits()
    """What the server of the ITCH feed puts up with."""


def rules_of(config: ExchangeConfig) -> MarketRules:
    """What the market's answers depend on; raises `ExchangeConfigurationError` for settings that cannot be."""
    instruments = list(config.instruments)
    replay = config.replay
    if replay is not None:
        if any(instrument.symbol == replay.symbol for instrument in instruments):
            raise ExchangeConfigurationError(f"expected a symbol of its own for the replay, was {replay.symbol}")
        if replay.speed is not None and replay.speed <= 0:
            raise ExchangeConfigurationError(f"expected a replay speed above 0, was {replay.speed}")
        instruments.append(Instrument(replay.symbol, *_SCALES[replay.format]))
    for instrument in instruments:
        _check_symbol(instrument.symbol)
    if len({instrument.symbol for instrument in instruments}) < len(instruments) or not instruments:
        raise ExchangeConfigurationError("expected one or more different symbols")
    if config.rate_per_s <= 0:
        raise ExchangeConfigurationError(f"expected a rate above 0, was {config.rate_per_s}")
    recorded = replay is not None and replay.mode == "as-recorded"
    return MarketRules(
        instruments=tuple(instruments),
        replay_symbol=replay.symbol if replay else "",
        replay_mode=replay.mode if replay else "as-orders",
        outlier_factor=_OUTLIER_FACTOR if replay and replay.format == "bitstamp" else 0,
        first_order_id=_LIVE_IDS_ABOVE_RECORDED if recorded else 1,
    )


def _check_symbol(symbol: str) -> None:
    if not (1 <= len(symbol) <= 16 and symbol.isascii() and symbol.isprintable() and not set(symbol) & set(", ")):
        raise ExchangeConfigurationError(
            f"expected a symbol of 1 to 16 characters, no blanks or commas, was {symbol!r}"
        )
