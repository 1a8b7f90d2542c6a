"""The feed as one of NASDAQ's daily files: every message behind its length."""

from __future__ import annotations

from typing import IO, Final

from exchange_server.nasdaq.framing import framed_messages
from exchange_server.tail import Records

__all__ = ["export"]

_CHUNK_BYTES: Final = 1 << 20


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
