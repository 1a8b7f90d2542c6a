"""Rows that came too late for a derived stream, as dead letters."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa

from runtime.formats import DeadLetter

__all__ = ["late_letters"]

_MOST_LETTERS: Final = 1_000
"""Greatest number of letters for one stream and epoch."""
_LETTER_BYTES: Final = 1_024
_NO_ORIGIN: Final = -1
"""A row of a stream has no place in an origin."""


def late_letters(stream: str, late: list[tuple[str, pa.RecordBatch]]) -> tuple[DeadLetter, ...]:
    """Return a letter for each of these rows, the first of them; ``late``: relation and rows.

    Times are written by Arrow, as Python has none outside of the years 1 to 9999.
    """
    letters: list[DeadLetter] = []
    for relation, rows in late:
        described = rows.slice(0, _MOST_LETTERS - len(letters))
        columns = [each.cast(pa.string()) if pa.types.is_temporal(each.type) else each for each in described.columns]
        for row in pa.RecordBatch.from_arrays(columns, names=described.schema.names).to_pylist():
            letters.append(
                DeadLetter(
                    origin_id=_NO_ORIGIN,
                    sequence_number=0,
                    byte_offset=0,
                    row=len(letters),
                    field="",
                    expected=f"a row of {relation} that is not behind its watermark",
                    reason=f"late for stream {stream}",
                    data=msgspec.json.encode(row)[:_LETTER_BYTES],
                )
            )
    return tuple(letters)
