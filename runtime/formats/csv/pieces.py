"""Blocks that were parsed differently from what they are: in parts, or without a byte order mark."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from runtime.formats.csv.delimiters import BYTE_ORDER_MARK
from runtime.formats.format import BadTuple, ParsedBlock

__all__ = ["inserted", "joined", "without_mark"]


def joined(left: ParsedBlock, right: ParsedBlock, middle: int) -> ParsedBlock:
    """Join two halves; ``middle`` is the start of the right one."""
    bad = [msgspec.structs.replace(b, index=b.index + left.tuples) for b in _moved(right.bad, middle, 0)]
    return ParsedBlock(
        rows=pa.Table.from_batches([left.rows, right.rows]).combine_chunks().to_batches()[0]
        if left.rows.num_rows + right.rows.num_rows
        else left.rows,
        tuples=left.tuples + right.tuples,
        ends=lambda: np.concatenate((left.ends(), right.ends() + middle)),
        kept=np.concatenate((_kept(left), _kept(right) + left.tuples)),
        bad=(*left.bad, *bad),
        bad_tuples=np.concatenate((left.bad_tuples, right.bad_tuples + left.tuples)),
        nulled=np.concatenate((left.nulled, right.nulled + left.tuples)),
    )


def inserted(rest: ParsedBlock, alone: ParsedBlock, index: int, ends: Any) -> ParsedBlock:
    """Insert a tuple that was removed from a block at this index; ``ends`` are those of all tuples."""
    start = int(ends[index - 1]) if index else 0
    kept = _kept(rest)
    rows = rest.rows
    if alone.rows.num_rows:
        place = int(np.searchsorted(kept, index))
        rows = pa.Table.from_batches([rows[:place], alone.rows, rows[place:]]).combine_chunks().to_batches()[0]
    bad = [
        msgspec.structs.replace(b, index=b.index + (b.index >= index))
        for b in _moved(rest.bad, int(ends[index]) - start, start)
    ]
    own = [msgspec.structs.replace(b, index=index, start=b.start + start, stop=b.stop + start) for b in alone.bad]
    return ParsedBlock(
        rows=rows,
        tuples=rest.tuples + alone.tuples,
        ends=lambda: ends,
        kept=_with(kept, _kept(alone), index),
        bad=tuple(sorted((*bad, *own), key=attrgetter("index"))),
        bad_tuples=_with(rest.bad_tuples, alone.bad_tuples, index),
        nulled=_with(rest.nulled, alone.nulled, index),
    )


def _with(indices: Any, alone: Any, index: int) -> Any:
    """Insert indices for a tuple, and move those after it."""
    place = int(np.searchsorted(indices, index))
    return np.concatenate((indices[:place], alone + index, indices[place:] + 1))


def without_mark(parsed: ParsedBlock, place: int) -> ParsedBlock:
    """Shift the offsets to those with a byte order mark at this place."""

    def ends() -> Any:
        offsets = parsed.ends()
        return offsets + len(BYTE_ORDER_MARK) * (offsets > place)

    return msgspec.structs.replace(
        parsed, ends=ends, delimiters=None, bad=tuple(_moved(parsed.bad, len(BYTE_ORDER_MARK), place))
    )


def _moved(bad: tuple[BadTuple, ...], by: int, behind: int) -> list[BadTuple]:
    return [msgspec.structs.replace(b, start=b.start + by, stop=b.stop + by) if b.start >= behind else b for b in bad]


def _kept(parsed: ParsedBlock) -> Any:
    return np.arange(parsed.tuples) if parsed.kept is None else parsed.kept
