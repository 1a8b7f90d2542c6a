"""Operations on texts of fields as binary Arrow arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["content", "is_text", "matches", "one_chunk", "to_numpy", "trimmed", "undecodable", "without"]


def to_numpy(mask: Any) -> Any:
    """Return a boolean Arrow array without NULL as a numpy array that can be changed."""
    return mask.to_numpy(zero_copy_only=False).astype(np.bool_)


def matches(tokens: Any, pattern: str) -> Any:
    """Return which texts contain a match of an RE2 pattern."""
    return to_numpy(pc.match_substring_regex(tokens, pattern))


def trimmed(texts: Any) -> Any:
    """Return texts, a string or binary array, without the blanks and tabs around them."""
    if pa.types.is_binary(texts.type):
        return pc.ascii_trim(_as_text(texts), characters=" \t").cast(pa.binary())
    return pc.ascii_trim(texts, characters=" \t")


def _as_text(tokens: Any) -> Any:
    """Return the same bytes as an unchecked text array."""
    return pa.Array.from_buffers(pa.string(), len(tokens), tokens.buffers(), offset=tokens.offset)


def without(tokens: Any, skip: Any, instead: bytes) -> Any:
    """Return the texts, with ``instead`` in place of those that ``skip`` marks."""
    return pc.if_else(pa.array(skip), pa.scalar(instead, pa.binary()), tokens) if skip.any() else tokens


def content(texts: Any) -> bytes:
    """Return the concatenated bytes of the texts."""
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets, np.int32)
    return bytes(data[int(places[texts.offset]) : int(places[texts.offset + len(texts)])]) if data else b""


def one_chunk(column: Any) -> Any:
    """Return a chunked array as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def is_text(tokens: Any) -> bool:
    """Return True if all texts are UTF-8."""
    try:
        tokens.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def undecodable(tokens: Any) -> Any:
    """Return which texts are not UTF-8; if there are any, the texts that are not ASCII are checked one by one."""
    wrong = np.zeros(len(tokens), np.bool_)
    if not is_text(tokens):
        doubtful = np.flatnonzero(~to_numpy(pc.string_is_ascii(_as_text(tokens))))
        wrong[doubtful] = [not _decodes(text) for text in tokens.take(pa.array(doubtful)).to_pylist()]
    return wrong


def _decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
