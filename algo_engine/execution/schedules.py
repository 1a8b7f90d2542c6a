"""Large orders in pieces: by time (TWAP), by a volume profile (VWAP), by traded volume (POV).

Robert Almgren and Neil Chriss, *Optimal execution of portfolio transactions* (2001), explains the purpose of the
pieces; Barry Johnson, *Algorithmic Trading and DMA* (2010), chapter 5, describes the three algorithms under these
names.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from algo_engine.desk.order import OrderStatus, Side
from algo_engine.execution.composite import ChildOrder, Composite
from algo_engine.strategy import Context
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quote
from deltabook.wire.text import OrderOptions

__all__ = ["ParticipationOrder", "ScheduledOrder", "Urgency"]

_NOW: Final = OrderOptions(immediate=True)
_MS_NS: Final = 1_000_000
_KEPT_SECONDS: Final = 600
"""Least number of latest seconds whose volumes a participation order remembers."""
_WHOLE_BPS: Final = 10_000


class Urgency(StrEnum):
    """Way to trade the lots that are due."""

    TAKE = "take"
    """Trade at the best price of the other side, at once."""
    JOIN = "join"
    """Rest at the best price of the own side until the next piece is due, then trade like TAKE.

    A resting order keeps its place in the queue until a better price appears, or twice as many lots are due.
    """


class _Paced(Composite):
    """Base class of orders that trade as lots become due.

    `_due_lots` returns the number of lots that are due by now, and `_overdue_lots` the number that must not rest any
    longer.
    """

    memory_fields = MappingProxyType(
        {**Composite.memory_fields, "_duration_ns": int, "_urgency": Urgency, "_limit_ticks": int, "_begin_ns": int}
    )
    _quote: Quote | None = None
    _left_ticks = 0
    """Price of the resting order that has just ended; 0 from the next quote on."""

    def __init__(
        self,
        context: Context,
        side: Side,
        symbol: str,
        lots: int,
        duration_ms: int,
        *,
        urgency: Urgency,
        limit_ticks: int,
    ) -> None:
        super().__init__(context, side, symbol, lots)
        if lots < 1 or duration_ms < 1 or limit_ticks < 0:
            raise ValueError(
                f"expected 1 lot and 1 ms or more and a limit of 0 or more, was {lots}, {duration_ms}, {limit_ticks}"
            )
        self._duration_ns, self._urgency, self._limit_ticks = duration_ms * _MS_NS, urgency, limit_ticks
        self._begin_ns = 0

    def start(self, number: int) -> None:
        """Start the order; the first piece is due at once."""
        self._begin_ns = self._context.now_ns
        super().start(number)

    def _quoted(self, quote: Quote) -> None:
        self._quote, self._left_ticks = quote, 0

    def _ended(self, status: OrderStatus, reason: str, child: ChildOrder | None, *, was_leaving: bool) -> None:
        super()._ended(status, reason, child, was_leaving=was_leaving)
        self._left_ticks = 0 if child is None or child.options.immediate else child.price_ticks

    @abc.abstractmethod
    def _due_lots(self) -> int:
        """Return the number of lots due by now, including filled ones."""

    @abc.abstractmethod
    def _overdue_lots(self) -> int:
        """Return the number of lots that have waited too long to rest, including filled ones."""

    def _wanted(self) -> ChildOrder | None:
        quote = self._quote
        if quote is None:
            return None
        is_buy = self.side is Side.BUY
        overdue, due = self._overdue_lots() - self.filled_lots, self._due_lots() - self.filled_lots
        far, far_lots = (
            (quote.ask_price_ticks, quote.ask_volume_lots) if is_buy else (quote.bid_price_ticks, quote.bid_volume_lots)
        )
        if self._urgency is Urgency.TAKE or overdue > 0:
            lots = due if self._urgency is Urgency.TAKE else overdue
            if far is None or not far_lots or not self._is_within(far):
                return None
            return ChildOrder(lots, far, _NOW)
        near, near_lots = (
            (quote.bid_price_ticks, quote.bid_volume_lots) if is_buy else (quote.ask_price_ticks, quote.ask_volume_lots)
        )
        if near is None or not near_lots:
            return None
        if self._limit_ticks:
            near = min(near, self._limit_ticks) if is_buy else max(near, self._limit_ticks)
        child, order = self._child, self._context.order(self._child_id) if self._child_id else None
        if child is None or order is None or child.options.immediate:
            # The best price may be that of the order that has just ended, so no order joins it before the next quote.
            return None if near == self._left_ticks else ChildOrder(due, near)
        if (near - child.price_ticks) * self.side.sign <= 0 and due < 2 * order.remaining_lots:
            # A quote with a worse price is older than the order; a quote with the same price may be the order itself.
            return ChildOrder(min(due, order.remaining_lots), child.price_ticks)
        return ChildOrder(due, near)

    def _is_within(self, price: int) -> bool:
        return not self._limit_ticks or (self._limit_ticks - price) * self.side.sign >= 0


class ScheduledOrder(_Paced):
    """Equal pieces at equal times (TWAP), or pieces by a volume profile (VWAP).

    There are ``n = ceil(duration / interval)`` pieces. Piece k (from 0) is due at k × interval, so all lots are due
    with the last piece. Lots of a piece that are not filled are added to the next. At (n + 1) × interval, remaining
    lots are abandoned: a limit price may prevent every execution. The schedule continues while the process does not
    run: lots that became due meanwhile are traded after the restart.
    """

    memory_fields = MappingProxyType(
        {**_Paced.memory_fields, "_interval_ms": int, "_pieces": int, "_profile": tuple[int, ...]}
    )

    def __init__(  # noqa: PLR0917 - the terms of the order
        self,
        context: Context,
        side: Side,
        symbol: str,
        lots: int,
        duration_ms: int,
        interval_ms: int,
        *,
        profile: Sequence[int] = (1,),
        urgency: Urgency = Urgency.TAKE,
        limit_ticks: int = 0,
    ) -> None:
        """Create an order; ``profile`` divides the duration into equal parts, and has the expected volume of each part.

        The unit of the volumes does not matter, and a profile with a single part is TWAP. Raise `ValueError` for
        impossible arguments.
        """
        super().__init__(context, side, symbol, lots, duration_ms, urgency=urgency, limit_ticks=limit_ticks)
        if not 1 <= interval_ms <= duration_ms:
            raise ValueError(f"expected an interval from 1 to {duration_ms} ms, was {interval_ms}")
        if not profile or min(profile) < 0 or not sum(profile):
            raise ValueError(f"expected volumes of 0 or more and one above, was {list(profile)[:10]}")
        self._interval_ms = interval_ms
        self._pieces = -(-duration_ms // interval_ms)
        self._profile = tuple(profile)

    def scheduled_lots(self, piece: int) -> int:
        """Return the number of lots that are due once piece ``piece`` (from 0) is due.

        >>> from unittest.mock import Mock
        >>> order = ScheduledOrder(Mock(), Side.BUY, "ACME", 100, 4_000, 1_000, profile=(3, 1))
        >>> [order.scheduled_lots(piece) for piece in range(-1, 4)]
        [0, 37, 75, 87, 100]
        """
        if piece < 0:
            return 0
        # Integrate the profile up to (piece + 1) / pieces of the duration, exactly: whole parts, and a share of the
        # next one.
        profile, pieces = self._profile, self._pieces
        whole, rest = divmod(min(piece + 1, pieces) * len(profile), pieces)
        volume = sum(profile[:whole]) * pieces + (profile[whole] * rest if rest else 0)
        return self.lots * volume // (sum(profile) * pieces)

    def start(self, number: int) -> None:
        """Start the order; the first piece is due at once."""
        super().start(number)
        if not self.is_done:
            self._set_timer(self._interval_ms)

    def _piece(self) -> int:
        return (self._context.now_ns - self._begin_ns) // (self._interval_ms * _MS_NS)

    def _due_lots(self) -> int:
        return self.scheduled_lots(self._piece())

    def _overdue_lots(self) -> int:
        return self.scheduled_lots(self._piece() - 1)

    def _due(self) -> None:
        piece = self._piece()
        if piece > self._pieces:
            self.cancel("its time is over")
            return
        # The timer is set to the next piece's own time, so that delays of timers do not add up.
        next_ns = self._begin_ns + (piece + 1) * self._interval_ms * _MS_NS
        self._set_timer(-(-(next_ns - self._context.now_ns) // _MS_NS))

    def _resumed(self) -> None:
        self._due()


class ParticipationOrder(_Paced):
    """A share of the volume that trades in the market, including its own executions (percentage of volume, POV).

    The volume is read from the view ``trades_1s``, which the strategy must have among its `views`. Volume counts from
    the start of the order. At the end of the duration the rest is abandoned. After a restart the order counts the
    volume traded meanwhile, as far as the view still contains it. The order has no pieces, so its lots only rest with
    `Urgency.JOIN`.
    """

    VIEW: Final = "trades_1s"
    """View with the columns symbol, second and volume."""
    memory_fields = MappingProxyType(
        {**_Paced.memory_fields, "_share_bps": int, "market_lots": int, "_second": int, "_second_lots": int}
    )
    loose_fields = frozenset({"market_lots", "_second", "_second_lots"})

    def __init__(  # noqa: PLR0917 - the terms of the order
        self,
        context: Context,
        side: Side,
        symbol: str,
        lots: int,
        share_bps: int,
        duration_ms: int,
        *,
        urgency: Urgency = Urgency.TAKE,
        limit_ticks: int = 0,
    ) -> None:
        """Create an order; ``share_bps`` is in hundredths of a percent. Raise `ValueError` for impossible arguments."""
        super().__init__(context, side, symbol, lots, duration_ms, urgency=urgency, limit_ticks=limit_ticks)
        if not 0 < share_bps <= _WHOLE_BPS:
            raise ValueError(f"expected a share from 1 to {_WHOLE_BPS} bps, was {share_bps}")
        self._share_bps = share_bps
        self._seconds: dict[int, int] = {}
        self._second = self._second_lots = 0
        """Latest second that was counted, and its lots."""
        self.market_lots = 0
        """Number of lots traded in the market since the start, including own ones."""

    def start(self, number: int) -> None:
        """Start the order; earlier trades do not count."""
        self._seconds = self._rows()
        self._second = max(self._seconds, default=0)
        self._second_lots = self._seconds.get(self._second, 0)
        super().start(number)
        if not self.is_done:
            self._set_timer(self._duration_ns // _MS_NS)

    def _rows(self) -> dict[int, int]:
        return {row["second"]: row["volume"] for row in self._context.view(self.VIEW).select(symbol=self.symbol)}

    def _resumed(self) -> None:
        rows = self._rows()
        self._seconds = {second: lots for second, lots in rows.items() if second < self._second}
        self._seconds[self._second] = self._second_lots
        for second in sorted(rows):
            self._count(second, rows[second])
        left_ns = self._begin_ns + self._duration_ns - self._context.now_ns
        if left_ns > 0:
            self._set_timer(-(-left_ns // _MS_NS))
        else:
            self._due()

    def _count(self, second: int, volume: int) -> None:
        # The volume of a second falls when the runtime drops its trades; they still count.
        self.market_lots += max(0, volume - self._seconds.get(second, 0))
        self._seconds[second] = volume
        if second >= self._second:
            self._second, self._second_lots = second, volume

    def _view_changed(self, change: ViewChange) -> None:
        if change.view != self.VIEW:
            return
        for row in change.added:
            if row["symbol"] == self.symbol:
                self._count(row["second"], row["volume"])
        if len(self._seconds) > 2 * _KEPT_SECONDS:
            for second in sorted(self._seconds)[:-_KEPT_SECONDS]:
                del self._seconds[second]

    def _due_lots(self) -> int:
        return min(self.lots, self.market_lots * self._share_bps // _WHOLE_BPS)

    def _overdue_lots(self) -> int:
        return 0

    def _due(self) -> None:
        self.cancel("its time is over")
