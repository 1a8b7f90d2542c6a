"""Loader of trades or bars without a book: makes quotes at each price, for a backtest that fills orders at the next
price.

The input is trades as `exchange_server.replay.depth` reads them, or bars (``open_time`` or ``timestamp``, ``open``,
``high``, ``low``, ``close``, ``volume``), as CSV or Parquet.

Such data has no book, so a book is assumed. At every price, there is a bid at that price and an ask one tick above,
each with as many lots as were traded there. The trade itself is replayed too, and fills resting bids at its price or
above and resting asks at its price or below.

A bar gives four prices at even distances in time: first its open; then its high or its low, whichever is nearer to the
open; then the other of these two; last its close. Each price has a quarter of the bar's volume, rounded down. A bar of
fewer than four lots gives no prices. A bar lasts until the next bar; where nothing was traded for long, as in a night,
a bar lasts as long as the bar before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple

from exchange_server.errors import ExchangeConfigurationError, RecordError, ReplayFileError
from exchange_server.replay.bitstamp import decimal_converter
from exchange_server.replay.depth import UNIT, OneInstrument, TradeRows, time_ns_of
from exchange_server.replay.loader import FileLoader
from exchange_server.replay.record import Record

__all__ = ["PriceLoader", "bar_time_column"]

_BROKER: Final = 1
_BAR: Final = ("open", "high", "low", "close", "volume")
_BAR_PRICES: Final = 4
"""Number of prices that a bar gives; a bar with fewer lots does not have a lot for each of them."""
_BAR_TIMES: Final = ("open_time", "timestamp", "time")
_SECOND_NS: Final = 1_000_000_000
_GAP_BARS: Final = 10
"""Smallest distance of two bars that counts as a gap, in lengths of a bar."""
_USUAL_BAR_NS: Final = 60 * 10**9
"""Length of the last bar of a file with a single bar."""


def bar_time_column(names: list[str]) -> str:
    """Return the column of a bar's beginning; empty where the columns are not those of bars."""
    return next((name for name in _BAR_TIMES if name in names), "") if set(_BAR) <= set(names) else ""


class _Price(NamedTuple):
    time_ns: int
    side: Literal["B", "S"]
    """Side of the resting order that traded."""
    price: int
    volume: int


