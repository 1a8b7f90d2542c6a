"""ITCH messages in both framings, and the expected row of the wide relation for each message."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from deltabook.wire.errors import WireError
from deltabook.wire.itch import decode_message
from deltabook.wire.soupbin import encode_packet
from runtime.formats import FormattedBatch, InOrder, InputFormatter, RawBuffer
from runtime.formats.itch import ITCH_FIELDS

__all__ = ["expected_rows", "formatted", "packets", "soup", "split"]

Row = dict[str, Any]


def split(rng: random.Random, data: bytes, most: int) -> list[RawBuffer]:
    """Return the data as raw buffers of 1 to ``most`` bytes."""
    raws: list[RawBuffer] = []
    at = 0
    while at < len(data):
        size = rng.randint(1, most)
        raws.append(RawBuffer(1, len(raws) + 1, data[at : at + size], at))
        at += size
    return raws


def packets(rng: random.Random, messages: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the messages as packets, with heartbeats and empty packets between them."""
    found: list[tuple[str, bytes]] = [("A", b"SESSION123" + b"1".rjust(20))]
    for message in messages:
        while rng.random() < 0.2:
            found.append(rng.choice([("H", b""), ("+", b"hello, debug"), ("+", b""), ("Z", b"")]))
        found.append(("U" if rng.random() < 0.05 else "S", message))
    return [*found, ("Z", b"")]


def soup(packets: Sequence[tuple[str, bytes]]) -> bytes:
    """Return the bytes of SoupBinTCP."""
    return b"".join(encode_packet(type_.encode(), payload) for type_, payload in packets)


def expected_rows(messages: Sequence[bytes], packet_types: Sequence[str | None] | None = None) -> list[Row]:
    """Return a row for each well-formed message; an empty message is a heartbeat."""
    rows: list[Row] = []
    for message, packet in zip(messages, packet_types or [None] * len(messages), strict=True):
        row: Row = dict.fromkeys(field.name for field in ITCH_FIELDS)
        row["packet_type"] = packet
        if packet == "H":
            row["message_type"] = ""
        else:
            try:
                decoded = decode_message(message)
            except WireError:
                continue
            row |= {"message_type": decoded.type, **decoded.fields}
        rows.append(row)
    return rows


def formatted(formatter: InputFormatter, raws: Sequence[RawBuffer], rng: random.Random, at_once: int = 5) -> Any:
    """Return the batches of an origin in stream order, formatted some buffers at a time in the given order."""
    order = InOrder(1 << 20)
    batches: list[FormattedBatch] = []
    todo = list(raws)
    while todo:
        count = rng.randint(1, at_once)
        now, todo = todo[:count], todo[count:]
        result = formatter.format(now)
        batches += order.add(result.batches)
        todo += result.again
    return batches + order.add(formatter.finish(1))
