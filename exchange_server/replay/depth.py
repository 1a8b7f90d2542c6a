"""Depth by price level (L2) with trades, as orders: a queue of synthetic orders for each level.

The supported files are Tardis's ``incremental_book_L2`` (``timestamp,local_timestamp,is_snapshot,side,price,amount``)
and ``trades`` (``timestamp,local_timestamp,side,price,amount``), and Binance's ``T_DEPTH``
(``timestamp,side,update_type,price,qty``) and trades (``time,price,qty,is_buyer_maker``), as CSV or Parquet.

Such data does not contain the orders of a level, so the place of a strategy's order in its queue is a model:

* A level's increase is a new order behind all orders there, including the strategy's.
* A trade executes at the front of the queue, and fills the strategy's orders in their turn, first the orders at better
  prices than the trade.
* A decrease that no trade explains is a cancellation. ``queue`` chooses the cancelled orders: ``back`` takes the newest
  (the strategy's order moves ahead by trades alone: pessimistic), ``front`` the oldest (optimistic), ``prorata`` a
  share of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from heapq import merge
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import IO, Final, Literal, NamedTuple, get_args

from sortedcontainers import SortedDict

from exchange_server.errors import ExchangeConfigurationError, RecordError, ReplayFileError
from exchange_server.replay.bitstamp import decimal_converter
from exchange_server.replay.loader import LATEST_NS, FileLoader
from exchange_server.replay.record import Record

__all__ = ["DEPTH_COLUMNS", "DepthLoader", "QueueModel", "depth_layout"]

QueueModel = Literal["back", "front", "prorata"]

UNIT: Final = "0.00000001"
"""Size of a tick and of a lot: prices and amounts have up to 8 digits after the point."""
_BROKER: Final = 1
"""Broker of all synthetic orders."""
_MOST_ORDERS: Final = 64
"""Largest number of synthetic orders at one level; a further increase joins the last one, which moves to the back."""
_MICROSECOND_NS: Final = 1_000
_MILLISECOND_NS: Final = 1_000_000

DEPTH_COLUMNS: Final = {
    "tardis": ("local_timestamp", "is_snapshot", "side", "price", "amount"),
    "binance": ("timestamp", "update_type", "side", "price", "qty"),
}
"""Provider → columns of its depth files: time, snapshot, side, price, amount."""
_TRADE_COLUMNS: Final = {
    "tardis": ("local_timestamp", "side", "price", "amount"),
    "binance": ("time", "is_buyer_maker", "price", "qty"),
}
"""Provider → columns of its trade files: time, side, price, amount."""
_TIME_UNITS_NS: Final = {"tardis": _MICROSECOND_NS, "binance": _MILLISECOND_NS}
_SIDES: Final = {"bid": "B", "ask": "S", "b": "B", "a": "S", "buy": "B", "sell": "S"}
_SNAPSHOTS: Final = {"true": True, "false": False, "snap": True, "set": False}
_MAKERS: Final = {"buy": "S", "sell": "B", "true": "B", "false": "S"}
"""Side of the resting order, by the trade's side or by the text of "the buyer is the maker"."""

_Side = Literal["B", "S"]


def depth_layout(names: Iterable[str]) -> str:
    """Return the provider whose depth files have these columns, empty for none."""
    present = set(names)
    return next((name for name, columns in DEPTH_COLUMNS.items() if present.issuperset(columns)), "")


def trades_layout(names: Iterable[str]) -> str:
    """Return the provider whose trade files have these columns, empty for none."""
    present = set(names)
    if present & {"is_snapshot", "update_type"}:
        return ""
    return next((name for name, columns in _TRADE_COLUMNS.items() if present.issuperset(columns)), "")


class _Event(NamedTuple):
    """Row of the depth or the trade file."""

    time_ns: int
    rank: int
    """Order within the same time: 0 for a trade, which comes before the depth that it changed; 1 for depth."""
    side: _Side
    """Side of the level, or of the resting order of a trade."""
    price: int
    volume: int
    is_snapshot: bool = False


