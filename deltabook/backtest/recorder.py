"""Records of a backtest: prices, profits and positions over time, and every order's life."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from algo_engine.desk.order import EventKind, OrderEvent, OrderStatus
from algo_engine.desk.trades import Trade, trade_of
from algo_engine.host import StrategyHost
from algo_engine.views.quotes import Quotes

__all__ = ["OrderLife", "OrderStatistics", "Recorder", "Sample"]

_FIRST_STEP_NS: Final = 1_000_000
"""Shortest interval between two samples, with which every run begins, in nanoseconds."""
_DAY_NS: Final = 86_400 * 10**9
_LONGEST_STEP_NS: Final = 366 * _DAY_NS
"""Greatest interval between samples, in nanoseconds; at this interval, the samples may exceed the limit."""
_NUMBER: Final = re.compile(r"-?\d+")
_FIRST_KINDS: Final = frozenset({EventKind.SUBMITTED, EventKind.REFUSED})
"""Kinds of an order's first event; events of orders from before the run are ignored."""


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """State of the market and of the strategies at one time."""

    time_ns: int
    """Market time in nanoseconds."""
    quotes: tuple[tuple[int | None, int | None], ...]
    """Best bid and ask in ticks, by symbol."""
    profits: tuple[tuple[tuple[int, int, int], ...], ...]
    """Realised profit, unrealised profit and fees in ticks × lots, by strategy and symbol."""
    positions: tuple[tuple[int, ...], ...]
    """Positions in lots, by strategy and symbol."""


class OrderLife(msgspec.Struct):
    """One order from its submission to its end."""

    strategy: str
    """Name of the strategy."""
    client_id: int
    """Client id of the order."""
    symbol: str
    """Symbol of the instrument."""
    side: str
    """Side, B or S."""
    volume_lots: int
    """Number of ordered lots, as of the latest replacement."""
    price_ticks: int
    """Limit price in ticks, as of the latest replacement; 0 for a market order."""
    submitted_ns: int
    """Time when the strategy sent the order, in nanoseconds."""
    order_id: int = 0
    """The exchange's number of the order, 0 if it has none."""
    accepted_ns: int = 0
    """Time when the exchange accepted the order, in nanoseconds."""
    ended_ns: int = 0
    """Time when the order ended, in nanoseconds; 0 while it is open."""
    filled_lots: int = 0
    """Executed lots."""
    status: str = "new"
    """Present status."""
    reason: str = ""
    """Reason why the order was refused, rejected or cancelled."""


