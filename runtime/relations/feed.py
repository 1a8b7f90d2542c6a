"""Adaptor of the exchange's text feed: BIDS, ASKS, TRADES and TOUCHES of all symbols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from runtime.formats import CsvFormat, Field, Schema
from runtime.native.tiers import Kernels
from runtime.relations.adaptor import FeedGapError, Offsets, Prepared
from runtime.relations.market import MarketAdaptor, action_codes, without_heartbeats
from runtime.relations.orderbook import FEED, Messages, OrderBookAdaptor
from runtime.relations.retention import Retention
from runtime.state import ObjectSpace

__all__ = ["FEED_SCHEMA", "FeedAdaptor"]

FEED_SCHEMA: Final = Schema(
    (
        Field("sequence", "int64"),
        Field("time_ns", "int64"),
        Field("order_id", "int64"),
        Field("broker_id", "int64"),
        Field("action", "string"),
        Field("volume", "int64"),
        Field("price", "int64"),
        Field("symbol", "string"),
    ),
    CsvFormat(),
)
"""Schema of the exchange's feed lines, see `deltabook.wire.text.FeedMessage`."""

_HEARTBEAT: Final = ord("H")


class FeedAdaptor(MarketAdaptor):
    """Adaptor of sequenced feed messages, which checks that no message is missing.

    An epoch may end before a heartbeat, because all earlier requests are then complete. It may also end between two
    messages with different times, because the messages of one request have the same time.
    """

    def __init__(
        self,
        space: ObjectSpace,
        name: str,
        retention: Retention,
        next_sequence: int = 1,
        *,
        prefix: str = "",
        kernels: Kernels | None = None,
        gives_touches: bool = False,
    ) -> None:
        """Prepare the adaptor. ``prefix`` is put before every symbol.

        Without ``kernels`` the book's kernel is interpreted.
        """
        book = OrderBookAdaptor(space, name, FEED, prefix, kernels=kernels)
        super().__init__(book, space, name, retention, next_sequence, gives_touches=gives_touches)
        self._tolerated = 0  # missing numbers that are still allowed
        self._gaps = 0
        self._repeated = 0

    @property
    def schema(self) -> Schema:
        return FEED_SCHEMA

    @property
    def checks_numbers(self) -> bool:
        return True

    def allow_missing(self, messages: int) -> None:
        self._tolerated += messages

    def forget_missing(self) -> None:
        self._tolerated = 0

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        heartbeat = action_codes(rows.column("action")) == _HEARTBEAT
        return without_heartbeats(rows, row_ends, heartbeat, rows.column("time_ns").to_numpy())

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        rows = self._in_sequence(prepared.rows)
        if not rows.num_rows:
            return {}
        sequence = rows.column("sequence").to_numpy()
        self._next = int(sequence[-1]) + 1
        messages = Messages(
            t=rows.column("time_ns").to_numpy(),
            order_id=rows.column("order_id").to_numpy(),
            broker_id=rows.column("broker_id").to_numpy(),
            action=action_codes(rows.column("action")),
            volume=rows.column("volume").to_numpy(),
            price=rows.column("price").to_numpy(),
            symbol=self._book.symbol_numbers(rows.column("symbol")),
            number=sequence,
        )
        deltas = self._book.apply(messages)
        self._trades.take(deltas)
        return deltas

    def counters(self) -> Mapping[str, int]:
        return {**super().counters(), "gaps": self._gaps, "repeated": self._repeated}

    def _in_sequence(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that have not been applied; raise `FeedGapError` if more rows are missing than allowed."""
        sequence = rows.column("sequence").to_numpy()
        if len(sequence) and sequence[0] < self._next:
            repeated = int(np.append(sequence >= self._next, True).argmax())
            self._repeated += repeated
            rows, sequence = rows.slice(repeated), sequence[repeated:]
        if not len(sequence):
            return rows
        missing = int(sequence[-1]) - self._next + 1 - len(sequence)
        ascends = bool((sequence[1:] > sequence[:-1]).all())
        if missing or not ascends:
            if missing < 0 or missing > self._tolerated or not ascends:
                expected = np.arange(self._next, self._next + len(sequence))
                at = int(np.flatnonzero(sequence != expected)[0])
                raise FeedGapError(f"expected feed message {expected[at]}, was {sequence[at]}")
            self._tolerated -= missing
            self._gaps += missing
        return rows