class OneInstrument:
    """Instrument that all rows of some files must have; the first row with a name determines it."""

    def __init__(self) -> None:
        self._name: str | None = None

    def check(self, name: str | None) -> None:
        """Raise `RecordError` for a row of another instrument, or of none after a row that named one."""
        self._name = self._name or name
        if name != self._name:
            raise RecordError(f"expected one instrument in a file, {self._name}, was {name}")


class TradeRows:
    """Trades of a file as events, in the order of the file; unusable rows are counted by the loader."""

    def __init__(self, loader: FileLoader, path: Path, instrument: OneInstrument) -> None:
        from exchange_server.replay._tables import column_names

        self._loader, self._path, self._instrument = loader, path, instrument
        names = column_names(path)
        self._layout = trades_layout(names)
        if not self._layout:
            raise ReplayFileError(
                f"expected trades with the columns {' or '.join(','.join(each) for each in _TRADE_COLUMNS.values())}, "
                f"was {','.join(names)[:100]}, at {path}"
            )
        self._has_symbols = "symbol" in names
        self._price, self._amount = _converters()

    def __iter__(self) -> Iterator[_Event]:
        from exchange_server.replay._tables import declared_unit_ns, row_unit, table_rows

        loader, path, names, latest_ns = self._loader, self._path, _TRADE_COLUMNS[self._layout], 0
        bad = partial(loader._bad, path=path, unit=row_unit(path))
        largest_ns, declared_ns = _TIME_UNITS_NS[self._layout], declared_unit_ns(path, names[0])
        for number, row in table_rows(path, names, bad, ("symbol",)):
            try:
                if self._has_symbols:
                    self._instrument.check(row[4])
                time_ns = time_ns_of(row[0], largest_ns, declared_ns)
                side = _word(_MAKERS, "side", row[1], unknown="B")
                price, volume = self._price(row[2] or ""), self._amount(row[3] or "")
                if not price or not volume:
                    raise RecordError(f"expected a price and an amount above 0, was {row[2]} and {row[3]}")
            except RecordError as error:
                bad(number, error)
                continue
            latest_ns = loader._in_order(time_ns, latest_ns)
            yield _Event(latest_ns, 0, side, price, volume)


