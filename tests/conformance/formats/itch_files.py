"""Valid ITCH 5.0 files of all message types, read as a whole by `itch.MessageParser`."""

from __future__ import annotations

import io
import random
import struct
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa
from itch.parser import MessageParser

from deltabook.wire.itch import MESSAGES, Kind, MessageField, encode_message, frame
from runtime.formats.itch import ITCH_FIELDS, itch_schema
from tests.conformance.formats.sample import Sample

__all__ = ["ItchFiles", "library_messages", "random_message"]

_FRAMINGS: Final[tuple[Literal["file", "soupbin"], ...]] = ("file", "file", "soupbin")
_NO_TUPLES = (b"Z", b"A" + 30 * b" ", b"JA", b"+debug")
_LETTERS = "ABCXYZ09 "


def random_message(rng: random.Random, letter: str) -> bytes:
    """Return a message with random values; no System Event ends the messages, since the library stops there."""
    values: dict[str, int | str] = {field.name: _random_value(rng, field) for field in MESSAGES[letter].fields}
    if letter == "S":
        values["event_code"] = rng.choice("OSQME")
    return encode_message(letter, **values)


def _random_value(rng: random.Random, field: MessageField) -> int | str:
    if field.kind is Kind.ALPHA:
        return "".join(rng.choices(_LETTERS, k=rng.randint(0, field.width))).rstrip()
    top = (1 << 8 * field.width) - 1
    if field.kind is Kind.TIMESTAMP:
        top = 86_400 * 10**9 - 1
    if field.width == 8:  # what an int64 column of Arrow can hold
        top = 2**63 - 1
    return rng.choice((0, 1, top, rng.randint(0, top)))


def library_messages(data: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records that the library reads, one per message, with the names of the wide relation's columns."""
    for message in MessageParser().parse_file(io.BytesIO(data)):
        letter = message.message_type.decode()
        packed = message.to_bytes()
        locate, tracking, high, low, *rest = struct.unpack(message.message_format, packed[1:])
        values = [locate, tracking, high << 32 | low, *rest]
        record: dict[str, Any] = {"message_type": letter}
        for field, value in zip(MESSAGES[letter].fields, values, strict=True):
            record[field.name] = value.decode().rstrip() if isinstance(value, bytes) else value
        yield record


class ItchFiles:
    """Random files of one framing, with some of the wide relation's fields."""

    def __init__(self, rng: random.Random) -> None:
        self._framing = rng.choice(_FRAMINGS)
        schema = itch_schema(self._framing)
        if rng.random() < 0.5:
            fields = tuple(rng.sample(ITCH_FIELDS, rng.randint(1, 12)))
            schema = msgspec.structs.replace(schema, fields=fields)
        self.schema = schema

    def sample(self, rng: random.Random, rows: int | None = None) -> Sample:
        """Return a random file."""
        count = rng.choice((0, 1, 2, 20, 60, 300)) if rows is None else rows
        data, library = bytearray(), bytearray()
        ends, anchors = [], []
        packets: list[str] = []
        while len(packets) < count:
            anchors += [len(data), len(data) + 1]
            message = random_message(rng, rng.choice("".join(MESSAGES)))
            packet = ""
            if self._framing == "soupbin":
                packet = rng.choice("SSSSSUHZ")
            if packet == "Z":
                data += frame(rng.choice(_NO_TUPLES))
                continue
            data += frame(packet.encode() + (b"" if packet == "H" else message))
            library += b"" if packet == "H" else frame(message)
            packets.append(packet)
            ends.append(len(data))
        messages = library_messages(bytes(library))
        records = [
            {"message_type": "", "packet_type": "H"}
            if packet == "H"
            else {**next(messages), "packet_type": packet or None}
            for packet in packets
        ]
        return Sample(
            schema=self.schema,
            data=bytes(data),
            table=pa.Table.from_pylist(records, schema=self.schema.arrow_schema()),
            ends=ends,
            breaks=[*ends, *anchors],
            spread="length",
            anchors=frozenset(anchors),
        )
