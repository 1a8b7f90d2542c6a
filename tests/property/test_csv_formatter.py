"""Any text, any cutting, any order, any number of threads: the rows are those of the text split at its line ends.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.formats import CsvFormat, Field, InputFormatter, Schema
from tests.generators.text_buffers import cut, cuts, format_all, format_with_threads, rows_of
from tests.harness.examples import examples

SCHEMA = Schema((Field("n", "int16"), Field("word", "string"), Field("flag", "bool")), CsvFormat())
GOOD = st.tuples(
    st.integers(-(2**15), 2**15 - 1),
    st.text(st.characters(codec="utf-8", exclude_characters=",\r\n"), max_size=6),
    st.booleans(),
).map(lambda row: f"{row[0]},{row[1]},{str(row[2]).lower()}".encode())
ODD = st.one_of(st.text("0123456789,-x \xe4\r", max_size=12).map(str.encode), st.binary(max_size=10))
LINES = st.lists(st.one_of(GOOD, GOOD, GOOD, ODD), max_size=30)


def expected_rows(text: bytes) -> tuple[list[tuple[object, ...]], int]:
    """Line by line, each alone in the reader: the good ones, and how many there are in all."""
    rows: list[tuple[object, ...]] = []
    count = 0
    for line in text.split(b"\n"):
        tuple_ = line[:-1] if line.endswith(b"\r") else line
        if not tuple_:
            continue
        count += 1
        fields = tuple_.split(b",")
        if len(fields) != 3 or b"\r" in tuple_:
            continue
        try:
            table = pacsv.read_csv(
                pa.BufferReader(b"\n" + tuple_ + b"\n"),
                read_options=pacsv.ReadOptions(column_names=["n", "word", "flag"], use_threads=False),
                parse_options=pacsv.ParseOptions(quote_char=False, double_quote=False),
                convert_options=pacsv.ConvertOptions(
                    column_types=SCHEMA.arrow_schema(), null_values=[], strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            continue
        rows += [tuple(row.values()) for row in table.to_pylist()]
    return rows, count


@given(st.data(), LINES, st.booleans(), st.sampled_from([b"\n", b"\r\n"]))
def test_any_cutting_and_order(data: st.DataObject, lines: list[bytes], last_delimiter: bool, end: bytes) -> None:
    """Rows 1-3, 6-8, 10, 23, 24: good rows are all there in order, bad ones are all counted and described."""
    text = end.join(lines) + (end if last_delimiter else b"")
    raws = data.draw(st.permutations(cut(text, data.draw(cuts(text)))))
    batches = format_all(InputFormatter(SCHEMA), raws, at_once=data.draw(st.sampled_from([1, 2, 5, 100])))
    rows, count = expected_rows(text)
    assert rows_of(batches) == rows
    assert sum(batch.tuples for batch in batches) == count
    assert sum(batch.bad for batch in batches) == count - len(rows)
    for before, after in itertools.pairwise(batches):
        assert (before.to_place, before.end_offset) == (after.from_place, after.offset)
    letters = [letter for batch in batches for letter in batch.dead]
    assert len(letters) == count - len(rows)
    for letter in letters:
        assert text[letter.byte_offset : letter.byte_offset + len(letter.data)] == letter.data
        stop = text.find(b"\n", letter.byte_offset)  # without a delimiter a tuple ends with the stream
        ends_in = [raw.sequence_number for raw in raws if raw.offset <= stop < raw.offset + len(raw.data)]
        assert letter.sequence_number == (ends_in[0] if stop >= 0 else len(raws))


@settings(max_examples=examples(20))
@given(st.data(), LINES, st.integers(1, 6), st.integers(0, 1_000))
def test_any_number_of_threads(data: st.DataObject, lines: list[bytes], threads: int, seed: int) -> None:
    """Row 4: the same from several threads at once."""
    text = b"\n".join(lines)
    raws = cut(text, data.draw(cuts(text)))
    batches = format_with_threads(InputFormatter(SCHEMA), raws, threads, seed, at_once=1 + seed % 7)
    assert rows_of(batches) == expected_rows(text)[0]


TYPES = [
    "int8",
    "uint8",
    "int32",
    "int64",
    "uint64",
    "float32",
    "float64",
    "bool",
    "char",
    "string",
    "date",
    "decimal(9,2)",
    "timestamp(ns)",
]
TOKENS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.sampled_from(
        [
            "",
            "1e5",
            "0x1f",
            "-0x1f",
            "+1",
            " 7",
            "7 ",
            "007",
            "nan",
            "-inf",
            "true",
            "TRUE",
            "True",
            "0",
            "1",
            "2026-11-21",
            "2026-11-21 10:00:00",
            "12.345",
            "-1.50",
            "1" * 40,
            "\xe4",
            "ab",
            "2026-13-01",
        ]
    ),
    st.text("0123456789-+.eExX aT:", max_size=8),
)


@pytest.mark.parametrize("type_name", TYPES)
@settings(max_examples=examples(40))
@given(token=TOKENS)
def test_a_value_is_judged_without_its_neighbours(type_name: str, token: str) -> None:
    """Row 23: whether a text is a value does not depend on what else is bad in its block, nor does the value."""
    formatter = InputFormatter(Schema((Field("guard", "int8"), Field("value", type_name)), CsvFormat()))
    line = b"1,%s\n" % token.encode()
    (alone,) = [batch for batch in format_all(formatter, cut(line, [])) if batch.tuples]
    beside_bad = format_all(formatter, cut(b"x,1\n" + line + b"y,2\n", []))
    assert repr(rows_of(beside_bad)) == repr(rows_of([alone]))
    assert sum(len(batch.dead) for batch in beside_bad) == 2 + len(alone.dead)
