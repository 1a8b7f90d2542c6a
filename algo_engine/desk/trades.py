"""The list of own trades: a spool that grows with every fill, and a CSV or Parquet file of it at any moment.

The spool has one line for each fill, with its number in the private stream. A fill that is declared void gets another
line, which reverses it (see `void_trades`). After a crash the spool may be ahead of or behind the journal of orders.
Fills whose numbers the spool already contains are not written again. Missing fills come again from the journal or from
the exchange, because the journal drops a fill (by compaction) only after the spool is on disk.

A line ends with ``#`` and the CRC-32 of its fields, continued from the previous line's checksum: a line that was
changed, moved or removed is detected. A line is written together with its line end, so that a crash leaves at most a
line without its end, which is cut. Releases before 0.2 wrote no checksums; such a file gets checksums when it is next
opened to be written.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import IO, Final, Protocol
from zlib import crc32

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from algo_engine.desk.order import EventKind, OrderEvent
from algo_engine.errors import JournalDamaged

__all__ = [
    "SPOOL",
    "TRADE_COLUMNS",
    "FileSpool",
    "MemorySpool",
    "Trade",
    "TradeSpool",
    "read_trades",
    "scan_spool",
    "trade_of",
    "write_spool",
    "write_trades",
]

SPOOL: Final = "trades.spool"
"""File name of a strategy's trades, in its folder."""
_ROWS_AT_ONCE: Final = 65_536
"""Number of rows in a batch of a Parquet file."""
_MARK: Final = b",#"
"""Separator before a checksum; its last occurrence in a line counts, since a checksum does not contain it."""
_CHECKSUM_DIGITS: Final = 8


class Trade(msgspec.Struct, frozen=True, gc=False):
    """Own trade, or the reversal of a void trade: a row of the list."""

    time_ns: int
    """Market time in nanoseconds."""
    sequence: int
    """Position in the broker's private stream."""
    strategy: str
    """Name of the strategy that traded."""
    broker_id: int
    """Broker id of the strategy."""
    symbol: str
    """Symbol of the instrument."""
    side: str
    """Side: B or S."""
    volume_lots: int
    """Number of executed lots; negative for a void trade."""
    price_ticks: int
    """Price in ticks."""
    order_id: int
    """Order id of the exchange."""
    client_id: int
    """Client id of the order."""
    liquidity: str
    """Liquidity: maker, taker or cross; or void."""
    fee: int
    """Fee in ticks × lots; for a void trade the refunded fee, with the opposite sign."""


TRADE_COLUMNS: Final = Trade.__struct_fields__


class TradeSpool(Protocol):
    """Sink of fills."""

    def add(self, event: OrderEvent) -> None:
        """Add one fill or void trade; one that was added before is ignored. Raise `OSError` if the write fails."""
        ...

    def rows(self) -> Iterator[Trade]:
        """Return all trades added so far, oldest first.

        Raise `OSError` or, for a line that is not a trade, `JournalDamaged`.
        """
        ...

    def begin_sync(self) -> Callable[[], None]:
        """Return the function that makes all fills so far durable, to be called once on any thread.

        It raises `OSError` if the disk fails.
        """
        ...

    def close(self) -> None:
        """Make all fills durable and close."""
        ...


class MemorySpool:
    """Fills in memory, for backtests."""

    def __init__(self) -> None:
        self.fills: list[OrderEvent] = []
        """Fills and void trades, oldest first."""

    def add(self, event: OrderEvent) -> None:
        """See `TradeSpool.add`."""
        if not self.fills or event.sequence > self.fills[-1].sequence:
            self.fills.append(event)

    def rows(self) -> Iterator[Trade]:
        """See `TradeSpool.rows`."""
        return (trade_of(event, "", 0) for event in self.fills)

    def begin_sync(self) -> Callable[[], None]:
        """Return a function that does nothing."""
        return lambda: None

    def close(self) -> None:
        """Do nothing."""


class FileSpool:
    """Fills of one strategy in one file; other processes can read each fill as soon as it is added."""

    def __init__(self, path: Path, strategy: str, broker_id: int) -> None:
        """Open or create the file, and cut a line without end; raise `JournalDamaged` for a damaged line."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path, self._strategy, self._broker_id = path, strategy, broker_id
        self._last, self._checksum, end = _end_of(path)
        # Unbuffered: fills are few, and readers of the list of trades want the latest.
        self._file: IO[bytes] = path.open("r+b" if path.exists() else "wb", buffering=0)
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, event: OrderEvent) -> None:
        """See `TradeSpool.add`."""
        if event.sequence <= self._last:
            return
        line, checksum = _sealed(trade_of(event, self._strategy, self._broker_id), self._checksum)
        written = self._file.write(line)
        if written != len(line):
            raise OSError(errno.ENOSPC, f"expected {len(line)} bytes of a trade to be written, was {written}")
        self._last, self._checksum = event.sequence, checksum

    def rows(self) -> Iterator[Trade]:
        """See `TradeSpool.rows`."""
        return _trades(self._path)

    def begin_sync(self) -> Callable[[], None]:
        """See `TradeSpool.begin_sync`."""
        descriptor = os.dup(self._file.fileno())  # the file may be closed meanwhile

        def sync() -> None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

        return sync

    def close(self) -> None:
        """See `TradeSpool.close`."""
        self.begin_sync()()
        self._file.close()


def _end_of(path: Path) -> tuple[int, int, int]:
    """Return number, checksum and end of a spool's last whole line; add checksums to a file of an old release."""
    if not path.exists():
        return 0, 0, 0
    if _is_unsealed(path):
        write_spool(path, _trades(path))
    last = checksum = end = 0
    for line, trade in scan_spool(path):
        if trade is None:
            raise _damage(path, end, line)
        last, checksum, end = trade.sequence, int(line[-1 - _CHECKSUM_DIGITS :], 16), end + len(line)
    return last, checksum, end


