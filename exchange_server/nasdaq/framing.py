"""Messages out of sequenced packets, as NASDAQ's files and datagrams have them: each behind its own length."""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["framed_messages"]


def framed_messages(packets: bytes) -> Iterator[bytes]:
    """The messages of whole sequenced packets, each behind its length in two bytes.

    >>> list(framed_messages(b"\\0\\4Sone\\0\\4Stwo"))
    [b'\\x00\\x03one', b'\\x00\\x03two']
    """
    at, size = 0, len(packets)
    while at < size:
        length = packets[at] << 8 | packets[at + 1]
        end = at + 2 + length
        # A packet's length counts its type, a message's does not.
        yield (length - 1).to_bytes(2, "big") + packets[at + 3 : end]
        at = end
