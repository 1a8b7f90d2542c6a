"""Messages that are packed in one go are those that the checked way makes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.itch import MESSAGES, encode_message
from exchange_server.nasdaq import itch

PACKERS = {
    "A": itch.pack_add,
    "F": itch.pack_attributed_add,
    "E": itch.pack_executed,
    "C": itch.pack_executed_at,
    "X": itch.pack_reduced,
    "D": itch.pack_deleted,
    "U": itch.pack_replaced,
    "P": itch.pack_traded,
}


@pytest.mark.parametrize("letter", PACKERS)
@given(st.data())
def test_packed_messages_are_the_encoded_ones(letter: str, data: st.DataObject) -> None:
    """The fast way and the way that checks give the same bytes."""
    locate, timestamp = data.draw(st.integers(0, 2**16 - 1)), data.draw(st.integers(0, 2**48 - 1))
    named: dict[str, Any] = {"stock_locate": locate, "timestamp": timestamp}
    values: list[Any] = []
    for field in MESSAGES[letter].fields[3:]:
        if field.kind == "alpha":
            text = data.draw(st.text("QZ", min_size=field.width, max_size=field.width))
            values.append(text.encode())
            named[field.name] = text
        else:
            named[field.name] = data.draw(st.integers(0, (1 << 8 * field.width) - 1))
            values.append(named[field.name])
    message = encode_message(letter, **named)
    head = (len(message) + 1).to_bytes(2, "big") + b"S" + letter.encode() + locate.to_bytes(2, "big")
    assert PACKERS[letter](head, timestamp, *values) == head[:3] + message