def _is_unsealed(path: Path) -> bool:
    """Return True if a spool begins with a line in the format of releases before 0.2."""
    with path.open("rb") as file:
        first = file.readline()
    return first.endswith(b"\n") and _parsed(first[:-1]) is not None


def _damage(path: Path, at: int, line: bytes) -> JournalDamaged:
    return JournalDamaged(f"expected the trades that were written to {path}, was damage at byte {at}: {line[:80]!r}")


def scan_spool(path: Path) -> Iterator[tuple[bytes, Trade | None]]:
    """Yield every line of a spool with its trade, None for a damaged line; leave out a line without end.

    A number that is not above the previous one is damage too. In a file without checksums every line that is a trade is
    accepted.
    """
    checksum: int | None = 0
    last = 0
    is_unsealed = _is_unsealed(path)
    with path.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                return
            fields, mark, digits = line[:-1].rpartition(_MARK)
            trade = _parsed(line[:-1] if is_unsealed else fields)
            if not is_unsealed:
                expected, checksum = checksum, _number(digits) if mark else None
                if expected is None or crc32(fields, expected) != checksum:
                    trade = None
            if trade is not None and trade.sequence <= last:
                trade = None
            if trade is not None:
                last = trade.sequence
            yield line, trade


def _number(digits: bytes) -> int | None:
    is_checksum = len(digits) == _CHECKSUM_DIGITS and not digits.strip(b"0123456789abcdef")
    return int(digits, 16) if is_checksum else None


def _parsed(fields: bytes) -> Trade | None:
    """Return the trade of a line without its checksum, None if the line is not a trade."""
    try:
        words = fields.decode().split(",")
        return msgspec.convert(dict(zip(TRADE_COLUMNS, words, strict=True)), Trade, strict=False)
    except ValueError:  # raised by the decoder, or for the number of fields or their types
        return None


def write_spool(path: Path, trades: Iterable[Trade]) -> None:
    """Write a spool of these trades durably; it replaces an existing one atomically."""
    hidden = path.with_name(f".{path.name}.new")
    checksum = 0
    with hidden.open("wb") as out:
        for trade in trades:
            line, checksum = _sealed(trade, checksum)
            out.write(line)
        out.flush()
        os.fsync(out.fileno())
    hidden.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_trades(spools: Iterable[Path]) -> Iterator[Trade]:
    """Return the trades of several spools by time; leave out a line that is being written.

    Raise `JournalDamaged` for any other line that is not a trade.
    """
    return merge(*(_trades(spool) for spool in spools if spool.exists()), key=lambda trade: trade.time_ns)


def _trades(spool: Path) -> Iterator[Trade]:
    at = 0
    for line, trade in scan_spool(spool):
        if trade is None:
            raise _damage(spool, at, line)
        at += len(line)
        yield trade


def trade_of(event: OrderEvent, strategy: str, broker_id: int) -> Trade:
    """Return the row of one fill or void trade."""
    order, is_void = event.order, event.kind is EventKind.TRADE_VOID
    return Trade(
        time_ns=event.time_ns,
        sequence=event.sequence,
        strategy=strategy,
        broker_id=broker_id,
        symbol=order.symbol,
        side=str(order.side),
        volume_lots=-event.volume_lots if is_void else event.volume_lots,
        price_ticks=event.price_ticks,
        order_id=event.order_id or order.order_id,
        client_id=order.client_id,
        liquidity="void" if is_void else event.reason,
        fee=-event.fee if is_void else event.fee,
    )


def write_trades(path: Path, trades: Iterable[Trade]) -> int:
    """Write trades to a CSV file with a header or, by the file name's suffix, to a Parquet file.

    The finished file replaces an older one as a whole. Return the number of trades.
    """
    hidden = path.with_name(path.name + ".new")
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    count = write(hidden, iter(trades))
    hidden.rename(path)
    return count


def _line(trade: Trade) -> str:
    return ",".join(map(str, msgspec.structs.astuple(trade))) + "\n"


def _sealed(trade: Trade, before: int) -> tuple[bytes, int]:
    """Return a line of a spool and its checksum; ``before`` is the checksum of the preceding line."""
    fields = _line(trade).encode()[:-1]
    checksum = crc32(fields, before)
    return b"%b%b%08x\n" % (fields, _MARK, checksum), checksum


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
