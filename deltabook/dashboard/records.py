"""What the sections of a frame hold: texts that a page writes as they are, and numbers of things.

Prices, quantities and money are decimal strings, exact and with all their decimals. Numbers with a point are to be
drawn.
"""

from __future__ import annotations

import msgspec

from deltabook.dashboard.peers import LinkLine

__all__ = [
    "BookSection",
    "EngineSection",
    "FillRow",
    "LevelRow",
    "Links",
    "MoneySection",
    "OrderRow",
    "PositionRow",
    "PricesSection",
    "ScaleSection",
    "StrategyRow",
    "StrategyTraits",
    "SymbolRow",
    "TradeRow",
    "ViewRow",
    "ViewSection",
]


class Links(msgspec.Struct, frozen=True):
    """Section of every page: the state of each peer."""

    results: LinkLine
    algo: LinkLine
    exchange: LinkLine


class EngineSection(msgspec.Struct, frozen=True):
    """Section of every page: the runtime's figures as it reports them; None for a missing one."""

    epoch: int | None
    published_epoch: int | None
    step: int | None
    express_lag_ms: float | None
    lag_ms: float | None
    """Lag of the Spark lane."""
    barrier_p50_us: int | None
    barrier_p99_us: int | None
    batch_ms: float | None
    """Duration of the latest batch on Spark."""
    messages_per_s: float | None
    messages: int | None
    memory_bytes: int | None
    live_orders: int | None
    waiting_bytes: int | None
    disk_bytes: int | None
    dead_letters: int | None
    subscribers: int | None
    lanes_differ: int | None
    """Views of which Spark and the express lane have different rows."""
    spark_restarts: int | None
    spark: str | None
    """``off``, ``starting`` or ``up``; None for a runtime that does not tell."""


class SymbolRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of every page: one symbol of the list."""

    symbol: str
    last: str | None
    """Price of the newest trade, else the middle of the touch is not shown: it is no trade."""
    phase: str
    """What its trading is doing; empty where no exchange is followed."""


class ViewRow(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Row of every page: one view of the list."""

    name: str
    lane: str
    view_class: str
    rows: int
    version: int
    """Step of a view of the express lane, epoch of one of the Spark lane."""
    since: int
    failed: str | None
    comparison: str | None = None
    """Last result of comparing an express view with Spark's, such as ``differs``."""


class PositionRow(msgspec.Struct, frozen=True, array_like=True):
    """What a strategy holds of a symbol."""

    symbol: str
    position: str
    mark: str | None
    realised: str
    unrealised: str
    fees: str


class StrategyTraits(msgspec.Struct, frozen=True):
    """Row of every page: what does not change of a strategy while its process runs."""

    name: str
    broker_id: int
    parameters: dict[str, str]
    views: tuple[str, ...]


class StrategyRow(msgspec.Struct, frozen=True):
    """Row of every page: one strategy."""

    name: str
    state: str
    reason: str
    is_connected: bool
    orders_sent: int
    orders_filled: int
    orders_open: int
    orders_rejected: int
    orders_refused: int
    fills: int
    profit: str
    realised: str
    unrealised: str
    fees: str
    positions: tuple[PositionRow, ...]


class MoneySection(msgspec.Struct, frozen=True):
    """Section of every page: profit and exposure of all strategies, after fees."""

    profit: str
    realised: str
    unrealised: str
    fees: str
    gross: str
    """Sum of the values of all positions, long or short, at their marks."""
    net: str
    """Long positions less short ones."""
    unmarked: int
    """Positions without a mark, as nobody quotes: they are in neither."""
    views_connected: bool
    """True if strategies are sent the runtime's changes."""


class OrderRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a strategy: one order, newest first."""

    client_id: int
    symbol: str
    side: str
    quantity: str
    filled: str
    price: str
    """Empty for a market order."""
    status: str
    reason: str


class FillRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a strategy: one trade, newest first."""

    number: int
    time: str
    """Market time of day."""
    symbol: str
    side: str
    quantity: str
    price: str
    liquidity: str
    fee: str


class LevelRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a symbol: one level of the ladder, best first."""

    price: str
    quantity: str
    total: str
    """Total of this level and all better ones of its side."""
    part: float
    """The same as a part of the deeper side's, for drawing."""
    orders: int | None
    """None where only the touch is known."""
    own: str
    """Quantity of own resting orders there; empty for none."""


class BookSection(msgspec.Struct, frozen=True):
    """Section of a symbol: figures between the two sides of the ladder."""

    spread: str | None
    is_scaled: bool
    """True if prices are money; else they are ticks, and quantities lots."""


class ScaleSection(msgspec.Struct, frozen=True):
    """Section of a symbol: the scales of histories in ticks and lots."""

    tick: str
    lot: str


class TradeRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a symbol: trades of the tape at one price and time, as one order makes them."""

    number: int
    """Number of the first trade."""
    time: str
    price: str
    quantity: str
    """Quantity of all trades."""
    way: int
    """1: above the trade before, -1: below it, else 0."""
    trades: int


class PricesSection(msgspec.Struct, frozen=True):
    """Section of a symbol: the figures of the chart's legend."""

    last: str | None
    change: str | None
    """Change of the last price against the first known one."""
    change_percent: str | None
    since_s: int | None
    """Market time of that price."""
    mid: str | None
    vwap: str | None
    vwap_bid: str | None
    vwap_ask: str | None


class ViewSection(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Section of an open view."""

    lane: str
    view_class: str
    reason: str
    sql: str
    explain: str
    """The way from relations to rows, with its maps; empty before the runtime has answered."""
    columns: tuple[tuple[str, str], ...]
    """Name and type."""
