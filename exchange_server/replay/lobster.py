"""LOBSTER's message files: ``time,type,id,size,price,direction``, no header, prices in 1/10,000.

Huang and Polak, *LOBSTER: Limit Order Book Reconstruction System* (2011); https://lobsterdata.com/info/DataStructure.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, NamedTuple

from deltabook.wire.itch import broker_of
from exchange_server.errors import RecordError, ReplayFileError
from exchange_server.replay._lobster_book import BookChange, BookFigures, BookFollower, parse_book_line
from exchange_server.replay.days import day_of_name, midnight_ns
from exchange_server.replay.loader import BROKERS, INT64_MAX, LineLoader, open_recorded
from exchange_server.replay.record import Record

__all__ = ["LobsterLoader"]

_LINE: Final = re.compile(
    rb"(\d{1,5})(?:\.(\d{1,9}))?,([1-7]),(-?\d{1,19}),(-?\d{1,19}),(-?\d{1,19}),(1|-1)(?:,(\w*))?\r?\n?"
)
_ACTIONS: Final = {b"2": "X", b"3": "D", b"4": "E", b"5": "T", b"6": "T"}
_HALT: Final = b"7"
_LAST_SECOND: Final = 86_400
"""A leap second's, at most."""


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

    7, a trading halt, is left out: what did and did not happen around it is in the records. Files begin with orders in
    the book that they do not have; what becomes of those changes nothing and is counted by the market. The day is that
    of the file's name unless it is given. The participant that newer files have as their seventh field is the broker.

    With ``orderbook``, the order book file of the same messages, stale orders are deleted and volume that no message
    announced is added where that file shows it (`exchange_server.replay._lobster_book`). A position is then a record's
    number, because one line may become several records.
    """

    def __init__(self, path: Path, symbol: str, *, day: str = "", orderbook: Path | None = None) -> None:
        """Raises `ExchangeConfigurationError` for a day that is none."""
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
        """Each line's number with its message, None of a halt and of a line that cannot be used."""
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
            time_ns = max(time_ns, day_ns + int(seconds) * 1_000_000_000 + nanoseconds)
            side: Literal["B", "S"] = "B" if direction == b"1" else "S"
            action = side if kind == b"1" else _ACTIONS[kind]
            broker_id = broker_of(participant.decode()) if participant else None
            if broker_id is None:
                broker_id = order_id % BROKERS
            yield number, _Message(time_ns, action, order_id, volume, price, side, broker_id)

    def _mended(self, lines: Iterator[tuple[int, bytes]], orderbook: Path) -> Iterator[Record]:
        follower = self._follower = BookFollower()
        position, symbol = 0, self.symbol
        with open_recorded(orderbook) as book:
            for number, message in self._messages(lines):
                line = book.readline()
                if not line:
                    raise ReplayFileError(
                        f"expected an order book file with a line for each of {self.path.name}, "
                        f"was one of {number - 1} lines, at {orderbook}"
                    )
                row = parse_book_line(line, f"line {number} of {orderbook}")
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
            if book.readline():
                raise ReplayFileError(
                    f"expected an order book file with a line for each of {self.path.name}, was one with more, "
                    f"at {orderbook}"
                )
