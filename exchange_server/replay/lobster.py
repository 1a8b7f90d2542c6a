"""LOBSTER's message files: ``time,type,id,size,price,direction``, no header, prices in 1/10,000.

Huang and Polak, *LOBSTER: Limit Order Book Reconstruction System* (2011); https://lobsterdata.com/info/DataStructure.php

A message file of N levels has the events of the best N levels only. An order whose price leaves these levels may be
deleted unseen, and an order placed behind them is never announced. The order book file has the true levels after every
message, so both kinds of orders are detected as soon as their price is among the N best again:

* an order at a price that the file does not show, or beyond the volume that it shows, is *stale* and is deleted;
* volume that the file shows and no message announced is *unannounced*: a synthetic order takes its place. Later
  messages about unknown orders at that price are applied to the synthetic order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from sortedcontainers import SortedDict

from deltabook.wire.itch import broker_of
from exchange_server.errors import RecordError, ReplayFileError
from exchange_server.replay.files import READ_ERRORS, open_recorded
from exchange_server.replay.loader import BROKERS, INT64_MAX, LineLoader, day_of_name, midnight_ns
from exchange_server.replay.record import Record

__all__ = ["BookChange", "BookFigures", "BookFollower", "LobsterLoader", "parse_book_line"]

SYNTHETIC_IDS: Final = 9 * 10**16
"""First id of synthetic orders: above LOBSTER's ids, below those of live orders beside an as-recorded replay."""

_NO_LEVEL: Final = 9_999_999_999
"""Price, or its negative, of an empty level."""

_BOOK_LINE: Final = re.compile(rb"-?\d{1,19}(?:,-?\d{1,19})*\r?\n?")

_Side = Literal["B", "S"]


class BookRow(NamedTuple):
    """The best levels after one message."""

    bids: dict[int, int]
    """Price → volume, the best price first."""
    asks: dict[int, int]
    """Price → volume, the best price first."""
    levels: int
    """Number of levels of a side in the file; a side with fewer is complete."""


class BookChange(NamedTuple):
    """Change of the book by one record; the fields are those of a `Record`."""

    action: str
    """Action of the record: B or S, E, X, D."""
    order_id: int
    """Id of the order."""
    volume: int
    """Number of lots."""
    price_ticks: int
    """Price of an added order in ticks, otherwise 0."""


class BookFigures(msgspec.Struct, frozen=True):
    """Comparison of the book built from messages with the order book file, row by row."""

    rows: int
    """Number of rows compared: all messages that can be read."""
    agreed: int
    """Number of rows with the same best prices and volumes on both sides before any correction."""
    stale: int
    """Number of other rows in which a best price of the messages had an order that was superfluous or too large."""
    unannounced: int
    """Number of other rows in which a best price of the file had volume that no message announced."""
    purged_orders: int
    """Number of stale orders that were deleted or reduced."""
    added_orders: int
    """Number of synthetic orders that were added."""
    contradictions: int
    """Number of orders reduced although they were among the best levels all the time: file and messages contradict each
    other.
    """


