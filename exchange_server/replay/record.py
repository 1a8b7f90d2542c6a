"""Records of a recorded file: one by one, or as columns for code that reads a recording in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from exchange_server.errors import RecordError

__all__ = ["BATCH_RECORDS", "Record", "RecordColumns", "batched"]

BATCH_RECORDS: Final = 65_536
"""Number of records in a batch where the caller gives no other number."""

_INT64_MAX: Final = 2**63 - 1
_NUMBERS: Final = ("position", "time_ns", "order_id", "broker_id", "volume", "price_ticks", "new_id")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event of a recorded file."""

    position: int
    """Number, from 1, of the record's line, of its first byte or of the record itself; see `Loader.unit`."""
    time_ns: int
    """Time of the event in nanoseconds since the UTC epoch; never earlier than the previous record's."""
    order_id: int
    """Id of the order in the file."""
    broker_id: int
    """Broker of the order; derived from the id where the file names none."""
    action: str
    """Letter of the action, as in `exchange_server.matching.inputs.Recorded`."""
    volume: int
    """Number of lots."""
    price_ticks: int
    """Price in ticks; 0 where the action has no price of its own."""
    symbol: str
    """Symbol in the market."""
    new_id: int = 0
    """Id in the file of the order that replaces this order (U)."""


class RecordColumns(msgspec.Struct, frozen=True, gc=False):
    """Records in their order, one array per field; all arrays have the same length and are not to be written to.

    >>> columns = RecordColumns.from_records([Record(1, 10, 7, 7, "B", 5, 100, "ACME")])
    >>> columns.price_ticks.tolist(), chr(columns.action[0]), columns.symbols[columns.symbol[0]]
    ([100], 'B', 'ACME')
    """

    position: NDArray[np.int64]
    """Positions of the records in their file, as `Record.position`."""
    time_ns: NDArray[np.int64]
    """Times in nanoseconds since the UTC epoch, non-decreasing."""
    order_id: NDArray[np.int64]
    """Ids of the orders in the file."""
    broker_id: NDArray[np.int64]
    """Broker of the order."""
    action: NDArray[np.uint8]
    """ASCII code of the action's letter."""
    volume: NDArray[np.int64]
    """Numbers of lots."""
    price_ticks: NDArray[np.int64]
    """Prices in ticks; 0 where the action has no price of its own."""
    symbol: NDArray[np.int32]
    """Index into `symbols`."""
    new_id: NDArray[np.int64]
    """Id of the order that replaces `order_id` (U), otherwise 0."""
    symbols: tuple[str, ...]
    """Symbols of the records, and possibly others."""

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def from_records(cls, records: Iterable[Record], symbols: Sequence[str] = ()) -> RecordColumns:
        """Return all records as columns; ``symbols`` come first in `symbols`, in this order.

        Raise `RecordError` for a number that does not fit into 64 bits.
        """
        numbers: dict[str, int] = {symbol: place for place, symbol in enumerate(symbols)}
        rows = [msgspec.structs.astuple(record) for record in records]
        fields = list(zip(*rows, strict=True)) or [()] * 9
        position, time_ns, order_id, broker_id, action, volume, price_ticks, symbol, new_id = fields
        places = [numbers.setdefault(name, len(numbers)) for name in symbol]
        try:
            return cls(
                np.array(position, np.int64),
                np.array(time_ns, np.int64),
                np.array(order_id, np.int64),
                np.array(broker_id, np.int64),
                np.frombuffer("".join(action).encode("ascii"), np.uint8),
                np.array(volume, np.int64),
                np.array(price_ticks, np.int64),
                np.array(places, np.int32),
                np.array(new_id, np.int64),
                tuple(numbers),
            )
        except OverflowError:
            raise _too_large(rows) from None

    @classmethod
    def concatenated(cls, batches: Iterable[RecordColumns]) -> RecordColumns:
        """Return batches concatenated; without batches, no records."""
        parts = list(batches)
        if len(parts) == 1:
            return parts[0]
        symbols: dict[str, int] = {}
        places = []
        for part in parts:
            mapping = [symbols.setdefault(name, len(symbols)) for name in part.symbols]
            places.append(np.array(mapping, np.int32)[part.symbol])
        if not parts:
            return cls.from_records([])
        names = cls.__struct_fields__[:-1]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names if name != "symbol"
        }
        return cls(**columns, symbol=np.concatenate(places), symbols=tuple(symbols))

    def sliced(self, begin: int, end: int) -> RecordColumns:
        """Return the records from ``begin`` to before ``end``, without a copy."""
        columns: dict[str, Any] = {name: getattr(self, name)[begin:end] for name in self.__struct_fields__[:-1]}
        return RecordColumns(**columns, symbols=self.symbols)

    def chosen(self, mask: NDArray[np.bool_]) -> RecordColumns:
        """Return the records at which ``mask`` is true."""
        columns: dict[str, Any] = {name: getattr(self, name)[mask] for name in self.__struct_fields__[:-1]}
        return RecordColumns(**columns, symbols=self.symbols)

    def records(self) -> Iterator[Record]:
        """Yield the rows as records."""
        letters = [chr(code) for code in range(128)]
        symbols = self.symbols
        for begin in range(0, len(self), BATCH_RECORDS):
            part = self.sliced(begin, begin + BATCH_RECORDS)
            for position, time_ns, order_id, broker_id, action, volume, price_ticks, symbol, new_id in zip(
                *(getattr(part, name).tolist() for name in part.__struct_fields__[:-1]), strict=True
            ):
                yield Record(
                    position, time_ns, order_id, broker_id, letters[action], volume, price_ticks, symbols[symbol],
                    new_id,
                )  # fmt: skip


def batched(records: Iterable[Record], symbols: Sequence[str], rows: int) -> Iterator[RecordColumns]:
    """Yield records as columns, ``rows`` rows at a time."""
    iterator = iter(records)
    while part := list(islice(iterator, rows)):
        yield RecordColumns.from_records(part, symbols)


def _too_large(rows: Sequence[tuple[Any, ...]]) -> RecordError:
    for row in rows:
        fields = dict(zip(("position", "time_ns", "order_id", "broker_id", "action", "volume", "price_ticks", "symbol",
                           "new_id"), row, strict=True))  # fmt: skip
        for name in _NUMBERS:
            if not -_INT64_MAX - 1 <= fields[name] <= _INT64_MAX:
                return RecordError(f"expected {name} of 64 bits, was {fields[name]}, at record {fields['position']}")
    raise AssertionError
