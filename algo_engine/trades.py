"""The list of own trades: a spool that grows with every fill, and a CSV file at the end.

The spool is one line a fill, numbered by the private stream. After a crash it may be ahead of or behind the journal of
orders; a fill whose number it already holds is not written again, and one that it lacks comes again from the journal
or from the exchange, because the journal only forgets a fill (by compaction) after the spool is on disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from heapq import merge
from pathlib import Path
from typing import IO, Final, Protocol

from algo_engine.order import OrderEvent

__all__ = ["TRADE_COLUMNS", "FileSpool", "MemorySpool", "TradeSpool", "write_trades"]

TRADE_COLUMNS: Final = (
    "time_ns,sequence,strategy,broker_id,symbol,side,volume_lots,price_ticks,order_id,client_id,liquidity"
)


class TradeSpool(Protocol):
    """Where fills go."""

    def add(self, event: OrderEvent) -> None:
        """Enter one fill; one that is held already is ignored."""
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
    """Fills of one strategy in one file."""

    def __init__(self, path: Path, strategy: str, broker_id: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._strategy, self._broker_id = strategy, broker_id
        self._last, end = _last_line(path)
        self._file: IO[bytes] = path.open("r+b" if path.exists() else "wb")
        self._file.truncate(end)
        self._file.seek(end)

    def add(self, event: OrderEvent) -> None:
        """See `TradeSpool.add`."""
        if event.sequence <= self._last:
            return
        order = event.order
        line = (
            f"{event.time_ns},{event.sequence},{self._strategy},{self._broker_id},{order.symbol},{order.side},"
            f"{event.volume_lots},{event.price_ticks},{order.order_id},{order.client_id},{event.reason}\n"
        )
        self._file.write(line.encode())
        self._last = event.sequence

    def sync(self) -> None:
        """See `TradeSpool.sync`."""
        self._file.flush()
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
                if not line.endswith(b"\n") or line.count(b",") != TRADE_COLUMNS.count(","):
                    break
                last, end = int(line.split(b",", 2)[1]), end + len(line)
    return last, end


def write_trades(path: Path, spools: Iterable[Path]) -> int:
    """Merge closed spools by time into one CSV file with a header; returns the number of trades."""
    files = [spool.open(encoding="utf-8") for spool in spools if spool.exists()]
    count = 0
    try:
        with path.open("w", encoding="utf-8") as out:
            out.write(TRADE_COLUMNS + "\n")
            for line in merge(*files, key=lambda line: int(line.split(",", 1)[0])):
                out.write(line)
                count += 1
    finally:
        for file in files:
            file.close()
    return count
