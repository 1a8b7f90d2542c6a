"""Messages about running strategies over HTTP: their state, their orders and fills, and the kill switch.

``GET`` of `STATUS_PATH` answers with a `Strategies`, of `FILLS_PATH` with a `Fills`, of `ORDERS_PATH` with an `Orders`;
``POST`` to `KILL_PATH` takes a `Kill` and answers with a `Killed`. All messages are JSON; a refusal is one line of
text. Prices are ticks, quantities lots, money ticks × lots: a display needs the instruments' scales.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = [
    "FILLS_PATH",
    "KILL_PATH",
    "MOST_FILLS",
    "MOST_ORDERS",
    "ORDERS_PATH",
    "PORTS_FILE",
    "STATUS_PATH",
    "FillLine",
    "Fills",
    "Kill",
    "Killed",
    "Listening",
    "OrderLine",
    "Orders",
    "PositionLine",
    "Strategies",
    "StrategyLine",
    "StrategyState",
]

STATUS_PATH: Final = "/v1/strategies"
FILLS_PATH: Final = "/v1/fills"
"""Path of the fills; ``?after=N`` omits the fills up to number N."""
ORDERS_PATH: Final = "/v1/orders"
"""Path of the orders that may still trade, and of the newest that ended; ``?strategy=NAME`` selects one strategy."""
KILL_PATH: Final = "/v1/kill"
MOST_FILLS: Final = 1_000
"""Largest number of fills in one answer, the newest after N."""
MOST_ORDERS: Final = 1_000
"""Largest number of orders in one answer, the newest."""

PORTS_FILE: Final = "ports.json"
"""File with a `Listening` beside the journals of running strategies; it is removed when they stop."""

StrategyState = Literal["waiting", "running", "suspended", "killed", "failed", "stopped"]
"""State of a strategy. waiting: for views or the exchange; suspended: its views are stale and its orders are cancelled;
killed: by the kill switch; failed: the strategy has raised an exception, or one of its views has ended.
"""


class Listening(msgspec.Struct, frozen=True):
    """Address of the status port of a directory's strategies."""

    pid: int
    """Process id."""
    interface: str
    """Address on which the status port listens."""
    port: int
    """Number of the port."""
    is_secure: bool
    """True if the port uses TLS."""


class PositionLine(msgspec.Struct, frozen=True):
    """Position of a strategy in one symbol."""

    symbol: str
    position_lots: int
    """Position in lots; negative for a short position."""
    mark_ticks: int | None
    """Price in ticks at which the position could be closed; None without a quote."""
    realised: int
    """Profit of closed positions, before fees, in ticks × lots."""
    unrealised: int
    """Profit of the open position at its mark, in ticks × lots."""
    fees: int
    """Fees paid so far, in ticks × lots; negative: more rebates than fees."""


class StrategyLine(msgspec.Struct, frozen=True):
    """Present state of one strategy; sums are over all symbols."""

    name: str
    broker_id: int
    state: StrategyState
    reason: str
    """Reason why the strategy is waiting, suspended, killed or failed; otherwise empty."""
    is_connected: bool
    """True if the strategy is logged in to the exchange and the state of all its orders is known."""
    parameters: dict[str, msgspec.Raw]
    """Parameters, set or default."""
    views: tuple[str, ...]
    """Views that the strategy reads."""
    orders_sent: int
    orders_filled: int
    """Number of orders filled completely."""
    orders_open: int
    orders_rejected: int
    """Number of orders rejected by the exchange."""
    orders_refused: int
    """Number of orders refused by the strategy's own limits and never sent."""
    fills: int
    realised: int
    unrealised: int
    fees: int
    positions: tuple[PositionLine, ...]
    """Positions, sorted by symbol."""
    void_trades: int = 0
    """Number of fills that the exchange has declared void; positions and money exclude them."""

    @property
    def profit(self) -> int:
        """Profit after fees, in ticks × lots."""
        return self.realised + self.unrealised - self.fees


class Strategies(msgspec.Struct, frozen=True):
    """All strategies of a process."""

    up_s: float
    """Seconds since the process started."""
    now_ns: int
    """The process's clock in nanoseconds since the UTC epoch."""
    run: str
    """Identity of this run of the process; after a restart, fills are numbered from 1 again."""
    views_connected: bool
    """True if the runtime's changes arrive."""
    last_fill: int
    """Number of the newest fill."""
    strategies: tuple[StrategyLine, ...]
    """Strategies in the order in which they were given."""


class FillLine(msgspec.Struct, frozen=True):
    """One own trade, or a void one."""

    number: int
    """Number, ascending within a run, over all strategies."""
    time_ns: int
    """Market time in nanoseconds since the UTC epoch."""
    strategy: str
    symbol: str
    side: Literal["B", "S"]
    volume_lots: int
    """Executed lots; negative for a void trade of that many lots."""
    price_ticks: int
    liquidity: str
    """Liquidity: maker, taker or cross; void for a void trade."""
    fee: int
    """Fee in ticks × lots."""
    client_id: int


class Fills(msgspec.Struct, frozen=True):
    """Own trades, oldest first."""

    run: str
    fills: tuple[FillLine, ...]
    last: int
    """Number to use as ``after`` in the next request."""


class OrderLine(msgspec.Struct, frozen=True):
    """One own order."""

    strategy: str
    client_id: int
    order_id: int
    """The exchange's number, 0 before there is one."""
    symbol: str
    side: Literal["B", "S"]
    volume_lots: int
    filled_lots: int
    price_ticks: int
    """Limit price in ticks; 0: a market order."""
    status: str
    """Status, see `algo_engine.desk.order.OrderStatus`."""
    reason: str = ""
    """Reason why the order was rejected, refused or cancelled."""


class Orders(msgspec.Struct, frozen=True):
    """Own orders: first those that have ended, then those that may still trade. Each of the two groups is sorted by
    strategy, and the orders of a strategy by age, oldest first.
    """

    orders: tuple[OrderLine, ...]


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to cancel resting orders and refuse new ones, until the process is restarted."""

    strategies: tuple[str, ...] = ()
    """Names of the strategies; empty: all."""
    reason: str = "by hand"
    """Reason for the status and the log; at most 200 characters."""


class Killed(msgspec.Struct, frozen=True):
    """Result of the kill switch so far."""

    strategies: tuple[str, ...]
    """Strategies that the kill switch stopped now or earlier."""
    orders_open: int
    """Number of their live orders, which are being cancelled."""
