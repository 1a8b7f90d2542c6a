"""DBToaster's order-book traces: ``t,id,action,volume,price``, no header, prices in 1/10,000."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from exchange_server.errors import RecordError
from exchange_server.replay.loader import BROKERS, INT64_MAX, LATEST_NS, LineLoader
from exchange_server.replay.record import BATCH_RECORDS, Record, RecordColumns

__all__ = ["DbtoasterLoader"]

_LINE: Final = re.compile(rb"(\d{1,19}),(\d{1,19}),([BSEFDXTC]),(\d{1,19}),(\d{1,19})\r?\n?")
_LINE_BYTES: Final = 24
"""Usual length of a line in bytes."""
_ACTIONS: Final = {letter.encode(): "T" if letter == "X" else letter for letter in "BSEFDXTC"}


class DbtoasterLoader(LineLoader):
    """Records of a trace, whose `t` are milliseconds of a day (1970-01-01 unless `day_ns` gives another).

    X in a trace is a cross, a trade without displayed orders, and not this market's partial cancel: it becomes T. C (a
    broken trade) has no effect; it is passed on and counted. Time is clamped to be non-decreasing.
    """

    reads_columns = True

    def __init__(self, path: Path, symbol: str, *, day_ns: int = 0, unit_ns: int = 1_000_000) -> None:
        super().__init__(path, symbol)
        self._day_ns = day_ns
        self._unit_ns = unit_ns

    def _parse(self, lines: Iterator[tuple[int, bytes]], time_ns: int = 0) -> Iterator[Record]:
        day_ns, unit_ns, symbol, match = self._day_ns, self._unit_ns, self.symbol, _LINE.fullmatch
        for number, line in lines:
            matched = match(line)
            if matched is None:
                self._bad(number, RecordError(f"expected t,id,action,volume,price, was {line[:100]!r}"))
                continue
            texts = matched.groups()
            order_id, volume, price = int(texts[1]), int(texts[3]), int(texts[4])
            now_ns = day_ns + int(texts[0]) * unit_ns
            if order_id > INT64_MAX or volume > INT64_MAX or price > INT64_MAX:
                self._bad(number, RecordError(f"expected numbers of 64 bits, was {line[:100]!r}"))
                continue
            if now_ns > LATEST_NS:
                self._bad(number, RecordError(f"expected a time before the year 2200, was {line[:100]!r}"))
                continue
            time_ns = self._in_order(now_ns, time_ns)
            yield Record(number, time_ns, order_id, order_id % BROKERS, _ACTIONS[texts[2]], volume, price, symbol)

    def batches(self, rows: int = BATCH_RECORDS) -> Iterator[RecordColumns]:
        """Yield blocks of whole lines as columns; only blocks with a line that is not plain are parsed line by line."""
        with self._reading() as file:
            self._warn_if_cut(self.path)
            lines, latest_ns = 0, 0
            while block := file.readlines(max(rows, 1) * _LINE_BYTES):
                columns = self._plain(b"".join(block), lines, latest_ns)
                if columns is None:
                    records = self._parse(enumerate(block, lines + 1), latest_ns)
                    columns = RecordColumns.from_records(records, self.symbols)
                lines += len(block)
                if len(columns):
                    latest_ns = int(columns.time_ns[-1])
                    yield columns

    def _plain(self, block: bytes, lines: int, latest_ns: int) -> RecordColumns | None:
        """Return the records of a block whose every line certainly matches `_LINE`; None for any other block."""
        from exchange_server.replay._tables import plain_columns  # the exchange replays other files without pyarrow

        columns = plain_columns(block, ("t", "id", "action", "volume", "price"), "action", b"BSEFDXTC")
        if columns is None:
            return None
        t, order_id, action = columns["t"], columns["id"], columns["action"]
        if int(t.max()) > (LATEST_NS - self._day_ns) // self._unit_ns:
            return None
        count = len(t)
        recorded_ns = t * self._unit_ns + self._day_ns
        time_ns = np.maximum.accumulate(np.maximum(recorded_ns, latest_ns))
        self.earlier += int(np.count_nonzero(recorded_ns < time_ns))
        return RecordColumns(
            np.arange(lines + 1, lines + 1 + count),
            time_ns,
            order_id,
            order_id % BROKERS,
            np.where(action == ord("X"), np.uint8(ord("T")), action),
            columns["volume"],
            columns["price"],
            np.zeros(count, np.int32),
            np.zeros(count, np.int64),
            (self.symbol,),
        )
