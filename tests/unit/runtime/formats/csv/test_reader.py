"""Few plain tuples are read as Arrow's reader reads them, or left to it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.formats import CsvFormat, Field, Schema
from runtime.formats.csv.reader import FewTuples
from runtime.relations import FEED_SCHEMA

SCHEMA = Schema((Field("number", "int64"), Field("text", "string"), Field("other", "int64")), CsvFormat())
VALUES = st.one_of(
    st.integers(-5, 1 << 64).map(str),
    st.integers(0, 99).map(lambda number: f"{number:05}"),
    st.text("aZ09 _+-.\"'\té\r", max_size=4),
)
WIDTHS = st.sampled_from([3, 3, 3, 3, 2, 4])
LINES = st.lists(WIDTHS.flatmap(lambda width: st.lists(VALUES, min_size=width, max_size=width)), max_size=6)


def arrow(text: bytes, fields: tuple[Field, ...] = SCHEMA.fields) -> pa.Table | None:
    """What Arrow's reader makes of a text; None if it refuses it."""
    types = {field.name: field.parser.arrow_type for field in fields}
    try:
        return pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(column_names=["number", "text", "other"], use_threads=False),
            parse_options=pacsv.ParseOptions(quote_char=False, double_quote=False),
            convert_options=pacsv.ConvertOptions(
                column_types=types, include_columns=list(types), null_values=[], strings_can_be_null=False
            ),
        )
    except pa.ArrowInvalid:
        return None


@given(LINES)
def test_what_is_read_is_what_arrow_reads(lines: list[list[str]]) -> None:
    text = "".join(",".join(line) + "\n" for line in lines).encode()
    found = FewTuples(SCHEMA, b",", SCHEMA.fields).read(text)
    if found is not None:
        assert found.equals(arrow(text))


def test_plain_tuples_are_read() -> None:
    """The property above would hold of a reader that reads nothing."""
    text = b"7,abc,007\n9223372036854775807,,0\n"
    found = FewTuples(SCHEMA, b",", SCHEMA.fields).read(text)
    assert found is not None
    assert found.to_pylist() == [
        {"number": 7, "text": "abc", "other": 7},
        {"number": 2**63 - 1, "text": "", "other": 0},
    ]


def test_only_wanted_columns_are_read() -> None:
    wanted = (SCHEMA.fields[2], SCHEMA.fields[1])
    found = FewTuples(SCHEMA, b",", wanted).read(b"x,abc,5\n")
    assert found is not None
    assert found.to_pylist() == [{"other": 5, "text": "abc"}]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1,a,2",
        b"1,a\n",
        b"1,a,2\n\n",
        b"-1,a,2\n",
        b"1_0,a,2\n",
        b" 1,a,2\n",
        b"9223372036854775808,a,2\n",
        b"1,\xc3\xa9,2\n",
        b"1,a\r,2\n",
        b"1,a,2\n" * 4096,
    ],
    ids=["nothing", "open", "narrow", "blank line", "sign", "underscore", "blank", "large", "not ASCII", "CR", "many"],
)
def test_the_rest_is_left_to_arrow(text: bytes) -> None:
    assert FewTuples(SCHEMA, b",", SCHEMA.fields).read(text) is None


def test_columns_of_other_types_are_left_to_arrow() -> None:
    schema = Schema((Field("number", "int32"), Field("text", "string")), CsvFormat())
    assert FewTuples(schema, b",", schema.fields).read(b"1,a\n") is None


def test_numbers_that_may_be_null_are_left_to_arrow() -> None:
    schema = Schema((Field("number", "int64", nullable=True),), CsvFormat(), null_values=("0",))
    assert FewTuples(schema, b",", schema.fields).read(b"0\n") is None


def test_the_feed_is_plain() -> None:
    found = FewTuples(FEED_SCHEMA, b",", FEED_SCHEMA.fields).read(b"1,17,3,4,B,5,6,ACME\n")
    assert found is not None
    assert list(found.to_pylist()[0].values()) == [1, 17, 3, 4, "B", 5, 6, "ACME"]
