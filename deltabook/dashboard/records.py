"""Contents of a frame's sections: texts that a page shows unchanged, and counts.

Prices, quantities and money are decimal strings, exact and with all their decimals. Floating-point numbers are for
charts.
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
    """Lag of the Spark lane in milliseconds."""
    barrier_p50_us: int | None
    barrier_p99_us: int | None
    batch_ms: float | None
    """Duration of the latest batch on Spark, in milliseconds."""
    messages_per_s: float | None
    messages: int | None
    memory_bytes: int | None
    live_orders: int | None
    waiting_bytes: int | None
    disk_bytes: int | None
    dead_letters: int | None
    subscribers: int | None
    lanes_differ: int | None
    """Number of views whose rows on Spark and in the express lane differ."""
    spark_restarts: int | None
    spark: str | None
    """State of Spark: ``off``, ``starting`` or ``up``; None for a runtime that does not report it."""


class SymbolRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of every page: one symbol of the list."""

    symbol: str
    last: str | None
    """Price of the newest trade; None before the first, since the middle of the quote is not a trade."""
    phase: str
    """Trading phase; empty if no exchange is followed."""


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
    """Position of a strategy in a symbol."""

    symbol: str
    position: str
    mark: str | None
    realised: str
    unrealised: str
    fees: str


class StrategyTraits(msgspec.Struct, frozen=True):
    """Row of every page: properties of a strategy that do not change while its process runs."""

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
    """Value of the long positions less that of the short ones."""
    unmarked: int
    """Number of positions without a mark, because there is no quote: they are in neither sum."""
    views_connected: bool
    """True if the strategies receive the runtime's changes."""


class OrderRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a strategy: one order, newest first."""

    client_id: int
    symbol: str
    side: str
    quantity: str
    filled: str
    price: str
    """Limit price; empty for a market order."""
    status: str
    reason: str


class FillRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a strategy: one trade, newest first."""

    number: int
    time: str
    """Market time of the day."""
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
    """Total quantity of this level and all better ones of its side."""
    part: float
    """The total as a fraction of the deeper side's total, for a chart."""
    orders: int | None
    """Number of orders; None if only the best prices are known."""
    own: str
    """Quantity of own resting orders at the level; empty for none."""


class BookSection(msgspec.Struct, frozen=True):
    """Section of a symbol: figures between the two sides of the ladder."""

    spread: str | None
    is_scaled: bool
    """True if prices are money; otherwise they are ticks, and quantities are lots."""


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
    """Total quantity of the trades."""
    way: int
    """Direction: 1 above the trade before, -1 below it, otherwise 0."""
    trades: int


class PricesSection(msgspec.Struct, frozen=True):
    """Section of a symbol: the figures of the chart's legend."""

    last: str | None
    change: str | None
    """Change of the last price from the first known one."""
    change_percent: str | None
    since_s: int | None
    """Market time of the first known price, in seconds."""
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
    """Operators from the relations to the rows, with their maps; empty before the runtime has answered."""
    columns: tuple[tuple[str, str], ...]
    """Columns as name and type."""
