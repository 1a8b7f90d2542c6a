"""`runtime.formats.assembly.blocks`: how much is parsed at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from runtime.formats import COALESCE_BYTES, CsvFormat, Field, InOrder, InputFormatter, RawBuffer, Schema
from runtime.formats.csv import CsvIndexer
from runtime.formats.format import Block, ParsedBlock

_LINE = b"123456,a text of some length\n"
_BUFFER_BYTES = 1 << 18


class _Watched(CsvIndexer):
    """Notes how long the blocks are."""

    lengths: list[int]

    def parse(self, block: Block) -> ParsedBlock:
        self.lengths.append(block.length)
        return super().parse(block)


class _WatchedFormat(CsvFormat, frozen=True):
    """Makes one indexer, which the test can look at."""

    lengths: list[int] = []  # noqa: RUF012 (msgspec copies it)

    def indexer(self, schema: Any, pushdown: Any) -> _Watched:
        indexer = _Watched(schema, self, pushdown)
        indexer.lengths = self.lengths
        return indexer


def test_a_calls_rows_are_parsed_in_cache_sized_blocks_in_order() -> None:
    data = _LINE * (5 * COALESCE_BYTES // len(_LINE))
    raws = [
        RawBuffer(0, i + 1, data[start : start + _BUFFER_BYTES], start)
        for i, start in enumerate(range(0, len(data), _BUFFER_BYTES))
    ]
    form = _WatchedFormat()
    formatter = InputFormatter(Schema((Field("n", "int64"), Field("text", "string")), form))

    odd = formatter.format(raws[1::2]).batches  # bodies without neighbours: each a batch of its own
    even = formatter.format(raws[::2]).batches

    assert len(form.lengths) >= 4
    assert max(form.lengths) < COALESCE_BYTES + _BUFFER_BYTES
    ready = InOrder(len(raws) * 4).add([*even, *odd, *formatter.finish(0)])
    assert sum(batch.rows.num_rows for batch in ready) == len(data) // len(_LINE)
    assert ready[-1].end_offset == len(data)
    assert all(left.end_offset == right.offset for left, right in pairwise(ready))
