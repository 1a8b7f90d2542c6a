"""LOBSTER's message files: ``time,type,id,size,price,direction``, no header, prices in 1/10,000.

Huang and Polak, *LOBSTER: Limit Order Book Reconstruction System* (2011); https://lobsterdata.com/info/DataStructure.php
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deltabook.wire.attribution import broker_of
from exchange_server.errors import RecordError
from exchange_server.replay.days import day_of_name, midnight_ns
from exchange_server.replay.record import BROKERS, INT64_MAX, LineLoader, Record

__all__ = ["LobsterLoader"]

_LINE: Final = re.compile(
    rb"(\d{1,5})(?:\.(\d{1,9}))?,([1-7]),(-?\d{1,19}),(-?\d{1,19}),(-?\d{1,19}),(1|-1)(?:,(\w*))?\r?\n?"
)
_ACTIONS: Final = {b"2": "X", b"3": "D", b"4": "E", b"5": "T", b"6": "T"}
_HALT: Final = b"7"


class LobsterLoader(LineLoader):
    """Records of one stock's day: 1 becomes B or S, 2 X, 3 D, 4 E, 5 (hidden) and 6 (cross) T.

    7, a trading halt, is left out: what did and did not happen around it is in the records. Files begin with orders in
    the book that they do not have; what becomes of those changes nothing and is counted by the market. The day is that
    of the file's name unless it is given. The participant that newer files have as their seventh field is the broker.
    """

    def __init__(self, path: Path, symbol: str, *, day: str = "") -> None:
        """Raises `ExchangeConfigurationError` for a day that is none."""
        super().__init__(path, symbol)
        self._day_ns = midnight_ns(day or day_of_name(path))

    def _parse(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
        time_ns, day_ns, symbol, match = 0, self._day_ns, self.symbol, _LINE.fullmatch
        for number, line in lines:
            found = match(line)
            if found is None:
                expected = "time,type,id,size,price,direction"
                self._bad(number, RecordError(f"expected {expected}, was {line[:100]!r}"))
                continue
            seconds, fraction, kind, id_text, size_text, price_text, direction, participant = found.groups()
            if kind == _HALT:
                self.skipped += 1
                continue
            order_id, volume, price = int(id_text), int(size_text), int(price_text)
            if not (-1 <= order_id <= INT64_MAX and 0 < volume <= INT64_MAX and 0 < price <= INT64_MAX):
                self._bad(
                    number, RecordError(f"expected an id, a size and a price above 0, was {line[:100]!r}")
                )  # fmt: skip
                continue
            nanoseconds = int(fraction.ljust(9, b"0")) if fraction else 0
            time_ns = max(time_ns, day_ns + int(seconds) * 1_000_000_000 + nanoseconds)
            action = ("B" if direction == b"1" else "S") if kind == b"1" else _ACTIONS[kind]
            broker_id = broker_of(participant.decode()) if participant else None
            if broker_id is None:
                broker_id = order_id % BROKERS
            yield Record(number, time_ns, order_id, broker_id, action, volume, price, symbol)
