"""What the sections of a frame hold: texts that a page writes as they are, and numbers of things.

Prices, quantities and money are decimal strings, exact and with all their decimals. Numbers with a point are to be
drawn.
"""

from __future__ import annotations

import msgspec

from deltabook.dashboard.links import LinkLine
from deltabook.dashboard.looks import Look

__all__ = [
    "BookSection",
    "EngineSection",
    "FillRow",
    "LevelRow",
    "Links",
    "OrderRow",
    "PositionRow",
    "PricesSection",
    "StrategiesSection",
    "StrategyRow",
    "SymbolRow",
    "TradeRow",
    "ViewRow",
    "ViewSection",
]


class Links(msgspec.Struct, frozen=True):
    """Of everybody: how each peer is."""

    results: LinkLine
    algo: LinkLine
    exchange: LinkLine


class EngineSection(msgspec.Struct, frozen=True):
    """Of everybody: the runtime's figures as it says them; None for what it does not say."""

    epoch: int | None
    published_epoch: int | None
    step: int | None
    express_lag_ms: float | None
    lag_ms: float | None
    """Of the Spark lane."""
    spark: str | None
    """``starting``, ``up``, or ``off`` where no view is on Spark."""
    barrier_p50_us: int | None
    barrier_p99_us: int | None
    batch_ms: float | None
    """Of the newest batch on Spark."""
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


class SymbolRow(msgspec.Struct, frozen=True, array_like=True):
    """Of everybody: one symbol of the list."""

    symbol: str
    last: str | None
    """Price of the newest trade, else the middle of the touch is not shown: it is no trade."""
    phase: str
    """What its trading is doing; empty where no exchange is followed."""


class ViewRow(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Of everybody: one view of the list."""

    name: str
    lane: str
    view_class: str
    rows: int
    version: int
    """Step of a view of the express lane, epoch of one of the Spark lane."""
    since: int
    failed: str | None
    comparison: str | None = None
    """Of an express view: what comparing it with Spark's found last, ``differs`` among it."""


class PositionRow(msgspec.Struct, frozen=True, array_like=True):
    """What a strategy holds of a symbol."""

    symbol: str
    position: str
    mark: str | None
    realised: str
    unrealised: str
    fees: str


class StrategyRow(msgspec.Struct, frozen=True):
    """One strategy."""

    name: str
    broker_id: int
    state: str
    reason: str
    is_connected: bool
    parameters: dict[str, str]
    views: tuple[str, ...]
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


class StrategiesSection(msgspec.Struct, frozen=True):
    """Of everybody: all strategies."""

    profit: str
    """Of all of them."""
    views_connected: bool
    strategies: tuple[StrategyRow, ...]


class OrderRow(msgspec.Struct, frozen=True, array_like=True):
    """Of a strategy: one order, newest first."""

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
    """Of a strategy: one trade, newest first."""

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
    """One level of the ladder."""

    price: str
    quantity: str
    orders: int | None
    """None where only the touch is known."""
    own: str
    """Quantity of own resting orders there; empty for none."""


class BookSection(msgspec.Struct, frozen=True):
    """Of a symbol: the ladder, best first."""

    bids: tuple[LevelRow, ...]
    asks: tuple[LevelRow, ...]
    spread: str | None
    is_scaled: bool
    """Whether prices are money; else they are ticks, and quantities lots."""


class TradeRow(msgspec.Struct, frozen=True, array_like=True):
    """Of a symbol: one trade of the tape, newest first."""

    number: int
    time: str
    price: str
    quantity: str
    way: int
    """1: above the trade before, -1: below it, else 0."""


class PricesSection(msgspec.Struct, frozen=True):
    """Of a symbol: what the chart's legend says, and the newest point of its lines."""

    last: str | None
    mid: str | None
    vwap: str | None
    vwap_bid: str | None
    vwap_ask: str | None
    now: tuple[float | None, float | None, float | None, float | None]
    """Mid, VWAP of trades, of bids, of asks; for drawing."""


class ViewSection(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Of a view that is open."""

    lane: str
    view_class: str
    reason: str
    sql: str
    look: Look | None
    """None before the runtime has answered."""
