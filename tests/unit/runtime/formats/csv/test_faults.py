"""Bad tuples: each is found, described where it stands, and costs nothing else.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import random

import pytest

from runtime.formats import CsvFormat, Field, InputFormatter, Limits, Schema
from runtime.formats.csv import indexer
from tests.generators.text_buffers import cut, format_all, rows_of

FIELDS = (Field("n", "int32"), Field("word", "string"), Field("x", "decimal(6,2)"), Field("t", "timestamp(ms)"))
GOOD = "%d,w\xe4%d,1.25,2026-11-21 10:00:00\n"
BAD = [
    ("x,w,1.25,2026-11-21\n", "n"),
    ("99999999999,w,1.25,2026-11-21\n", "n"),
    ("1,\udcff,1.25,2026-11-21\n", "word"),
    ("1,w,12345.67,2026-11-21\n", "x"),
    ("1,w,1.25,2026-11-21 25:00:00\n", "t"),
    ("x,w,y,z\n", "n"),
    ("1,w,1.25\n", ""),
    ("1,w,1.25,2026-11-21,5\n", ""),
    ("1,w\rw,1.25,2026-11-21\n", ""),
    ("1,%s,1.25,2026-11-21\n" % ("w" * 5000), ""),
]


@pytest.mark.parametrize("share", [0.0005, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("quoting", [False, True])
@pytest.mark.parametrize("cuts", [0, 2])
def test_every_kind_of_fault(share: float, quoting: bool, cuts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows 23, 24: few and many bad tuples of all kinds between good ones, in one block of some hundred kilobytes."""
    monkeypatch.setattr(indexer, "_MOST_CUTS", cuts)
    seeded = random.Random(f"{share} {quoting}")
    schema = Schema(FIELDS, CsvFormat(quoting=quoting), limits=Limits(tuple_bytes=4096, described=10_000))
    lines, numbers, wanted, offset = [], [], [], 0
    for number in range(4000):
        if seeded.random() < share:
            text, field = seeded.choice(BAD)
            wanted.append((number, offset, field))
        else:
            text = GOOD % (number, number)
            if quoting and number % 3 == 0:
                text = text.replace("w\xe4", '"w\n,""').replace(",1.25", '",1.25')
            numbers.append(number)
        lines.append(text.encode("utf-8", "surrogateescape"))
        offset += len(lines[-1])
    batches = format_all(InputFormatter(schema, described=10_000), cut(b"".join(lines), []))
    assert [row[0] for row in rows_of(batches)] == numbers
    letters = [letter for batch in batches for letter in batch.dead]
    assert [(letter.row, letter.byte_offset, letter.field) for letter in letters] == wanted
    assert sum(batch.bad for batch in batches) == len(wanted)


def test_a_description_says_what_was_expected() -> None:
    """Row 23: field, type and bytes; of a tuple with several malformed values the first field."""
    schema = Schema(FIELDS, CsvFormat())
    (batch,) = format_all(InputFormatter(schema), cut(b"1,w,oops,later\n1,2\n", []))
    first, second = batch.dead
    assert (first.field, first.expected, first.reason) == (
        "x",
        "decimal(6,2)",
        "b'oops' is not a value of decimal(6,2)",
    )
    assert (second.field, second.expected, second.reason) == ("", "4 fields", "2 fields")


def test_malformed_values_of_nullable_fields_beside_bad_tuples() -> None:
    """Row 23: they become NULL and are counted, those of tuples that are bad for another reason are not."""
    schema = Schema(
        (Field("a", "int8", nullable=True), Field("b", "int8"), Field("c", "date", nullable=True)), CsvFormat()
    )
    batches = format_all(InputFormatter(schema), cut(b"x,1,y\nx,y,y\n1,2,\n300,3,2026-02-30\n", []))
    assert rows_of(batches) == [(None, 1, None), (1, 2, None), (None, 3, None)]
    assert [sum(batch.nulled for batch in batches), sum(batch.bad for batch in batches)] == [4, 1]


@pytest.mark.parametrize(
    "number", ["0x7f", "0x1ff", "-0x1", "-0", "+1", " 7\t", "0" * 60 + "1", "-" + "0" * 500 + "9", "-"]
)
def test_many_doubtful_numbers_are_judged_like_one(number: str) -> None:
    """Row 23: where many numbers are out of range, the judge of each agrees with the reader of columns."""
    schema = Schema((Field("n", "int8"), Field("m", "int8")), CsvFormat())
    alone = format_all(InputFormatter(schema), cut(f"{number},1\n".encode(), []))
    among = format_all(InputFormatter(schema), cut(("1000,1\n" * 50 + f"{number},1\n" + "1000,1\n" * 50).encode(), []))
    assert rows_of(among) == rows_of(alone)
    assert sum(batch.bad for batch in among) == 100 + sum(batch.bad for batch in alone)
