"""What subscribers are told of a view: encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import pyarrow as pa

from deltabook.wire.results import FrameHeader, encode_frame
from runtime.epochs.consolidating import consolidate

__all__ = ["Message", "added_up", "arrow_frame"]


class Message:
    """A header and the rows it speaks of; never changed after it is made."""

    __slots__ = ("_encoded", "body", "header", "rows")

    def __init__(self, header: FrameHeader, rows: pa.Table | None = None, body: bytes = b"") -> None:
        """``body``: the rows as `encode_rows` gives them, where somebody has encoded them already."""
        self.header = header
        self.rows = rows
        self.body = body
        self._encoded: dict[Callable[[Message], bytes], bytes] = {}

    def encoded(self, encode: Callable[[Message], bytes]) -> bytes:
        """The message in a format; made the first time that somebody asks."""
        found = self._encoded.get(encode)
        if found is None:
            found = self._encoded[encode] = encode(self)
        return found

    def since(self, epoch: int) -> Message:
        """The same for somebody who has heard everything up to an epoch: nothing has changed in between."""
        if self.header.from_epoch == epoch:
            return self
        return Message(msgspec.structs.replace(self.header, from_epoch=epoch), self.rows, self.body)


def arrow_frame(message: Message) -> bytes:
    """The message as `deltabook.wire.results` has it."""
    return encode_frame(message.header, message.rows, body=message.body)


def added_up(messages: Sequence[Message], schema: pa.Schema) -> Message:
    """The changes of one view, which follow each other, as one message; it may have no row left."""
    if len(messages) == 1:
        return messages[0]
    tables = [message.rows for message in messages if message.rows is not None]
    rows = consolidate(pa.concat_tables(tables), schema) if tables else None
    return Message(msgspec.structs.replace(messages[-1].header, from_epoch=messages[0].header.from_epoch), rows)
