"""Frames of changes: whatever the bytes, a decoder returns frames or raises `FrameError`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from deltabook.wire.results import FrameDecoder, FrameError, FrameHeader, encode_frame

ROWS: Any = pa.table({"symbol": ["ACME", "GLOBEX"], "volume": [5, 7], "weight": [1, -1]})
HEADER = FrameHeader("changes", "depth", 3, 4)
FRAME = encode_frame(HEADER, ROWS)


def test_a_frame_is_read_as_it_was_written() -> None:
    (frame,) = FrameDecoder().feed(FRAME)
    assert frame.header == HEADER
    assert frame.rows is not None
    assert frame.rows.equals(ROWS)


@pytest.mark.parametrize("bit", [1, 128])
def test_damaged_frames_raise_frame_errors(bit: int) -> None:
    """pyarrow reports damage by errors of four classes, and JSON has one of its own for text that is not UTF-8."""
    refused = 0
    for at in range(8, len(FRAME)):
        data = FRAME[:at] + bytes((FRAME[at] ^ bit,)) + FRAME[at + 1 :]
        try:
            list(FrameDecoder().feed(data))
        except FrameError:
            refused += 1
    assert refused > 100


def test_a_frame_above_the_limit_is_refused() -> None:
    with pytest.raises(FrameError, match="expected a frame of at most 10 bytes, was"):
        list(FrameDecoder(10).feed(FRAME))
