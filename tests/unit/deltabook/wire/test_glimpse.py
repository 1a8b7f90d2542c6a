"""The end of a GLIMPSE snapshot, as bytes and back."""

from __future__ import annotations

import pytest

from deltabook.wire.errors import WireError
from deltabook.wire.glimpse import encode_snapshot_end, parse_snapshot_end


def test_the_end_of_a_snapshot_is_g_and_twenty_digits() -> None:
    assert encode_snapshot_end(61_235) == b"G               61235"
    assert parse_snapshot_end(b"G00000000000000061235") == 61_235
    assert parse_snapshot_end(b"G61235               ") == 61_235
    assert parse_snapshot_end(encode_snapshot_end(10**20 - 1)) == 10**20 - 1


@pytest.mark.parametrize("message", [b"", b"G", b"F" + b"1" * 20, b"G" + b" " * 20, b"G" + b"x" * 20, b"G" + b"1" * 21])
def test_another_message_is_refused(message: bytes) -> None:
    with pytest.raises(WireError, match="20 digits"):
        parse_snapshot_end(message)


@pytest.mark.parametrize("sequence", [0, -1, 10**20])
def test_a_number_that_no_message_has_is_refused(sequence: int) -> None:
    with pytest.raises(WireError):
        encode_snapshot_end(sequence)
