"""Projection and filter before parsing: fewer columns, fewer rows, the same numbers of tuples.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import operator

import pyarrow as pa
import pytest

from runtime.formats import Condition, CsvFormat, Field, InputFormatter, Pushdown, Schema, value_parser
from tests.generators.text_buffers import cut, format_all, in_pieces, rows_of

_SAID = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
SCHEMA = Schema((Field("n", "int64"), Field("maybe", "int64", nullable=True), Field("word", "string")), CsvFormat())
TEXT = b"".join(b"%d,%s,w%d\n" % (n, b"" if n % 3 == 0 else b"%d" % (n % 5), n) for n in range(60))


@pytest.mark.parametrize(
    ("comparison", "value", "kept"),
    [
        ("=", 2, [2]),
        ("<>", 2, [1, 3]),
        ("<", 2, [1]),
        ("<=", 2, [1, 2]),
        (">", 2, [3]),
        (">=", 2, [2, 3]),
    ],
)
def test_comparisons(comparison: str, value: int, kept: list[int]) -> None:
    """Row 27: each comparison keeps what SQL keeps; NULL is never kept."""
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, 2, 3, None])})
    mask = Pushdown(conditions=(Condition("n", comparison, value),)).wanted(rows)  # type: ignore[arg-type]
    assert rows.filter(mask).column(0).to_pylist() == kept


@pytest.mark.parametrize("type_name", ["int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("comparison", list(_SAID))
def test_integers_are_compared_exactly(type_name: str, comparison: str) -> None:
    """Row 27: with values beyond the column's type and between two integers too; Arrow alone refuses some of them."""
    parser = value_parser(type_name)
    bits = parser.arrow_type.bit_width
    low, high = (0, 2**bits - 1) if type_name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    column = [low, low + 1, 0, 1, 2, high - 1, high]
    rows = pa.RecordBatch.from_arrays([pa.array([*column, None], parser.arrow_type)], ["n"])
    infinite = (float("inf"), float("-inf"), float("nan"), 2.0**64, -1e300)
    for value in (*column, low - 1, high + 1, 1.5, -0.5, 2.0**53, *infinite):
        mask = Pushdown(conditions=(Condition("n", comparison, value),)).wanted(rows)  # type: ignore[arg-type]
        assert mask.to_pylist() == [*(_SAID[comparison](n, value) for n in column), False]


@pytest.mark.parametrize("condition", [(), (Condition("n", ">", 9),)])
def test_no_columns_are_rows_all_the_same(condition: tuple[Condition, ...]) -> None:
    """Row 27: where tuples are only counted."""
    batches = format_all(InputFormatter(SCHEMA, Pushdown((), condition)), in_pieces(TEXT, 100))
    assert sum(batch.rows.num_rows for batch in batches) == (50 if condition else 60)
    assert {batch.rows.num_columns for batch in batches} == {0}


def test_conditions_must_all_hold() -> None:
    """Row 27: and without any there is no mask at all."""
    rows = pa.RecordBatch.from_pydict({"n": pa.array([1, 2, 3]), "w": pa.array(["a", "b", "b"])})
    both = Pushdown(conditions=(Condition("n", ">", 1), Condition("w", "=", "b"), Condition("n", "<", 3)))
    assert both.wanted(rows).to_pylist() == [False, True, False]
    assert Pushdown().wanted(rows) is None
    assert Pushdown().parsed_columns is None
    assert Pushdown(columns=("w",), conditions=(Condition("n", ">", 1),)).parsed_columns == frozenset("nw")


@pytest.mark.parametrize("size", [1, 7, 100, 10_000])
@pytest.mark.parametrize("at_once", [1, 6, 1_000])
def test_filtered_rows_keep_their_places(size: int, at_once: int) -> None:
    """Rows 16, 27: tuples that a condition leaves out are counted, and the others keep their numbers and offsets."""
    pushdown = Pushdown(columns=("word",), conditions=(Condition("maybe", ">=", 3),))
    formatter = InputFormatter(SCHEMA, pushdown)
    batches = format_all(formatter, in_pieces(TEXT, size)[::-1], finish=False, at_once=at_once)
    wanted = [n for n in range(60) if n % 3 and n % 5 >= 3]
    assert rows_of(batches) == [(f"w{n}",) for n in wanted]
    assert [number for batch in batches for number in batch.tuple_numbers.tolist()] == wanted
    ends = [i + 1 for i, byte in enumerate(TEXT) if byte == 10]
    assert [end for batch in batches for end in batch.row_ends.tolist()] == [ends[n] for n in wanted]
    counts = [sum(getattr(batch, name) for batch in batches) for name in ("tuples", "filtered", "bad")]
    assert counts == [60, 60 - len(wanted), 0]


def test_filtered_is_not_bad() -> None:
    """Rows 23, 27: a malformed tuple is counted as such, whether or not a condition might have left it out."""
    formatter = InputFormatter(SCHEMA, Pushdown(conditions=(Condition("n", ">", 2),)))
    batches = format_all(formatter, cut(b"1,1,a\nx,1,b\n3,1,c\n4,1\n5,5,d\n", [8, 20]), finish=False, at_once=3)
    assert rows_of(batches) == [(3, 1, "c"), (5, 5, "d")]
    assert [(sum(b.tuples for b in batches), sum(b.bad for b in batches), sum(b.filtered for b in batches))] == [
        (5, 2, 1)
    ]
    assert [letter.row for batch in batches for letter in batch.dead] == [1, 3]
