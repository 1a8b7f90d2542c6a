"""From texts of fields to a parsed block: what every format of text may leave to `FieldTexts`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.formats import Condition, CsvFormat, Field, Limits, Malformed, ParsedBlock, Pushdown, Schema
from runtime.formats.fieldtexts import FieldTexts, Places

FIELDS = (Field("n", "int64"), Field("s", "string"), Field("d", "decimal(5,2)", nullable=True))


def parsed(
    texts: list[list[bytes | None]], lengths: list[int] | None = None, pushdown: Pushdown | None = None, **settings: Any
) -> ParsedBlock:
    """Tuples of ten bytes, or of these lengths, the delimiter included."""
    reader = FieldTexts(Schema(FIELDS, CsvFormat(), **settings), pushdown or Pushdown())
    ends = np.cumsum(lengths or [10] * len(texts[0]))
    starts = np.concatenate(([0], ends[:-1]))
    return reader.parsed(Places(starts, ends - 1, ends), [pa.array(column, pa.binary()) for column in texts])


def rows(block: ParsedBlock) -> list[tuple[Any, ...]]:
    return [tuple(None if v is None else str(v) for v in row.values()) for row in block.rows.to_pylist()]


def test_texts_become_values_and_missing_ones_null_or_errors() -> None:
    block = parsed([[b"1", b"2", None], [b"a", None, b"c"], [b"1.25", b"", None]])
    assert rows(block) == [("1", "a", "1.25")]
    assert block.tuples == 3
    assert block.bad_tuples.tolist() == [1, 2]
    assert [(b.index, b.start, b.stop, b.field, b.expected) for b in block.bad] == [
        (1, 10, 19, "s", "string"),
        (2, 20, 29, "n", "int64"),
    ]
    assert all("nothing" in b.reason for b in block.bad)
    assert block.ends().tolist() == [10, 20, 30]


def test_a_missing_field_is_null_where_an_empty_text_is_not() -> None:
    block = parsed([[b"1", b"2"], [b"a", b"b"], [None, b""]], null_values=("NULL",))
    assert rows(block) == [("1", "a", None), ("2", "b", None)]
    assert block.nulled.tolist() == [1]
    block = parsed([[b"1", b"2"], [b"a", b"b"], [None, b"x"]], malformed_nullable=Malformed.SKIP)
    assert rows(block) == [("1", "a", None)]
    assert block.bad_tuples.tolist() == [1]


def test_tuples_that_are_too_long_are_bad_and_not_read() -> None:
    block = parsed([[b"1", b"x", b"3"], [b"a"] * 3, [None] * 3], [10, 50, 50], limits=Limits(tuple_bytes=20))
    assert rows(block) == [("1", "a", None)]
    assert [(b.index, b.field, b.expected) for b in block.bad] == [
        (1, "", "at most 20 bytes"),
        (2, "", "at most 20 bytes"),
    ]
    assert block.kept.tolist() == [0]


def test_conditions_and_projection_hold() -> None:
    wanted = Pushdown(("s",), (Condition("n", ">", 1),))
    reader = FieldTexts(Schema(FIELDS, CsvFormat()), wanted)
    assert [field.name for field in reader.fields] == ["n", "s"]
    block = parsed([[b"1", b"2", b"x"], [b"a", b"b", b"c"]], pushdown=wanted)
    assert rows(block) == [("b",)]
    assert block.kept.tolist() == [1]
    assert block.bad_tuples.tolist() == [2]
    assert reader.empty_rows.schema.names == ["s"]


def test_a_block_without_tuples() -> None:
    block = parsed([[], [], []])
    assert (block.tuples, block.rows.num_rows) == (0, 0)
