"""Messages to the subscribers of a view, encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

from deltabook.wire.results import FrameHeader, encode_frame
from runtime.epochs.consolidating import consolidate

__all__ = ["Message", "added_up", "arrow_frame"]


class Message:
    """Header and rows of a message; immutable."""

    __slots__ = ("_encoded", "body", "header", "rows")

    def __init__(self, header: FrameHeader, rows: pa.Table | None = None, body: bytes = b"") -> None:
        """Create a message; ``body`` is the rows as encoded by `encode_rows`, if they are already encoded."""
        self.header = header
        self.rows = rows
        self.body = body
        self._encoded: dict[Callable[[Message], bytes], bytes] = {}

    def encoded(self, encode: Callable[[Message], bytes]) -> bytes:
        """Return the message in a format; it is encoded on the first call."""
        data = self._encoded.get(encode)
        if data is None:
            data = self._encoded[encode] = encode(self)
        return data

    def since(self, epoch: int) -> Message:
        """Return the message for a subscriber at an earlier epoch; the view must not have changed in between."""
        if self.header.from_epoch == epoch:
            return self
        return Message(msgspec.structs.replace(self.header, from_epoch=epoch), self.rows, self.body)


def arrow_frame(message: Message) -> bytes:
    """Return the message in the format of `deltabook.wire.results`."""
    return encode_frame(message.header, message.rows, body=message.body)


def added_up(messages: Sequence[Message], schema: pa.Schema) -> Message:
    """Return consecutive changes of one view as one message, which may have no rows left."""
    if len(messages) == 1:
        return messages[0]
    tables = [message.rows for message in messages if message.rows is not None]
    rows = consolidate(pa.concat_tables(tables), schema) if tables else None
    return Message(msgspec.structs.replace(messages[-1].header, from_epoch=messages[0].header.from_epoch), rows)