class DepthLoader(FileLoader):
    """Records that keep a market's levels at the recorded depth, and records of the trades; see the module's queue
    model.

    Rows of one message are one change: removals come first, so that the book is not crossed in between. A snapshot
    replaces the book; levels that are in the snapshot too keep their queues. Levels crossed by new ones or passed by a
    trade are stale and are removed. If a trade has more volume than the level at its price, the rest is a synthetic
    order, which executes at once; if levels of the other side reach that price, the rest is a trade without orders.

    Positions number the records.
    """

    unit = "record"

    def __init__(self, path: Path, symbol: str, *, trades: Path | None = None, queue: QueueModel = "back") -> None:
        """Open the files; raise `ExchangeConfigurationError` for an unknown queue model."""
        super().__init__(path, (symbol,))
        if queue not in get_args(QueueModel):
            raise ExchangeConfigurationError(f"expected a queue model back, front or prorata, was {queue!r}")
        self._symbol, self._trades, self._queue = symbol, trades, queue
        self._levels: dict[_Side, SortedDict[int, dict[int, int]]] = {"B": SortedDict(), "S": SortedDict()}
        self._next_id = 1
        self._position = 0
        self._instrument = OneInstrument()
        self.stale_levels = 0
        """Number of levels removed because others crossed them or a trade passed them."""

    def _read(self, file: IO[bytes]) -> Iterator[Record]:
        file.close()
        for path in filter(None, (self.path, self._trades)):
            self._warn_if_cut(path)
        self._levels = {"B": SortedDict(), "S": SortedDict()}
        self._next_id, self._position, self.stale_levels = 1, 0, 0
        self._instrument = OneInstrument()
        events: Iterator[_Event] = self._depth()
        if self._trades is not None:
            trades = TradeRows(self, self._trades, self._instrument)
            # The first row of the depth names the instrument: `merge` reads it before the first trade.
            events = merge(events, iter(trades), key=lambda event: event[:2])
        for (time_ns, rank, _), group in groupby(events, key=attrgetter("time_ns", "rank", "is_snapshot")):
            if not rank:
                for trade in group:
                    yield from self._trade(time_ns, trade)
                continue
            rows = list(group)
            yield from self._update(time_ns, rows, replaces=rows[0].is_snapshot)

    def _depth(self) -> Iterator[_Event]:
        from exchange_server.replay._tables import column_names, declared_unit_ns, row_unit, table_rows

        layout = depth_layout(column_names(self.path))
        if not layout:
            raise ReplayFileError(
                f"expected depth with the columns {' or '.join(','.join(each) for each in DEPTH_COLUMNS.values())}, "
                f"was {','.join(column_names(self.path))[:100]}, at {self.path}"
            )
        price_of, amount_of = _converters()
        names, latest_ns = DEPTH_COLUMNS[layout], 0
        largest_ns, declared_ns = _TIME_UNITS_NS[layout], declared_unit_ns(self.path, names[0])
        has_symbols = "symbol" in column_names(self.path)
        bad = partial(self._bad, unit=row_unit(self.path))
        for number, row in table_rows(self.path, names, bad, ("symbol",)):
            time_text, snapshot, side, price, amount, name = row
            try:
                if has_symbols:
                    self._instrument.check(name)
                event = _Event(
                    time_ns_of(time_text, largest_ns, declared_ns), 1, _word(_SIDES, "side", side),
                    price_of(price or ""), amount_of(amount or ""), _SNAPSHOTS[(snapshot or "").lower()],
                )  # fmt: skip
                if not event.price:
                    raise RecordError(f"expected a price above 0, was {price}")
            except KeyError:
                bad(number, RecordError(f"expected a snapshot or an update, was {snapshot!r}"))
                continue
            except RecordError as error:
                bad(number, error)
                continue
            latest_ns = self._in_order(event.time_ns, latest_ns)
            yield event if latest_ns == event.time_ns else event._replace(time_ns=latest_ns)

    # Orders of the levels.

    def _update(self, time_ns: int, rows: list[_Event], *, replaces: bool) -> Iterator[Record]:
        wanted = {(row.side, row.price): row.volume for row in rows}
        if replaces:
            for side, levels in self._levels.items():
                for price in levels:
                    wanted.setdefault((side, price), 0)
        grown: list[tuple[_Side, int, int]] = []
        for (side, price), volume in wanted.items():
            before = sum(self._levels[side].get(price, {}).values())
            if volume < before:
                yield from self._cancel(time_ns, side, price, before - volume)
            elif volume > before:
                grown.append((side, price, volume - before))
        for side, price, _ in grown:
            yield from self._remove_crossed(time_ns, side, price, wanted)
        for side, price, volume in grown:
            yield from self._increase(time_ns, side, price, volume)

    def _remove_crossed(
        self, time_ns: int, side: _Side, price: int, wanted: dict[tuple[_Side, int], int]
    ) -> Iterator[Record]:
        """Remove levels of the other side that a price crosses, except those to which its message gives a volume."""
        other: _Side = "S" if side == "B" else "B"
        levels = self._levels[other]
        reached = levels.irange(None, price) if side == "B" else levels.irange(price, None)
        for crossed in list(reached):
            if not wanted.get((other, crossed)):
                self.stale_levels += 1
                yield from self._cancel(time_ns, other, crossed, sum(levels[crossed].values()))

    def _increase(self, time_ns: int, side: _Side, price: int, volume: int) -> Iterator[Record]:
        level = self._levels[side].setdefault(price, {})
        if len(level) >= _MOST_ORDERS:
            last, before = level.popitem()
            yield self._record(time_ns, last, "D", 0, 0)
            volume += before
        order_id = self._next_id
        self._next_id += 1
        level[order_id] = volume
        yield self._record(time_ns, order_id, side, volume, price)

    def _cancel(self, time_ns: int, side: _Side, price: int, volume: int) -> Iterator[Record]:
        level = self._levels[side][price]
        for order_id, taken in self._shares(level, volume):
            yield self._take(time_ns, side, price, order_id, taken, "X")

    def _shares(self, level: dict[int, int], volume: int) -> list[tuple[int, int]]:
        """Return the orders that lose lots, with the number of lots that each loses."""
        shares: dict[int, int] = {}
        if self._queue == "prorata":
            total = sum(level.values())
            shares = {order_id: lots * volume // total for order_id, lots in level.items()}
            volume -= sum(shares.values())
        for order_id in list(level) if self._queue == "front" else reversed(level):
            taken = min(volume, level[order_id] - shares.get(order_id, 0))
            shares[order_id] = shares.get(order_id, 0) + taken
            volume -= taken
        return [(order_id, shares[order_id]) for order_id in level if shares.get(order_id)]

    def _take(  # noqa: PLR0917 - one order of a level
        self, time_ns: int, side: _Side, price: int, order_id: int, taken: int, action: str
    ) -> Record:
        level = self._levels[side][price]
        level[order_id] -= taken
        if not level[order_id]:
            del level[order_id]
            if not level:
                del self._levels[side][price]
            action = "D" if action == "X" else action
        return self._record(time_ns, order_id, action, taken, 0)

    def _trade(self, time_ns: int, trade: _Event) -> Iterator[Record]:
        side, price, left = trade.side, trade.price, trade.volume
        own = self._levels[side]
        better = own.irange(price, None, (False, True)) if side == "B" else own.irange(None, price, (True, False))
        for gone in list(better):
            # The depth lags behind the trade, which would have executed against these levels first.
            self.stale_levels += 1
            yield from self._cancel(time_ns, side, gone, sum(own[gone].values()))
        for order_id, lots in list(self._levels[side].get(price, {}).items()):
            taken = min(left, lots)
            yield self._take(time_ns, side, price, order_id, taken, "E")
            left -= taken
            if not left:
                return
        other = self._levels["S" if side == "B" else "B"]
        if other and (other.keys()[0] <= price if side == "B" else other.keys()[-1] >= price):
            # The depth lags behind the trade: an order at its price would trade with the wrong side.
            yield self._record(time_ns, 0, "T", left, price)
            return
        order_id = self._next_id
        self._next_id += 1
        yield self._record(time_ns, order_id, side, left, price)
        yield self._record(time_ns, order_id, "E", left, 0)

    def _record(self, time_ns: int, order_id: int, action: str, volume: int, price: int) -> Record:
        self._position += 1
        return Record(self._position, time_ns, order_id, _BROKER, action, volume, price, self._symbol)


def _converters() -> tuple[Callable[[str], int], Callable[[str], int]]:
    unit = Decimal(UNIT)
    return decimal_converter("price", unit), decimal_converter("amount", unit)


def time_ns_of(text: str | None, largest_ns: int, declared_ns: int) -> int:
    """Return a time in nanoseconds since 1970, given the unit that its file declares, or 0.

    Without a declared unit, the unit is the largest one up to ``largest_ns`` that gives a time before the year 2200:
    Binance's files have microseconds since 2025, and milliseconds before.

    >>> time_ns_of("1700000000000", 1_000_000, 0), time_ns_of("1700000000000", 1_000_000, 1)
    (1700000000000000000, 1700000000000)
    """
    number = int(text) if text and text.isdecimal() and len(text) < 20 else -1
    unit_ns = declared_ns or largest_ns
    while not declared_ns and unit_ns > 1 and number * unit_ns > LATEST_NS:
        unit_ns //= 1_000
    if not 0 <= number * unit_ns <= LATEST_NS:
        raise RecordError(f"expected a time from 1970 to 2199, was {(text or '')[:100]!r}")
    return number * unit_ns


def _word(words: dict[str, str], name: str, text: str | None, unknown: str = "") -> _Side:
    word = words.get((text or "").lower(), unknown)
    if not word:
        raise RecordError(f"expected {name} out of {', '.join(words)}, was {text!r}")
    return "B" if word == "B" else "S"
