"""Messages about running strategies over HTTP: their state, their orders and fills, and the kill switch.

``GET`` of `STATUS_PATH` answers with a `Strategies`, of `FILLS_PATH` with a `Fills`, of `ORDERS_PATH` with an `Orders`;
``POST`` of `KILL_PATH` takes a `Kill` and answers with a `Killed`. All are JSON; a refusal is one line of text. Prices
are ticks, quantities lots, money ticks × lots: a display needs the instruments' scales.
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
"""``?after=N`` leaves out the fills up to number N."""
ORDERS_PATH: Final = "/v1/orders"
"""Orders that may still trade, and the newest that ended; ``?strategy=NAME`` those of one."""
KILL_PATH: Final = "/v1/kill"
MOST_FILLS: Final = 1_000
"""Fills in one answer, the newest that there are after N."""
MOST_ORDERS: Final = 1_000
"""Orders in one answer, the newest."""

PORTS_FILE: Final = "ports.json"
"""Beside the journals of strategies that run: a `Listening`. There is none while they do not."""

StrategyState = Literal["waiting", "running", "suspended", "killed", "failed", "stopped"]
"""waiting: for views or the exchange; suspended: its views are stale and its orders are cancelled; killed: by the kill
switch; failed: by an exception of its own or a view that ended."""


class Listening(msgspec.Struct, frozen=True):
    """Where the strategies of a directory can be asked."""

    pid: int
    """Process id."""
    interface: str
    """Address that the status port listens at."""
    port: int
    """Its number."""
    is_secure: bool
    """True if it speaks TLS."""


class PositionLine(msgspec.Struct, frozen=True):
    """What a strategy holds of one symbol."""

    symbol: str
    position_lots: int
    """Negative for a short position."""
    mark_ticks: int | None
    """The price at which it could be closed; None where nobody quotes."""
    realised: int
    """Profit of closed parts, before fees, ticks × lots."""
    unrealised: int
    """Profit of the open position at its mark."""
    fees: int
    """Paid so far, ticks × lots; negative: more rebates than fees."""


class StrategyLine(msgspec.Struct, frozen=True):
    """One strategy at this moment; sums over all symbols."""

    name: str
    broker_id: int
    state: StrategyState
    reason: str
    """Why it is waiting, suspended, killed or failed; else empty."""
    is_connected: bool
    """True if it is logged in to the exchange and knows the fate of all its orders."""
    parameters: dict[str, msgspec.Raw]
    """As they were set, or their defaults."""
    views: tuple[str, ...]
    """That it reads."""
    orders_sent: int
    orders_filled: int
    """Completely."""
    orders_open: int
    orders_rejected: int
    """By the exchange."""
    orders_refused: int
    """By a limit of ours; never sent."""
    fills: int
    realised: int
    unrealised: int
    fees: int
    positions: tuple[PositionLine, ...]
    """By symbol."""
    void_trades: int = 0
    """Fills that the exchange has declared void; positions and money are without them."""

    @property
    def profit(self) -> int:
        """What is left after fees, ticks × lots."""
        return self.realised + self.unrealised - self.fees


class Strategies(msgspec.Struct, frozen=True):
    """All strategies of a process."""

    up_s: float
    """Seconds since the process began."""
    now_ns: int
    """Its clock, nanoseconds since the UTC epoch."""
    run: str
    """A name of this process; another one counts its fills anew."""
    views_connected: bool
    """True if the runtime's changes arrive."""
    last_fill: int
    """Number of the newest fill."""
    strategies: tuple[StrategyLine, ...]
    """In the order in which they were given."""


class FillLine(msgspec.Struct, frozen=True):
    """One own trade, or one that is void."""

    number: int
    """Ascending within a run, over all strategies."""
    time_ns: int
    """Market time."""
    strategy: str
    symbol: str
    side: Literal["B", "S"]
    volume_lots: int
    """Negative for a trade of so many lots that is void."""
    price_ticks: int
    liquidity: str
    """maker, taker or cross; void."""
    fee: int
    """Ticks × lots."""
    client_id: int


class Fills(msgspec.Struct, frozen=True):
    """Own trades, oldest first."""

    run: str
    fills: tuple[FillLine, ...]
    last: int
    """What to ask with next."""


class OrderLine(msgspec.Struct, frozen=True):
    """One own order."""

    strategy: str
    client_id: int
    order_id: int
    """The exchange's number, 0 before it has one."""
    symbol: str
    side: Literal["B", "S"]
    volume_lots: int
    filled_lots: int
    price_ticks: int
    """0: a market order."""
    status: str
    """See `algo_engine.order.OrderStatus`."""
    reason: str = ""
    """Reason why the order was rejected, refused or cancelled."""


class Orders(msgspec.Struct, frozen=True):
    """Own orders, oldest first, those that ended before those that may still trade."""

    orders: tuple[OrderLine, ...]


class Kill(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Cancel resting orders and refuse new ones, until the process is started again."""

    strategies: tuple[str, ...] = ()
    """Their names; empty: all."""
    reason: str = "by hand"
    """Said in the status and in the log; at most 200 characters."""


class Killed(msgspec.Struct, frozen=True):
    """What the kill switch has done so far."""

    strategies: tuple[str, ...]
    """That it stopped, or that it had stopped before."""
    orders_open: int
    """Their live orders, which are being cancelled."""
