"""Sequenced packets of SoupBinTCP as the messages of datagrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from deltabook.wire.mold import HEADER_BYTES, PAYLOAD_LIMIT_BYTES, encode_head

__all__ = ["datagrams"]

_ROOM_BYTES: Final = PAYLOAD_LIMIT_BYTES - HEADER_BYTES


def datagrams(packets: bytes, session: str, sequence: int, most: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Whole sequenced packets as datagrams, as full as they may be; with each, how many messages it has and how many
    bytes of `packets` they were. ``most``: the most messages there may be in all, 0 for any number.

    A message that alone is too long for a datagram gets one of its own all the same, since it cannot be left out.
    """
    blocks: list[bytes] = []
    room, at, begin, size, left = _ROOM_BYTES, 0, 0, len(packets), most or len(packets)
    while at < size and left:
        length = packets[at] << 8 | packets[at + 1]
        if length + 1 > room and blocks:
            yield encode_head(session, sequence, len(blocks)) + b"".join(blocks), len(blocks), at - begin
            sequence += len(blocks)
            blocks, room, begin = [], _ROOM_BYTES, at
        end = at + 2 + length
        # A packet's length counts its type, a message's does not.
        blocks.append((length - 1).to_bytes(2, "big") + packets[at + 3 : end])
        room -= length + 1
        at, left = end, left - 1
    if blocks:
        yield encode_head(session, sequence, len(blocks)) + b"".join(blocks), len(blocks), at - begin
