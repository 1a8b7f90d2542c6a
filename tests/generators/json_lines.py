"""Blocks of JSON lines, parsed and checked."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from runtime.formats.format import Block, ParsedBlock, Section
from runtime.formats.jsonlines import JsonFormat, JsonIndexer
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Field, Schema

__all__ = ["POINT", "indexer", "parse", "parse_block"]

POINT: Final = (Field("x", "int64"), Field("y", "string", nullable=True))
_EVERYTHING: Final = Pushdown()


def indexer(*fields: Field, pushdown: Pushdown = _EVERYTHING, **options: Any) -> JsonIndexer:
    """Return an indexer for a schema of these fields."""
    return JsonFormat().indexer(Schema(fields, format=JsonFormat(), **options), pushdown)


def parse(reader: JsonIndexer, *lines: str | bytes, end: bytes = b"\n") -> ParsedBlock:
    """Parse these lines as one block."""
    text = b"".join((line.encode() if isinstance(line, str) else line) + end for line in lines)
    return parse_block(reader, text)


def parse_block(reader: JsonIndexer, text: bytes) -> ParsedBlock:
    """Parse a block without conditions, and check it."""
    parsed = reader.parse(Block([text], [Section(0, len(text))]))
    _check(parsed, text)
    return parsed


def _check(parsed: ParsedBlock, text: bytes) -> None:
    kept = np.arange(parsed.tuples) if parsed.kept is None else parsed.kept
    assert len(kept) == parsed.rows.num_rows
    assert sorted([*kept.tolist(), *parsed.bad_tuples.tolist()]) == list(range(parsed.tuples))
    assert len(parsed.ends()) == parsed.tuples
    assert [bad.index for bad in parsed.bad] == parsed.bad_tuples[: len(parsed.bad)].tolist()
    for bad in parsed.bad:
        whole = text[bad.start : int(parsed.ends()[bad.index])]
        assert text[bad.start : bad.stop].rstrip(b"\r\n") == whole.rstrip(b"\r\n")
    parsed.rows.validate(full=True)
