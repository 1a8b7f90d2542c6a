"""Bitstamp's order-level events in the format of the package ob-analytics (csv or csv.gz with a header)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from functools import lru_cache
from pathlib import Path
from typing import Final

from exchange_server.errors import RecordError, ReplayFileError
from exchange_server.matching.inputs import REMAIN
from exchange_server.replay.loader import BROKERS, INT64_MAX, LATEST_NS, LineLoader
from exchange_server.replay.record import Record

__all__ = ["HEADER", "BitstampLoader", "decimal_converter", "is_header"]

HEADER: Final = "id,timestamp,exchange_timestamp,price,volume,action,direction"

_FIELDS: Final = HEADER.split(",")
_SATOSHI_TIME: Final = "exchange.timestamp"
"""Name of the exchange's time column in captures of the R package obAnalytics, whose volumes are whole satoshi."""
_SIDES: Final = {"bid": "B", "ask": "S"}
_NUMBER: Final = re.compile(r" {0,8}[+-]?(?=\.?[0-9])[0-9]{0,60}\.?[0-9]{0,60}(?:[eE][+-]?[0-9]{1,3})? {0,8}", re.ASCII)
_LARGEST: Final = Decimal(10**60)
_EXACT: Final = Context(prec=2_000)
"""Context in which numbers of `_NUMBER` below `_LARGEST` are divided without a rounding."""
_KEPT_NUMBERS: Final = 1 << 16
"""Largest number of cached conversions of decimals to ticks or lots: most orders share price and volume with many
others.
"""


def is_header(line: str) -> bool:
    """Return True if a line names the columns of such a capture, in any order, with or without quotes."""
    names = [name.strip().strip('"') for name in line.split(",")]
    return sorted("exchange_timestamp" if name == _SATOSHI_TIME else name for name in names if name) == sorted(_FIELDS)


class BitstampLoader(LineLoader):
    """Records of ``created`` (B or S), ``changed`` (`REMAIN`) and ``deleted`` (D, or `REMAIN` of 0 for a volume of 0).

    Numbers are converted exactly. Such captures have peculiarities:

    * The time steps back after the snapshot at the start: times are clamped.
    * The price of ``changed`` is that of the execution: it is ignored.
    * At its end the capture deletes all orders. These deletions are left out: their two times are equal, whereas a
      real event is captured later than it happens at the exchange.
    * Some prices are outliers: the market decides about them, since it knows the mid.

    Files of the R package obAnalytics are recognised by the name ``exchange.timestamp`` of a column. Their volumes are
    whole numbers of satoshi, and the action ``modified`` is the same as ``changed``. Columns may be in any order, in
    quotes, and after row names.
    """

    def __init__(self, path: Path, symbol: str, *, tick_size: str = "0.01", lot_size: str = "0.00000001") -> None:
        super().__init__(path, symbol)
        self._ticks = decimal_converter("price", Decimal(tick_size))
        self._lots = decimal_converter("volume", Decimal(lot_size))
        self._satoshi = decimal_converter("volume in satoshi", Decimal(lot_size) * 100_000_000)

    def _parse(self, lines: Iterator[tuple[int, bytes]]) -> Iterator[Record]:
        _, header = next(lines, (0, b""))
        text = header.decode("ascii", "replace").rstrip("\r\n")
        if not is_header(text):
            raise ReplayFileError(f"expected the header {HEADER}, was {header[:100]!r}, at {self.path}")
        names = [name.strip().strip('"') for name in text.split(",")]
        lots = self._satoshi if _SATOSHI_TIME in names else self._lots
        names = ["exchange_timestamp" if name == _SATOSHI_TIME else name for name in names]
        order = [names.index(name) for name in _FIELDS]
        is_plain, count = names == _FIELDS and b'"' not in header, len(names)
        deletes: list[Record] = []
        deletes_time = ""
        latest_ns = 0
        for number, line in lines:
            fields = line.decode("ascii", "replace").rstrip("\r\n").split(",")
            try:
                if len(fields) != count:
                    raise RecordError(f"expected {count} fields {text}, was {len(fields)}")
                if not is_plain:
                    fields = [fields[place].strip().strip('"') for place in order]
                record = self._record(number, fields, latest_ns, lots)
            except RecordError as error:
                self._bad(number, error)
                continue
            latest_ns = record.time_ns
            # A run of deletes that may be the artificial end is held back until another record follows.
            synthetic = fields[5] == "deleted" and fields[1] == fields[2]
            if deletes and (not synthetic or fields[1] != deletes_time):
                yield from deletes
                deletes = []
            if synthetic:
                deletes.append(record)
                deletes_time = fields[1]
            else:
                yield record
        self.skipped += len(deletes)

    def _record(self, number: int, fields: list[str], latest_ns: int, lots: Callable[[str], int]) -> Record:
        order_id, time_ms = _integer("id", fields[0]), _integer("timestamp", fields[1])
        volume = lots(fields[4])
        side = _SIDES.get(fields[6])
        if side is None:
            raise RecordError(f"expected direction bid or ask, was {fields[6]!r}")
        price_ticks = 0
        event = fields[5]
        if event == "created":
            action, price_ticks = side, self._ticks(fields[3])
        elif event in {"changed", "modified"}:
            action = REMAIN
        elif event == "deleted":
            action = "D" if volume else REMAIN
        else:
            raise RecordError(f"expected action created, changed, modified or deleted, was {event!r}")
        if time_ms * 1_000_000 > LATEST_NS:
            raise RecordError(f"expected a time before the year 2200 in milliseconds, was {time_ms}")
        time_ns = self._in_order(time_ms * 1_000_000, latest_ns)
        return Record(number, time_ns, order_id, order_id % BROKERS, action, volume, price_ticks, self.symbol)


def _integer(name: str, text: str) -> int:
    value = int(text) if text.isdecimal() and len(text) < 20 else -1
    if not 0 <= value <= INT64_MAX:
        raise RecordError(f"expected {name} to be an integer from 0 to {INT64_MAX}, was {text[:100]!r}")
    return value


def decimal_converter(name: str, unit: Decimal) -> Callable[[str], int]:
    """Return a function that converts a decimal to a number of units exactly."""

    @lru_cache(_KEPT_NUMBERS)
    def units(text: str) -> int:
        # Decimal would also accept digits of other alphabets, underscores, NaN, and exponents of millions of digits.
        if _NUMBER.fullmatch(text) is None:
            raise RecordError(f"expected {name} to be a number, was {text[:100]!r}")
        number = Decimal(text)
        if not 0 <= number <= _LARGEST:
            raise RecordError(f"expected {name} to be from 0 to {INT64_MAX} times {unit}, was {text[:100]!r}")
        quotient, rest = _EXACT.divmod(number, unit)
        if rest or quotient > INT64_MAX:
            raise RecordError(f"expected {name} to be a whole number of {unit}, was {text[:100]!r}")
        return int(quotient)

    return units
