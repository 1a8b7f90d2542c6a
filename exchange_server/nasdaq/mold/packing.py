"""Sequenced packets of SoupBinTCP as the messages of datagrams."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from deltabook.wire.mold import HEADER_BYTES, PAYLOAD_LIMIT_BYTES, encode_head
from exchange_server.nasdaq.framing import framed_messages

__all__ = ["datagrams"]

_ROOM_BYTES: Final = PAYLOAD_LIMIT_BYTES - HEADER_BYTES


def datagrams(packets: bytes, session: str, sequence: int, most: int = 0) -> Iterator[tuple[bytes, int, int]]:
    """Whole sequenced packets as datagrams, as full as they may be; with each, how many messages it has and how many
    bytes of `packets` they were. ``most``: the most messages there may be in all, 0 for any number.

    A message that alone is too long for a datagram gets one of its own all the same, since it cannot be left out.
    """
    blocks: list[bytes] = []
    room = _ROOM_BYTES
    for block in islice(framed_messages(packets), most or None):
        if len(block) > room and blocks:
            yield _datagram(blocks, session, sequence)
            sequence += len(blocks)
            blocks, room = [], _ROOM_BYTES
        blocks.append(block)
        room -= len(block)
    if blocks:
        yield _datagram(blocks, session, sequence)


def _datagram(blocks: list[bytes], session: str, sequence: int) -> tuple[bytes, int, int]:
    data = b"".join(blocks)
    # A packet has a letter more than its message.
    return encode_head(session, sequence, len(blocks)) + data, len(blocks), len(data) + len(blocks)
