"""The list of own trades: a spool that grows with every fill, and a CSV or Parquet file of it at any moment.

The spool is one line a fill, numbered by the private stream. After a crash it may be ahead of or behind the journal of
orders; a fill whose number it already holds is not written again, and one that it lacks comes again from the journal
or from the exchange, because the journal only forgets a fill (by compaction) after the spool is on disk.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from algo_engine.errors import JournalDamaged
from algo_engine.order import OrderEvent

__all__ = [
    "SPOOL",
    "TRADE_COLUMNS",
    "FileSpool",
    "MemorySpool",
    "Trade",
    "TradeSpool",
    "read_trades",
    "trade_of",
    "write_trades",
]

SPOOL: Final = "trades.spool"
"""File of a strategy's trades, in its folder."""
_ROWS_AT_ONCE: Final = 65_536


class Trade(msgspec.Struct, frozen=True, gc=False):
    """One own trade, a row of the list."""

    time_ns: int
    """Market time."""
    sequence: int
    """Position in the broker's private stream."""
    strategy: str
    """Name of the strategy that traded."""
    broker_id: int
    """As which broker."""
    symbol: str
    """Instrument."""
    side: str
    """B or S."""
    volume_lots: int
    """Executed."""
    price_ticks: int
    """Its price."""
    order_id: int
    """The exchange's number of the order."""
    client_id: int
    """Our own number of it."""
    liquidity: str
    """maker, taker or cross."""
    fee: int
    """Ticks × lots."""


TRADE_COLUMNS: Final = Trade.__struct_fields__


class TradeSpool(Protocol):
    """Sink of fills."""

    def add(self, event: OrderEvent) -> None:
        """Enter one fill; one that is held already is ignored. Raises `OSError`."""
        ...

    def sync(self) -> None:
        """Return when all fills survive a crash."""
        ...

    def close(self) -> None:
        """Make all fills durable and let go."""
        ...


class MemorySpool:
    """Fills in memory, for backtests."""

    def __init__(self) -> None:
        self.fills: list[OrderEvent] = []

    def add(self, event: OrderEvent) -> None:
        """See `TradeSpool.add`."""
        if not self.fills or event.sequence > self.fills[-1].sequence:
            self.fills.append(event)

    def sync(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class FileSpool:
    """Fills of one strategy in one file; each is there for other processes to read as soon as it is entered."""

    def __init__(self, path: Path, strategy: str, broker_id: int) -> None:
        """Raises `JournalDamaged` for a file of another form."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._strategy, self._broker_id = strategy, broker_id
        self._last, end = _last_line(path)
        # Unbuffered: fills are few, and a reader of the list of trades wants to see the latest.
        self._file: IO[bytes] = path.open("r+b" if path.exists() else "wb", buffering=0)
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, event: OrderEvent) -> None:
        """See `TradeSpool.add`."""
        if event.sequence <= self._last:
            return
        line = _line(trade_of(event, self._strategy, self._broker_id)).encode()
        written = self._file.write(line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"expected {len(line)} bytes of a trade to be written, was {written}")
        self._last = event.sequence

    def sync(self) -> None:
        """See `TradeSpool.sync`."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """See `TradeSpool.close`."""
        self.sync()
        self._file.close()


def _last_line(path: Path) -> tuple[int, int]:
    """Number of the last whole line of a spool, and where that line ends."""
    last = end = 0
    if path.exists():
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                if line.count(b",") != len(TRADE_COLUMNS) - 1:
                    raise JournalDamaged(f"expected {len(TRADE_COLUMNS)} fields in a line of {path}, was {line[:80]!r}")
                last, end = int(line.split(b",", 2)[1]), end + len(line)
    return last, end


def read_trades(spools: Iterable[Path]) -> Iterator[Trade]:
    """Trades of several spools by time; a line that is being written is left out."""
    return merge(*(_trades(spool) for spool in spools if spool.exists()), key=lambda trade: trade.time_ns)


def _trades(spool: Path) -> Iterator[Trade]:
    with spool.open(encoding="utf-8") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(",")
            if not line.endswith("\n"):
                return
            if len(fields) != len(TRADE_COLUMNS):
                raise JournalDamaged(f"expected {len(TRADE_COLUMNS)} fields in a line of {spool}, was {line[:80]!r}")
            yield msgspec.convert(dict(zip(TRADE_COLUMNS, fields, strict=True)), Trade, strict=False)


def trade_of(event: OrderEvent, strategy: str, broker_id: int) -> Trade:
    """The row of one fill."""
    order = event.order
    return Trade(
        time_ns=event.time_ns,
        sequence=event.sequence,
        strategy=strategy,
        broker_id=broker_id,
        symbol=order.symbol,
        side=str(order.side),
        volume_lots=event.volume_lots,
        price_ticks=event.price_ticks,
        order_id=order.order_id,
        client_id=order.client_id,
        liquidity=event.reason,
        fee=event.fee,
    )


def write_trades(path: Path, trades: Iterable[Trade]) -> int:
    """Write trades to a CSV file with a header or, if that is how its name ends, to a Parquet file.

    The file takes the place of an older one at the end, as a whole. Returns the number of trades.
    """
    hidden = path.with_name(path.name + ".new")
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    count = write(hidden, iter(trades))
    hidden.rename(path)
    return count


def _line(trade: Trade) -> str:
    return ",".join(map(str, msgspec.structs.astuple(trade))) + "\n"


def _write_csv(path: Path, trades: Iterator[Trade]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as out:
        out.write(",".join(TRADE_COLUMNS) + "\n")
        for trade in trades:
            out.write(_line(trade))
            count += 1
    return count


def _write_parquet(path: Path, trades: Iterator[Trade]) -> int:
    types = {int: pa.int64(), str: pa.string()}
    schema = pa.schema([(field.name, types[field.type]) for field in msgspec.structs.fields(Trade)])
    count = 0
    with pq.ParquetWriter(path, schema) as out:
        while rows := [msgspec.structs.astuple(trade) for trade in islice(trades, _ROWS_AT_ONCE)]:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            out.write_batch(pa.record_batch(arrays, schema))
            count += len(rows)
    return count
