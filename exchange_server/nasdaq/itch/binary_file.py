"""The feed as one of NASDAQ's daily files: every message behind its length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final

from exchange_server.tail import Records

__all__ = ["export", "framed_messages"]

_CHUNK_BYTES: Final = 1 << 20


def framed_messages(packets: bytes) -> Iterator[bytes]:
    """The messages of whole sequenced packets, each behind its length in two bytes."""
    at, size = 0, len(packets)
    while at < size:
        length = packets[at] << 8 | packets[at + 1]
        end = at + 2 + length
        # A packet's length counts its type, a message's does not.
        yield (length - 1).to_bytes(2, "big") + packets[at + 3 : end]
        at = end


def export(records: Records, file: IO[bytes]) -> int:
    """Write all messages that there are (BinaryFILE) and return how many; raises `OSError`.

    Reads on from where it is, so the exchange may run meanwhile; what is appended after the call is not written.
    """
    offset, end, count = 0, records.size_bytes, 0
    while offset < end:
        packets = records.read(offset, min(_CHUNK_BYTES, end - offset))
        messages = list(framed_messages(packets))
        file.write(b"".join(messages))
        offset += len(packets)
        count += len(messages)
    return count