def parse_book_line(line: bytes, place: str, levels: int = 0) -> BookRow:
    """Return one line of an order book file; raise `ReplayFileError` with the place for an invalid line.

    ``levels`` is the number of levels that the line must have, 0 for any.
    """
    numbers = list(map(int, line.split(b","))) if _BOOK_LINE.fullmatch(line) else []
    if not numbers or len(numbers) % 4 or min(numbers[1::2]) < 0:
        raise ReplayFileError(
            f"expected ask price, ask size, bid price, bid size for each level, was {line[:100]!r}, at {place}"
        )
    if levels and len(numbers) != 4 * levels:
        raise ReplayFileError(
            f"expected {levels} levels as in the first line, was {len(numbers) // 4} in {line[:100]!r}, at {place}"
        )
    if max(numbers) > INT64_MAX:
        raise ReplayFileError(f"expected numbers of 64 bits, was {max(numbers)}, at {place}")
    asks = _side_of(numbers[0::4], numbers[1::4])
    bids = _side_of(numbers[2::4], numbers[3::4])
    ask_prices, bid_prices = [price for price, _ in asks], [price for price, _ in bids]
    if ask_prices != sorted(set(ask_prices)) or bid_prices != sorted(set(bid_prices), reverse=True):
        raise ReplayFileError(f"expected each side's levels from the best price on, was {line[:100]!r}, at {place}")
    return BookRow(dict(bids), dict(asks), len(numbers) // 4)


def _side_of(prices: list[int], volumes: list[int]) -> list[tuple[int, int]]:
    """Return price and volume of the levels that are not empty."""
    return [(p, v) for p, v in zip(prices, volumes, strict=True) if 0 < p < _NO_LEVEL and v > 0]


class _HalfBook:
    """Orders of one side by price, in the order of their arrival."""

    def __init__(self, side: _Side) -> None:
        self.side: _Side = side
        self.sign = -1 if side == "B" else 1
        self.levels: SortedDict[int, dict[int, int]] = SortedDict()
        """Price × sign → order → volume; the best price is first."""
        self.hidden: set[int] = set()
        """Orders whose price was once behind the shown levels."""
        self.shown_to = 0
        """Price × sign of the last shown level of the previous row, 0 at the beginning."""

    def add(self, order_id: int, price: int, volume: int) -> None:
        key = price * self.sign
        self.levels.setdefault(key, {})[order_id] = volume
        if self.shown_to and key > self.shown_to:
            self.hidden.add(order_id)

    def leave(self, order_id: int, price: int, volume: int) -> None:
        """Set the remaining lots of an order; remove the order at 0."""
        level = self.levels[price * self.sign]
        if volume > 0:
            level[order_id] = volume
            return
        del level[order_id]
        self.hidden.discard(order_id)
        if not level:
            del self.levels[price * self.sign]

    def touch(self) -> tuple[int, int]:
        """Return the best price and its volume; zeros for an empty side."""
        if not self.levels:
            return 0, 0
        key, level = self.levels.peekitem(0)
        return key * self.sign, sum(level.values())

    def hide(self, shown: dict[int, int], levels: int) -> int | None:
        """Note the orders now behind the shown levels; return the last shown key, None where all levels are shown."""
        if len(shown) < levels:
            self.shown_to = 0
            return None
        last = next(reversed(shown)) * self.sign
        newly = self.levels.irange(last, self.shown_to or None, inclusive=(False, True))
        for key in newly:
            self.hidden.update(self.levels[key])
        self.shown_to = last
        return last


class BookFollower:
    """Corrects the book of a message file by the order book file."""

    def __init__(self) -> None:
        self._sides: dict[_Side, _HalfBook] = {"B": _HalfBook("B"), "S": _HalfBook("S")}
        self._orders: dict[int, tuple[_Side, int]] = {}
        self._synthetic: dict[tuple[_Side, int], list[int]] = {}
        self._next_id = SYNTHETIC_IDS
        self._rows = self._agreed = self._stale = self._unannounced = 0
        self._purged = self._added = self._contradictions = 0

    @property
    def figures(self) -> BookFigures:
        """Figures so far."""
        return BookFigures(
            self._rows, self._agreed, self._stale, self._unannounced, self._purged, self._added, self._contradictions
        )

    def step(self, row: BookRow, change: BookChange | None, side: _Side, price: int) -> Iterator[BookChange]:
        """Yield the changes to replay for one message: deletions of stale orders, the message, synthetic orders.

        ``change`` is the message, None if it changes no order; ``side`` and ``price`` are the message's.
        """
        events = list(self._apply(change, side, price)) if change is not None else []
        self._compare(row)
        purges: list[BookChange] = []
        additions: list[BookChange] = []
        for book, shown in ((self._sides["B"], row.bids), (self._sides["S"], row.asks)):
            self._correct(book, shown, row.levels, purges, additions)
        yield from purges
        yield from events
        yield from additions

    def _apply(self, change: BookChange, side: _Side, price: int) -> Iterator[BookChange]:
        action, order_id, volume, _ = change
        if action in {"B", "S"}:
            if order_id in self._orders:
                yield BookChange("D", order_id, 0, 0)
                self._set(order_id, 0)
            self._add(order_id, side, price, volume)
            yield change
        elif order_id in self._orders:
            left = 0 if action == "D" else self._volume(order_id) - volume
            self._set(order_id, left)
            yield change if left > 0 or action != "X" else BookChange("D", order_id, 0, 0)
        else:
            yield from self._apply_unknown(change, side, price)

    def _apply_unknown(self, change: BookChange, side: _Side, price: int) -> Iterator[BookChange]:
        """Apply a message about an unknown order to the synthetic orders at its price."""
        wanted = change.volume
        for order_id in tuple(self._synthetic.get((side, price), ())):
            before = self._volume(order_id)
            taken = min(wanted, before)
            self._set(order_id, before - taken)
            if change.action == "E":
                yield BookChange("E", order_id, taken, 0)
            elif taken < before:
                yield BookChange("X", order_id, taken, 0)
            else:
                yield BookChange("D", order_id, 0, 0)
            wanted -= taken
            if not wanted:
                return
        yield change._replace(volume=wanted)

    def _compare(self, row: BookRow) -> None:
        self._rows += 1
        stale = unannounced = False
        for book, shown in ((self._sides["B"], row.bids), (self._sides["S"], row.asks)):
            price, volume = book.touch()
            true_price = next(iter(shown), 0)
            true_volume = shown.get(true_price, 0)
            if (price, volume) == (true_price, true_volume):
                continue
            is_better = price and (not true_price or price * book.sign < true_price * book.sign)
            if is_better or (price == true_price and volume > true_volume):
                stale = True
            else:
                unannounced = True
        self._stale += stale
        self._unannounced += unannounced and not stale
        self._agreed += not (stale or unannounced)

    def _correct(
        self,
        book: _HalfBook,
        shown: dict[int, int],
        levels: int,
        purges: list[BookChange],
        additions: list[BookChange],
    ) -> None:
        last = book.hide(shown, levels)
        for key in list(book.levels.irange(None, last)):
            price = key * book.sign
            excess = sum(book.levels[key].values()) - shown.get(price, 0)
            if excess > 0:
                purges += self._purge(book, price, excess)
        for price, volume in shown.items():
            missing = volume - sum(book.levels.get(price * book.sign, {}).values())
            if missing > 0:
                order_id = self._next_id
                self._next_id += 1
                self._add(order_id, book.side, price, missing)
                self._synthetic.setdefault((book.side, price), []).append(order_id)
                self._added += 1
                additions.append(BookChange(book.side, order_id, missing, price))

    def _purge(self, book: _HalfBook, price: int, excess: int) -> Iterable[BookChange]:
        """Remove ``excess`` lots: first of orders that were hidden, then of synthetic orders, then of the oldest
        orders.
        """
        level = book.levels[price * book.sign]
        is_hidden, is_synthetic = book.hidden.__contains__, SYNTHETIC_IDS.__le__
        ranked = sorted(level, key=lambda order_id: 0 if is_hidden(order_id) else 1 if is_synthetic(order_id) else 2)
        for order_id in ranked:
            volume = level[order_id]
            taken = min(volume, excess)
            self._purged += 1
            self._contradictions += not (is_hidden(order_id) or is_synthetic(order_id))
            self._set(order_id, volume - taken)
            yield BookChange("X", order_id, taken, 0) if taken < volume else BookChange("D", order_id, 0, 0)
            excess -= taken
            if not excess:
                return

    def _add(self, order_id: int, side: _Side, price: int, volume: int) -> None:
        self._orders[order_id] = (side, price)
        self._sides[side].add(order_id, price, volume)

    def _volume(self, order_id: int) -> int:
        side, price = self._orders[order_id]
        book = self._sides[side]
        level: dict[int, int] = book.levels[price * book.sign]
        return level[order_id]

    def _set(self, order_id: int, volume: int) -> None:
        side, price = self._orders[order_id]
        self._sides[side].leave(order_id, price, volume)
        if volume <= 0:
            del self._orders[order_id]
            if order_id >= SYNTHETIC_IDS:
                others = self._synthetic[side, price]
                others.remove(order_id)
                if not others:
                    del self._synthetic[side, price]


_LINE: Final = re.compile(
    rb"(\d{1,5})(?:\.(\d{1,9}))?,([1-7]),(-?\d{1,19}),(-?\d{1,19}),(-?\d{1,19}),(1|-1)(?:,(\w*))?\r?\n?"
)
_ACTIONS: Final = {b"2": "X", b"3": "D", b"4": "E", b"5": "T", b"6": "T"}
_HALT: Final = b"7"
_LAST_SECOND: Final = 86_400
"""Largest second of a day, that of a leap second."""


class _Message(NamedTuple):
    time_ns: int
    action: str
    order_id: int
    volume: int
    price: int
    side: Literal["B", "S"]
    broker_id: int


class LobsterLoader(LineLoader):
    """Records of one stock's day: 1 becomes B or S, 2 X, 3 D, 4 E, 5 (hidden) and 6 (cross) T.

    7, a trading halt, is left out: its effect is visible in the records. At the beginning of a file the book has orders
    that the file does not contain; records of those orders change nothing and are counted by the market. The day is
    taken from the file's name unless it is given. The participant that newer files have as their seventh field is the
    broker.

    ``orderbook`` is the order book file of the same messages. With this file, stale orders are deleted, and volume that
    the file shows and no message announced is added (`exchange_server.replay.lobster`). A position is then a record's
    number, because one line may become several records.
    """

    def __init__(self, path: Path, symbol: str, *, day: str = "", orderbook: Path | None = None) -> None:
        """Open a file; raise `ExchangeConfigurationError` for an invalid day."""
        super().__init__(path, symbol)
        self._day_ns = midnight_ns(day or day_of_name(path))
        self._orderbook = orderbook
        self._follower: BookFollower | None = None
        if orderbook is not None:
            self.unit = "record"

    @property
    def book_figures(self) -> BookFigures | None:
        """Comparison of the messages so far with the order book file; None without one."""
        return self._follower.figures if self._follower is not None else None

    def _parse(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
        if self._orderbook is not None:
            yield from self._mended(lines, self._orderbook)
            return
        symbol = self.symbol
        for number, message in self._messages(lines):
            if message is not None:
                time_ns, action, order_id, volume, price, _, broker_id = message
                yield Record(number, time_ns, order_id, broker_id, action, volume, price, symbol)

    def _messages(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, _Message | None]]:
        """Yield each line's number with its message, None for a halt and for an unusable line."""
        time_ns, day_ns, match = 0, self._day_ns, _LINE.fullmatch
        for number, line in lines:
            matched = match(line)
            if matched is None:
                expected = "time,type,id,size,price,direction"
                self._bad(number, RecordError(f"expected {expected}, was {line[:100]!r}"))
                yield number, None
                continue
            seconds, fraction, kind, id_text, size_text, price_text, direction, participant = matched.groups()
            if kind == _HALT:
                self.skipped += 1
                yield number, None
                continue
            order_id, volume, price = int(id_text), int(size_text), int(price_text)
            if not (-1 <= order_id <= INT64_MAX and 0 < volume <= INT64_MAX and 0 < price <= INT64_MAX):
                self._bad(
                    number, RecordError(f"expected an id, a size and a price above 0, was {line[:100]!r}")
                )  # fmt: skip
                yield number, None
                continue
            if int(seconds) > _LAST_SECOND:
                self._bad(number, RecordError(f"expected a time within the day, was {line[:100]!r}"))
                yield number, None
                continue
            nanoseconds = int(fraction.ljust(9, b"0")) if fraction else 0
            time_ns = self._in_order(day_ns + int(seconds) * 1_000_000_000 + nanoseconds, time_ns)
            side: Literal["B", "S"] = "B" if direction == b"1" else "S"
            action = side if kind == b"1" else _ACTIONS[kind]
            broker_id = broker_of(participant.decode()) if participant else None
            if broker_id is None:
                broker_id = order_id % BROKERS
            yield number, _Message(time_ns, action, order_id, volume, price, side, broker_id)

    def _mended(self, lines: Iterator[tuple[int, bytes]], orderbook: Path) -> Iterator[Record]:
        self._warn_if_cut(orderbook)
        follower = self._follower = BookFollower()
        position, symbol, levels = 0, self.symbol, 0
        book = _lines_of(orderbook)
        for number, message in self._messages(lines):
            line = next(book, b"")
            if not line:
                raise ReplayFileError(
                    f"expected an order book file with a line for each of {self.path.name}, "
                    f"was one of {number - 1} lines, at {orderbook}"
                )
            row = parse_book_line(line, f"line {number} of {orderbook}", levels)
            levels = row.levels
            if message is None:
                continue
            time_ns, action, order_id, volume, price, side, broker_id = message
            if action == "T":
                position += 1
                yield Record(position, time_ns, order_id, broker_id, action, volume, price, symbol)
            change = None if action == "T" else BookChange(action, order_id, volume, price)
            for each in follower.step(row, change, side, price):
                position += 1
                broker = broker_id if each.order_id == order_id else each.order_id % BROKERS
                yield Record(
                    position, time_ns, each.order_id, broker, each.action, each.volume, each.price_ticks, symbol
                )
        if next(book, b""):
            raise ReplayFileError(
                f"expected an order book file with a line for each of {self.path.name}, was one with more, "
                f"at {orderbook}"
            )


def _lines_of(orderbook: Path) -> Iterator[bytes]:
    """Yield the lines of an order book file; raise `ReplayFileError`, with its path, if it cannot be read."""
    try:
        with open_recorded(orderbook) as book:
            yield from book
    except ReplayFileError:
        raise
    except READ_ERRORS as error:
        raise ReplayFileError(f"expected a readable file, was {error}, at {orderbook}") from error
