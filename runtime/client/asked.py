"""The answer to a question."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa

from runtime.client.errors import ProtocolError
from runtime.client.port import ARROW

__all__ = ["Asked", "asked"]

_EPOCH = b"deltabook.epoch"


class Asked(msgspec.Struct, frozen=True, eq=False):
    """Answer to a question: its rows, and the epoch at which they hold."""

    epoch: int
    """Epoch at whose end everything that the SELECT reads was as it is here."""
    table: pa.Table
    """The rows, in the order that the SELECT gives them."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.table.column_names)

    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python's values; exact numbers are `int` or `decimal.Decimal`."""
        return list(zip(*[column.to_pylist() for column in self.table.columns], strict=True))


def asked(data: bytes, content_type: str) -> Asked:
    """The answer in these bytes; raises `ProtocolError`."""
    if content_type != ARROW:
        raise ProtocolError(f"expected an answer as {ARROW}, was {content_type!r}")
    try:
        table = pa.ipc.open_stream(data).read_all()
        epoch = int((table.schema.metadata or {})[_EPOCH])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise ProtocolError(f"expected an Arrow stream with its epoch, was {data[:80]!r}: {error}") from None
    return Asked(epoch, table.replace_schema_metadata(None))
