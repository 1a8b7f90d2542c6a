"""ITCH in any buffers, in any order, with any bytes changed: the rows are those of a reader of single messages."""

from __future__ import annotations

import random
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from deltabook.wire.itch import MESSAGES, Kind, decode_message, frame
from runtime.formats import InputFormatter
from runtime.formats.itch import ITCH_FIELDS, itch_schema
from tests.generators.itch_buffers import formatted, packets, soup, split
from tests.generators.itch_day import make_day
from tests.harness.examples import examples

Row = dict[str, Any]


def reading(data: bytes, framing: Literal["file", "soupbin"]) -> tuple[list[Row], int, int]:
    """Rows, tuples and unread bytes of the stream, one message at a time."""
    rows: list[Row] = []
    tuples = at = 0
    while at + 2 <= len(data) and at + 2 + int.from_bytes(data[at : at + 2], "big") <= len(data):
        body = data[at + 2 : at + 2 + int.from_bytes(data[at : at + 2], "big")]
        at += 2 + len(body)
        packet = None if framing == "file" else body[:1].decode("latin-1")
        message = body if framing == "file" else body[1:]
        if packet is not None and (packet, len(body)) in {("Z", 1), ("A", 31), ("J", 2)} | {("+", len(body))}:
            continue
        tuples += 1
        row = dict.fromkeys((field.name for field in ITCH_FIELDS), None) | {"packet_type": packet}
        known = MESSAGES.get(message[:1].decode("latin-1"))
        if packet == "H" and len(body) == 1:
            rows.append(row | {"message_type": ""})
        elif packet in {None, "S", "U"} and known is not None and known.length == len(message):
            rows.append(row | {"message_type": known.type} | values(message))
    return rows, tuples, len(data) - at


def values(message: bytes) -> Row:
    """A message's fields; what is no value of its column is NULL."""
    decoded = decode_message(message)
    kinds = {field.name: field.kind for field in MESSAGES[decoded.type].fields}
    return {
        name: (value if str(value).isascii() else None)
        if kinds[name] is Kind.ALPHA
        else (value if int(value) < 1 << 63 else None)
        for name, value in decoded.fields.items()
    }


def check(data: bytes, framing: Literal["file", "soupbin"], rng: random.Random, most: int, window: int) -> None:
    expected, tuples, unread = reading(data, framing)
    raws = split(rng, data, most)
    for start in range(0, len(raws), window):
        raws[start : start + window] = rng.sample(raws[start : start + window], len(raws[start : start + window]))
    batches = formatted(InputFormatter(itch_schema(framing)), raws, rng, at_once=rng.choice((1, 4, 40)))
    rows = [row for batch in batches for row in batch.rows.to_pylist()]
    assert rows == expected
    assert sum(batch.tuples for batch in batches) == tuples + (unread > 0)
    assert sum(batch.bad for batch in batches) == tuples + (unread > 0) - len(rows)


@settings(max_examples=examples(25), deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.integers(1, 60),
    st.sampled_from(("file", "soupbin")),
    st.sampled_from((9, 60, 500, 100_000)),
    st.sampled_from((1, 8, 64)),
    st.integers(0, 12),
)
def test_rows_are_those_of_a_reader_of_one_message_at_a_time(
    seed: int, count: int, framing: Literal["file", "soupbin"], most: int, window: int, changes: int
) -> None:
    rng = random.Random(seed)
    messages = make_day(seed, count, others=0.3).messages
    data = bytearray(b"".join(map(frame, messages)) if framing == "file" else soup(packets(rng, messages)))
    for _ in range(changes):
        place = rng.randrange(len(data))
        if rng.random() < 0.7:
            data[place] = rng.choice((0, 1, 18, 19, 65, 255, rng.randrange(256)))
        elif rng.random() < 0.5:
            del data[place : place + rng.randint(1, 40)]
        else:
            data[place:place] = rng.randbytes(rng.randint(1, 40))
    check(bytes(data), framing, rng, most, window)
