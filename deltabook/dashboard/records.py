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
    """State of the runtime."""
    algo: LinkLine
    """State of the strategies' process."""
    exchange: LinkLine
    """State of the exchange."""


class EngineSection(msgspec.Struct, frozen=True):
    """Section of every page: the runtime's figures as it reports them; None for a missing one."""

    epoch: int | None
    """Newest epoch that is sealed."""
    published_epoch: int | None
    """Newest epoch whose results every lane has published."""
    step: int | None
    """Latest step of the express lane."""
    express_lag_ms: float | None
    """Lag of the express lane in milliseconds."""
    lag_ms: float | None
    """Lag of the Spark lane in milliseconds."""
    barrier_p50_us: int | None
    """Median duration of a barrier, in microseconds."""
    barrier_p99_us: int | None
    """99th percentile of the durations of barriers, in microseconds."""
    batch_ms: float | None
    """Duration of the latest batch on Spark, in milliseconds."""
    messages_per_s: float | None
    """Messages of the feed per second."""
    messages: int | None
    """Number of well-formed messages in sealed epochs."""
    memory_bytes: int | None
    """Memory of the process."""
    live_orders: int | None
    """Number of resting orders."""
    waiting_bytes: int | None
    """Bytes of raw buffers between the sources and the epochs."""
    disk_bytes: int | None
    """Size of the run directory."""
    dead_letters: int | None
    """Number of malformed tuples in sealed epochs."""
    subscribers: int | None
    """Number of subscribers."""
    lanes_differ: int | None
    """Number of views whose rows on Spark and in the express lane differ."""
    spark_restarts: int | None
    """Number of restarts of Spark."""
    spark: str | None
    """State of Spark: ``off``, ``starting`` or ``up``; None for a runtime that does not report it."""


class SymbolRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of every page: one symbol of the list."""

    symbol: str
    """Symbol of the instrument."""
    last: str | None
    """Price of the newest trade; None before the first, since the middle of the quote is not a trade."""
    phase: str
    """Trading phase; empty if no exchange is followed."""


class ViewRow(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Row of every page: one view of the list."""

    name: str
    """Name of the view."""
    lane: str
    """Lane: ``express``, ``spark`` or ``stream``."""
    view_class: str
    """Class of the view, such as ``linear``."""
    rows: int
    """Number of rows."""
    version: int
    """Step of a view of the express lane, or epoch of a view of the Spark lane."""
    since: int
    """Epoch from which on the view is maintained."""
    failed: str | None
    """Reason why the view is not maintained any more; None if it is maintained."""
    comparison: str | None = None
    """Last result of comparing an express view with Spark's, such as ``differs``."""


class PositionRow(msgspec.Struct, frozen=True, array_like=True):
    """Position of a strategy in a symbol."""

    symbol: str
    """Symbol of the instrument."""
    position: str
    """Quantity held; negative for a short position."""
    mark: str | None
    """Price at which the position is valued; None without a quote."""
    realised: str
    """Profit of closed parts, before fees."""
    unrealised: str
    """Profit of the open position at its mark."""
    fees: str
    """Fees less rebates."""


class StrategyTraits(msgspec.Struct, frozen=True):
    """Row of every page: properties of a strategy that do not change while its process runs."""

    name: str
    """Name of the strategy."""
    broker_id: int
    """Broker id of its orders."""
    parameters: dict[str, str]
    """Parameters as JSON, by name."""
    views: tuple[str, ...]
    """Views that the strategy reads."""


class StrategyRow(msgspec.Struct, frozen=True):
    """Row of every page: one strategy."""

    name: str
    """Name of the strategy."""
    state: str
    """State, such as ``running``."""
    reason: str
    """Reason for the state; empty for none."""
    is_connected: bool
    """True if the strategy is logged in to the exchange and the state of all its orders is known."""
    orders_sent: int
    """Number of orders sent."""
    orders_filled: int
    """Number of orders filled completely."""
    orders_open: int
    """Number of orders that may still trade."""
    orders_rejected: int
    """Number of orders that the exchange rejected."""
    orders_refused: int
    """Number of orders that the strategy's own limits refused."""
    fills: int
    """Number of executions."""
    profit: str
    """Profit after fees."""
    realised: str
    """Profit of closed positions, before fees."""
    unrealised: str
    """Profit of open positions at their marks."""
    fees: str
    """Fees less rebates."""
    positions: tuple[PositionRow, ...]
    """Positions by symbol."""


class MoneySection(msgspec.Struct, frozen=True):
    """Section of every page: profit and exposure of all strategies, after fees."""

    profit: str
    """Profit after fees."""
    realised: str
    """Profit of closed positions, before fees."""
    unrealised: str
    """Profit of open positions at their marks."""
    fees: str
    """Fees less rebates."""
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
    """Client id of the order."""
    symbol: str
    """Symbol of the instrument."""
    side: str
    """Side, B or S."""
    quantity: str
    """Ordered quantity."""
    filled: str
    """Executed quantity."""
    price: str
    """Limit price; empty for a market order."""
    status: str
    """Status, such as ``accepted``."""
    reason: str
    """Reason of the end; empty for none."""


class FillRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a strategy: one trade, newest first."""

    number: int
    """Number of the trade in its process."""
    time: str
    """Market time of the day."""
    symbol: str
    """Symbol of the instrument."""
    side: str
    """Side, B or S."""
    quantity: str
    """Executed quantity."""
    price: str
    """Price of the execution."""
    liquidity: str
    """``maker``, ``taker`` or ``cross``; ``void`` for a trade that was declared void."""
    fee: str
    """Fee; negative for a rebate."""


class LevelRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a symbol: one level of the ladder, best first."""

    price: str
    """Price of the level."""
    quantity: str
    """Displayed quantity at the level."""
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
    """Difference of the best prices; None if a side is empty."""
    is_scaled: bool
    """True if prices are money; otherwise they are ticks, and quantities are lots."""


class ScaleSection(msgspec.Struct, frozen=True):
    """Section of a symbol: the scales of histories in ticks and lots."""

    tick: str
    """Worth of a tick."""
    lot: str
    """Worth of a lot."""


class TradeRow(msgspec.Struct, frozen=True, array_like=True):
    """Row of a symbol: trades of the tape at one price and time, as one order makes them."""

    number: int
    """Number of the first trade."""
    time: str
    """Market time of the day."""
    price: str
    """Price of the trades."""
    quantity: str
    """Total quantity of the trades."""
    way: int
    """Direction: 1 above the trade before, -1 below it, otherwise 0."""
    trades: int
    """Number of trades."""


class PricesSection(msgspec.Struct, frozen=True):
    """Section of a symbol: the figures of the chart's legend."""

    last: str | None
    """Last price; None before the first trade."""
    change: str | None
    """Change of the last price from the first known one."""
    change_percent: str | None
    """The change in percent of the first known price."""
    since_s: int | None
    """Market time of the first known price, in seconds."""
    mid: str | None
    """Middle of the best bid and the best ask."""
    vwap: str | None
    """Average price of recent trades."""
    vwap_bid: str | None
    """Average price of all resting bids."""
    vwap_ask: str | None
    """Average price of all resting asks."""


class ViewSection(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """Section of an open view."""

    lane: str
    """Lane: ``express``, ``spark`` or ``stream``."""
    view_class: str
    """Class of the view, such as ``linear``."""
    reason: str
    """Reason for the class."""
    sql: str
    """SELECT of the view."""
    explain: str
    """Operators from the relations to the rows, with their maps; empty before the runtime has answered."""
    columns: tuple[tuple[str, str], ...]
    """Columns as name and type."""
