"""Artificial formats for tests of the formatter: states, order, errors."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from runtime.formats import (
    BadTuple,
    Block,
    Field,
    InputFormatIndexer,
    Malformed,
    ParsedBlock,
    Run,
    RunIndex,
    Schema,
    SettledIndex,
    TupleRange,
)

__all__ = ["BYTE_PREFIXED", "BYTE_PREFIXED_OR_FAIL", "ORDERED_LINES", "BytePrefixed", "OrderedLines", "prefixed"]

_SCHEMA = pa.schema([pa.field("word", pa.string())])
_BAD = b"?"


def prefixed(words: list[str]) -> bytes:
    """Return each word after a byte with its length."""
    return b"".join(bytes([len(word)]) + word.encode() for word in words)


class _Words(InputFormatIndexer):
    """Base of the parsers: one column; a word with a question mark is malformed, and one with ``!!`` raises an error.

    Only the last bad word is described.
    """

    def empty_rows(self) -> Any:
        return pa.RecordBatch.from_pydict({"word": []}, schema=_SCHEMA)

    def parse(self, block: Block) -> ParsedBlock:
        data = bytes(block.data)
        assert block.length == len(data)
        assert [s.start for s in block.sections] == [0, *[s.stop for s in block.sections]][: len(block.sections)]
        words, ends = self.split(data)
        if any(b"!!" in word for word in words):
            raise RuntimeError("a bug in the format")
        bad = np.array([i for i, word in enumerate(words) if _BAD in word], np.int64)
        good = [i for i, word in enumerate(words) if _BAD not in word]
        return ParsedBlock(
            rows=pa.RecordBatch.from_pydict({"word": [words[i].decode() for i in good]}, schema=_SCHEMA),
            tuples=len(words),
            ends=lambda: np.array(ends, np.int64),
            kept=None if len(good) == len(words) else np.array(good, np.int64),
            bad=tuple(
                BadTuple(i, ends[i - 1] if i else 0, ends[i], "word", "no question", "a question")
                for i in bad[-1:].tolist()
            ),
            bad_tuples=bad,
        )

    def split(self, data: bytes) -> tuple[list[bytes], list[int]]:
        """Return the words, and the offset after each word's tuple."""
        raise AssertionError


class _PrefixedIndex(RunIndex):
    def __init__(self, data: bytes) -> None:
        self._data = data

    def cut(self, state: int) -> TupleRange:
        place, first, last = state, -1, -1
        while place <= len(self._data):
            if place > 0:
                first, last = (place if first < 0 else first), place
            if place == len(self._data):
                break
            place += 1 + self._data[place]
        return TupleRange(first, last, place - len(self._data))


class BytePrefixed(_Words):
    """Format in which a byte gives the number of bytes that follow.

    The state is the number of bytes missing from the open tuple.
    """

    def index(self, run: Run) -> RunIndex:
        return _PrefixedIndex(run.data)

    def split(self, data: bytes) -> tuple[list[bytes], list[int]]:
        words, ends, place = [], [], 0
        while place < len(data):
            end = place + 1 + data[place]
            words.append(data[place + 1 : end])
            ends.append(end)
            place = end
        assert place == len(data), "a block of whole tuples"
        return words, ends

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        assert state == 1 + tail[0] - len(tail), "the state at the end of the stream"
        return None


class OrderedLines(_Words):
    """Lines; requires calls in stream order, buffer after buffer."""

    ordered: ClassVar[bool] = True

    def __init__(self) -> None:
        self.seen = bytearray()

    def index(self, run: Run) -> RunIndex:
        if b"!index" in run.data:
            raise RuntimeError("a bug in the index")
        self.seen += run.data
        data = run.data
        return SettledIndex(
            TupleRange(data.find(b"\n") + 1, data.rfind(b"\n") + 1) if b"\n" in data else TupleRange(-1, -1)
        )

    def split(self, data: bytes) -> tuple[list[bytes], list[int]]:
        words = data.split(b"\n")[:-1]
        return words, np.cumsum([len(word) + 1 for word in words]).tolist()

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        del state
        return tail + b"\n"


class _Format:
    """Format that makes indexers of a class."""

    def __init__(self, indexer: type[_Words]) -> None:
        self._indexer = indexer

    @property
    def name(self) -> str:
        """Name for messages."""
        return self._indexer.__name__

    def indexer(self, schema: Any, pushdown: Any) -> InputFormatIndexer:
        """Return a new indexer."""
        del schema, pushdown
        return self._indexer()


BYTE_PREFIXED = Schema((Field("word", "string"),), _Format(BytePrefixed))
BYTE_PREFIXED_OR_FAIL = Schema((Field("word", "string"),), _Format(BytePrefixed), malformed=Malformed.FAIL)
ORDERED_LINES = Schema((Field("word", "string"),), _Format(OrderedLines))
