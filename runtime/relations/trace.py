"""Adaptor of DBToaster's order-book traces: ``t,id,action,volume,price`` without symbols.

One trace can fill several declared streams, each from one side of the book. The declaration of a stream determines the
names of its columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec
import numpy as np
import pyarrow as pa

from runtime.compiler.relations import TOUCHES
from runtime.formats import CsvFormat, Field, Schema
from runtime.native.tiers import Kernels
from runtime.plan import Relation
from runtime.relations.adaptor import AdaptorError, Offsets, Prepared
from runtime.relations.market import BookAdaptor, action_codes
from runtime.relations.orderbook import DBTOASTER, Messages, OrderBookAdaptor
from runtime.state import ObjectSpace

__all__ = ["TRACE_SCHEMA", "BookStream", "TraceAdaptor"]

TRACE_SCHEMA: Final = Schema(
    (
        Field("t", "int64"),
        Field("id", "int64"),
        Field("action", "string"),
        Field("volume", "int64"),
        Field("price", "int64"),
    ),
    CsvFormat(),
)
"""Schema of the lines of a trace."""
_COLUMNS: Final = ("t", "id", "broker_id", "volume", "price")
_MOST_COLUMNS: Final = len(_COLUMNS)


class BookStream(msgspec.Struct, frozen=True):
    """Declared stream that a trace fills."""

    relation: Relation
    """Name and columns of the stream: up to five, in the order t, id, broker_id, volume, price."""
    book: Literal["bids", "asks"]
    """Side of the book that fills the stream."""


class TraceAdaptor(BookAdaptor):
    """Adaptor of trace lines with the declared streams as relations; each line is a message.

    The symbol of touches is the empty string.
    """

    def __init__(
        self,
        space: ObjectSpace,
        name: str,
        streams: Sequence[BookStream],
        brokers: int,
        messages: int = 0,
        *,
        schema: Schema = TRACE_SCHEMA,
        kernels: Kernels | None = None,
        gives_touches: bool = False,
    ) -> None:
        """Prepare the adaptor.

        ``brokers`` is the number of brokers, and ``messages`` the number of messages that were applied before.
        ``schema`` is `TRACE_SCHEMA`, possibly with other policies. Without ``kernels`` the book's kernel is
        interpreted. Raise `AdaptorError` for a stream with too many columns or none.
        """
        for stream in streams:
            if not 0 < len(stream.relation.columns) <= _MOST_COLUMNS:
                raise AdaptorError(
                    f"expected up to {_MOST_COLUMNS} columns ({', '.join(_COLUMNS)}) in stream "
                    f"{stream.relation.name}, was {len(stream.relation.columns)}"
                )
        self._streams = tuple(streams)
        book = OrderBookAdaptor(space, name, msgspec.structs.replace(DBTOASTER, brokers=brokers), kernels=kernels)
        super().__init__(book, [stream.relation for stream in streams], gives_touches=gives_touches)
        self._symbol = self._book.symbols.encode(pa.array([""]))
        self._messages = messages
        self._schema = schema

    @property
    def schema(self) -> Schema:
        return self._schema

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return Prepared(rows, row_ends, np.ones(rows.num_rows, np.bool_))

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        rows = prepared.rows
        number = self._messages + 1 + np.arange(rows.num_rows)
        self._messages += rows.num_rows
        order_id = rows.column("id").to_numpy()
        deltas = self._book.apply(
            Messages(
                t=rows.column("t").to_numpy(),
                order_id=order_id,
                broker_id=order_id,
                action=action_codes(rows.column("action")),
                volume=rows.column("volume").to_numpy(),
                price=rows.column("price").to_numpy(),
                symbol=np.broadcast_to(self._symbol, rows.num_rows),
                number=number,
            )
        )
        named = {s.relation.name: self._renamed(s, deltas[s.book]) for s in self._streams if s.book in deltas}
        return named | ({TOUCHES.name: deltas["touches"]} if "touches" in deltas else {})

    @staticmethod
    def _renamed(stream: BookStream, deltas: pa.RecordBatch) -> pa.RecordBatch:
        declared = stream.relation.columns
        arrays = [deltas.column(name) for name in _COLUMNS[: len(declared)]]
        return pa.RecordBatch.from_arrays(
            [*arrays, deltas.column("weight")], names=[*(c.name for c in declared), "weight"]
        )