class OrderStatistics(msgspec.Struct):
    """Counts of one strategy's orders."""

    submitted: int = 0
    """Number of orders that the strategy submitted, refused ones included."""
    refused: int = 0
    """Number of orders refused by the strategy's own limits."""
    rejected: int = 0
    """Number of orders rejected by the exchange."""
    accepted: int = 0
    """Number of orders accepted by the exchange."""
    filled: int = 0
    """Number of orders executed completely."""
    partially_filled: int = 0
    """Number of orders that ended with only some lots executed."""
    cancelled: int = 0
    """Number of orders cancelled by the strategy or by the exchange."""
    expired: int = 0
    """Number of orders that ended because their time was over."""
    replaced: int = 0
    """Number of replacements that were carried out."""
    submitted_lots: int = 0
    """Lots of all orders that were not refused, including lots that replacements added."""
    filled_lots: int = 0
    """Executed lots."""
    fills: int = 0
    """Number of executions."""
    maker_fills: int = 0
    """Number of executions of resting orders."""
    maker_lots: int = 0
    """Executed lots of resting orders."""
    volume: int = 0
    """Executed volume in ticks × lots."""
    edge: int = 0
    """Sum of the executions' price advantage over the middle of the last quote, in half ticks × lots."""
    rest_ns: int = 0
    """Time from acceptance to the end, in nanoseconds, summed over all orders that ended."""
    most_open: int = 0
    """Largest number of orders open at once."""
    reasons: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of orders by the reason why they were refused, rejected or cancelled; variable parts of a reason are left
    out.
    """


class Recorder:
    """Follows the orders of all strategies, and takes a sample whenever one is due.

    When the number of samples reaches the limit, the interval between samples is doubled until their number is below
    the limit. From then on the number of samples stays between half the limit and the limit, whatever the length of the
    data. The samples are spread evenly over the data, and are the same in every run. The state at the end of each UTC
    day is a further sample, which always stays.
    """

    def __init__(
        self, quotes: Quotes, now_ns: Callable[[], int], symbols: Sequence[str], points: int, kept: int
    ) -> None:
        self._quotes, self._now_ns, self._symbols = quotes, now_ns, tuple(symbols)
        self._points, self._kept = max(4, points), kept
        self._hosts: list[StrategyHost] = []
        self._open: dict[str, dict[int, OrderLife]] = {}
        self._step_ns = _FIRST_STEP_NS
        self.next_ns = 0
        """Market time when the next sample is due, in nanoseconds."""
        self.day_end_ns = 0
        """End of the UTC day, in nanoseconds: `close_day` is due before the first change at or after it; 0 before
        `begin`.
        """
        self.samples: list[Sample] = []
        """Samples in the order of their times."""
        self.orders: list[OrderLife] = []
        """First orders; later ones are only counted in `statistics`."""
        self.statistics: dict[str, OrderStatistics] = {}
        """Order statistics, by strategy."""
        self.trades: list[Trade] = []
        """All executions, in the order in which the strategies received them."""

    def follow(self, hosts: Sequence[StrategyHost]) -> None:
        """Set the strategies whose profits and positions are sampled."""
        self._hosts = list(hosts)

    def begin(self, time_ns: int) -> None:
        """Make the first sample due at this time."""
        self.next_ns = time_ns
        self.day_end_ns = _day_end_ns(time_ns)

    def listener(
        self, strategy: str, broker_id: int, notify: Callable[[OrderEvent], None]
    ) -> Callable[[OrderEvent], None]:
        """Return a function that records an order event of a strategy and then passes it to ``notify``."""
        statistics = self.statistics[strategy] = OrderStatistics()
        self._open[strategy] = {}

        def record(event: OrderEvent) -> None:
            self._record(strategy, broker_id, statistics, event)
            notify(event)

        return record

    def close_day(self) -> None:
        """Take the sample of the end of the day, before anything of a later day has changed."""
        self._sample(self.day_end_ns - 1)
        self.day_end_ns = _day_end_ns(self._now_ns())

    def sample(self) -> None:
        """Take a sample."""
        now_ns = self._now_ns()
        if now_ns >= self.day_end_ns > 0:
            self.close_day()
        self._sample(now_ns)
        self.next_ns = now_ns - now_ns % self._step_ns + self._step_ns

    def _sample(self, time_ns: int) -> None:
        quotes = tuple(
            (None, None) if quote is None else (quote.bid_price_ticks, quote.ask_price_ticks)
            for quote in map(self._quotes.get, self._symbols)
        )
        profits = tuple(tuple(_profit(host, symbol) for symbol in self._symbols) for host in self._hosts)
        positions = tuple(tuple(host.position_lots(symbol) for symbol in self._symbols) for host in self._hosts)
        taken = Sample(time_ns, quotes, profits, positions)
        if self.samples and self.samples[-1].time_ns == time_ns:
            self.samples[-1] = taken
        else:
            self.samples.append(taken)
        if len(self.samples) >= self._points:
            self._thin()

    def _thin(self) -> None:
        """Double the interval until it leaves fewer samples than the limit."""
        while True:
            self._step_ns = min(2 * self._step_ns, _LONGEST_STEP_NS)
            self.samples = self._thinned()
            if len(self.samples) < self._points or self._step_ns == _LONGEST_STEP_NS:
                return

    def _thinned(self) -> list[Sample]:
        """Return the first sample of each interval, those of the ends of days, and the newest."""
        step_ns, samples = self._step_ns, self.samples
        kept, last = samples[:1], samples[0].time_ns // step_ns
        for sample in samples[1:-1]:
            number = sample.time_ns // step_ns
            if number != last or (sample.time_ns + 1) % _DAY_NS == 0:
                kept.append(sample)
            last = number
        return [*kept, *samples[1:][-1:]]

    def _record(self, strategy: str, broker_id: int, statistics: OrderStatistics, event: OrderEvent) -> None:
        order, s = event.order, statistics
        alive = self._open[strategy]
        life = alive.get(order.client_id)
        if life is None:
            if event.kind not in _FIRST_KINDS:
                return
            life = OrderLife(
                strategy, order.client_id, order.symbol, str(order.side), order.volume_lots, order.price_ticks,
                self._now_ns(),
            )  # fmt: skip
            alive[order.client_id] = life
            if len(self.orders) < self._kept:
                self.orders.append(life)
            s.submitted += 1
            if order.is_open:
                s.submitted_lots += order.volume_lots
                s.most_open = max(s.most_open, len(alive))
        life.status, life.order_id, life.price_ticks = str(order.status), order.order_id, order.price_ticks
        if event.kind is EventKind.ACCEPTED:
            s.accepted += 1
            life.accepted_ns = event.time_ns
        elif event.kind is EventKind.REPLACED:
            s.replaced += 1
            s.submitted_lots += max(0, order.volume_lots - life.volume_lots)
            life.volume_lots = order.volume_lots
        elif event.is_fill:
            self._filled(life, broker_id, s, event)
        if not order.is_open:
            self._ended(life, s, event)
            del alive[order.client_id]

    def _filled(self, life: OrderLife, broker_id: int, statistics: OrderStatistics, event: OrderEvent) -> None:
        order, s = event.order, statistics
        life.filled_lots += event.volume_lots
        s.fills += 1
        s.filled_lots += event.volume_lots
        s.volume += event.volume_lots * event.price_ticks
        if event.reason == "maker":
            s.maker_fills += 1
            s.maker_lots += event.volume_lots
        quote = self._quotes.get(order.symbol)
        middle = None if quote is None else quote.double_mid_ticks
        if middle is not None:
            s.edge += order.side.sign * (middle - 2 * event.price_ticks) * event.volume_lots
        self.trades.append(trade_of(event, life.strategy, broker_id))

    def _ended(self, life: OrderLife, statistics: OrderStatistics, event: OrderEvent) -> None:
        s, status = statistics, event.order.status
        life.ended_ns = event.time_ns or self._now_ns()
        if life.accepted_ns:
            s.rest_ns += life.ended_ns - life.accepted_ns
        if status is OrderStatus.FILLED:
            s.filled += 1
            return
        life.reason = event.reason
        s.partially_filled += life.filled_lots > 0
        s.refused += status is OrderStatus.REFUSED
        s.rejected += status is OrderStatus.REJECTED
        s.cancelled += status is OrderStatus.CANCELLED
        s.expired += status is OrderStatus.EXPIRED
        word = _NUMBER.sub("…", event.reason.partition(":")[0])[:60] or str(status)
        s.reasons[word] = s.reasons.get(word, 0) + 1


def _day_end_ns(time_ns: int) -> int:
    return time_ns - time_ns % _DAY_NS + _DAY_NS


def _profit(host: StrategyHost, symbol: str) -> tuple[int, int, int]:
    profit = host.profit(symbol)
    return profit.realised, profit.unrealised, profit.fees