class PriceLoader(FileLoader):
    """Records of an assumed book at each price, as the module describes.

    `price_after` returns the time of the next price.
    """

    unit = "record"

    def __init__(self, path: Path, symbol: str, *, is_bars: bool, tick_size: str = "") -> None:
        """Open a file; ``tick_size`` is the distance of the ask from the bid.

        Raise `ExchangeConfigurationError` for an invalid ``tick_size``.
        """
        super().__init__(path, (symbol,))
        self._symbol, self._is_bars = symbol, is_bars
        self._price, self._volume = (decimal_converter(name, Decimal(UNIT)) for name in ("price", "volume"))
        try:
            self._tick = self._price(tick_size or UNIT)
        except RecordError as error:
            raise ExchangeConfigurationError(f"expected a tick of whole {UNIT}, was {tick_size!r}") from error
        self._time_ns = 0
        """Time of the price that is being read, in nanoseconds."""
        self._prices: Iterator[_Price] | None = None
        self._ahead: deque[_Price] = deque()
        """Prices that `price_after` has read, and whose records are still to come."""
        self._next_id = 1

    def price_after(self, time_ns: int) -> int:
        """Return the time of the first price after this time; 0 if there is none.

        The file is read up to that price. The prices before it are stored until their records are read; they span no
        more time than the longest latency of an order.
        """
        if self._time_ns > time_ns:
            return self._time_ns
        for price in self._ahead:
            if price.time_ns > time_ns:
                return price.time_ns
        for price in self._begun():
            self._ahead.append(price)
            if price.time_ns > time_ns:
                return price.time_ns
        return 0

    def _begun(self) -> Iterator[_Price]:
        """Return the prices that are still to be read; `price_after` may be called before the first record is read."""
        if self._prices is None:
            self._prices = self._bars() if self._is_bars else self._trades()
        return self._prices

    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        file.close()
        self._warn_if_cut(self.path)
        position = 0
        resting: list[int] = []
        if self._time_ns:
            # `records` was called again: read the file from its beginning.
            self._prices, self._time_ns = None, 0
            self._ahead.clear()
        prices = self._begun()
        while (price := self._ahead.popleft() if self._ahead else next(prices, None)) is not None:
            self._time_ns = price.time_ns
            for order_id, action, volume, ticks in self._events(price, resting):
                position += 1
                yield Record(position, price.time_ns, order_id, _BROKER, action, volume, ticks, self._symbol)

    def _events(self, price: _Price, resting: list[int]) -> Iterator[tuple[int, str, int, int]]:
        """Yield the changes for a price: previous quotes end, the trade executes, new quotes are placed."""
        for order_id in resting:
            yield order_id, "D", 0, 0
        first = self._next_id
        self._next_id += 3
        resting[:] = [first + 1, first + 2]
        yield first, price.side, price.volume, price.price
        yield first, "E", price.volume, 0
        yield first + 1, "B", price.volume, price.price
        yield first + 2, "S", price.volume, price.price + self._tick

    def _trades(self) -> Iterator[_Price]:
        for event in TradeRows(self, self.path, OneInstrument()):
            yield _Price(event.time_ns, event.side, event.price, event.volume)

    def _bars(self) -> Iterator[_Price]:
        before: tuple[int, list[int]] | None = None
        step_ns = 0
        for time_ns, values in self._bar_rows():
            if before is not None:
                step_ns = _length_ns(time_ns - before[0], step_ns)
                yield from _prices_of(*before, step_ns)
            before = time_ns, values
        if before is not None:
            yield from _prices_of(*before, step_ns or _USUAL_BAR_NS)

    def _bar_rows(self) -> Iterator[tuple[int, list[int]]]:
        from exchange_server.replay._tables import column_names, declared_unit_ns, row_unit, table_rows

        names = column_names(self.path)
        time_name = bar_time_column(names)
        if not time_name:
            raise ReplayFileError(
                f"expected bars with the columns {' or '.join(_BAR_TIMES)},{','.join(_BAR)}, was "
                f"{','.join(names)[:100]}, at {self.path}"
            )
        latest_ns, instrument, has_symbols = -1, OneInstrument(), "symbol" in names
        declared_ns, bad = declared_unit_ns(self.path, time_name), partial(self._bad, unit=row_unit(self.path))
        for number, (time_text, *texts, symbol) in table_rows(self.path, (time_name, *_BAR), bad, ("symbol",)):
            try:
                if has_symbols:
                    instrument.check(symbol)
                time_ns = time_ns_of(time_text, _SECOND_NS, declared_ns)
                if time_ns <= latest_ns:
                    raise RecordError(f"expected bars in the order of their times, was {time_text}")
                values = [self._price(text or "") for text in texts[:4]] + [self._volume(texts[4] or "")]
                begin, high, low, end = values[:4]
                if not (0 < low <= min(begin, end) and max(begin, end) <= high):
                    raise RecordError(
                        f"expected low ≤ open, close ≤ high, all above 0, was {','.join(map(str, texts))}"
                    )
            except RecordError as error:
                bad(number, error)
                continue
            latest_ns = time_ns
            if values[4] < _BAR_PRICES:
                self.skipped += 1
            yield time_ns, values


def _length_ns(distance_ns: int, before_ns: int) -> int:
    """Return the length of a bar, given its distance to the next bar and the length of the previous one (0: none).

    A long distance is a gap only if it is a multiple of the previous bar's length. Otherwise the bar may be longer than
    the previous one, and its close would come too early if it were cut.

    >>> [_length_ns(distance, 60) for distance in (60, 120, 600, 630)]
    [60, 120, 60, 630]
    """
    is_gap = before_ns and distance_ns >= _GAP_BARS * before_ns and distance_ns % before_ns == 0
    return before_ns if is_gap else distance_ns


def _prices_of(time_ns: int, values: list[int], step_ns: int) -> Iterator[_Price]:
    begin, high, low, end, volume = values
    if volume < _BAR_PRICES:
        return
    first, second = (high, low) if high - begin < begin - low else (low, high)
    before = begin
    for place, price in enumerate((begin, first, second, end)):
        side: Literal["B", "S"] = "S" if price > before else "B"
        before = price
        # The close is a nanosecond or more before the open of the next bar, so that their times differ.
        yield _Price(time_ns + place * (step_ns - 1) // 3, side, price, volume // _BAR_PRICES)
