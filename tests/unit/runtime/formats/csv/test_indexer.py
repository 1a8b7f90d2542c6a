"""What a CSV stream may look like, through the whole formatter and any cut of the buffers.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import pytest

from runtime.formats import Condition, CsvFormat, Field, InputFormatter, Limits, Pushdown, Schema
from tests.generators.text_buffers import cut, format_all, in_pieces, rows_of

FIELDS = (Field("n", "int64"), Field("word", "string"))


def rows(text: bytes, dialect: CsvFormat, at: list[int] | None = None) -> list[tuple[object, ...]]:
    """All rows of a text of numbers and words."""
    return rows_of(format_all(InputFormatter(Schema(FIELDS, dialect)), cut(text, at or [])))


def everywhere(text: bytes) -> list[int]:
    """Cuts after every byte."""
    return list(range(1, len(text)))


@pytest.mark.parametrize(
    ("tuple_delimiter", "field_delimiter"),
    [
        (b"\n", b"\t"),
        (b"|", b","),
        (b";", b"|"),
        (b"\0", b" "),
        (b"\r\n", b","),
        (b"||", b"|"[:0] or b","),
        (b"\r", b","),
    ],
)
def test_delimiters(tuple_delimiter: bytes, field_delimiter: bytes) -> None:
    """Row 17: both delimiters are the schema's choice; other line ends are then ordinary characters."""
    ends = "" if tuple_delimiter == b"\n" else "\n" if b"\r" in tuple_delimiter else "\r\n"
    words = ["a", f"b{ends}c", '"quoted"', "", ends]
    text = b"".join(b"%d%s%s%s" % (n, field_delimiter, word.encode(), tuple_delimiter) for n, word in enumerate(words))
    for at in ([], everywhere(text)):
        assert rows(text, CsvFormat(tuple_delimiter, field_delimiter), at) == list(enumerate(words))


def test_text_that_leaves_no_stand_in() -> None:
    """Row 17: a line end inside a tuple needs a control character that does not occur near it, not in the stream."""
    controls = bytes(code for code in range(1, 32) if code not in b"\n\r\t").decode()
    words = ["x\ny", controls, "\r", controls, "a\r\nb", f"{controls}\n"]
    text = b"".join(b"%d\t%s|" % (n, word.encode()) for n, word in enumerate(words))
    batches = format_all(InputFormatter(Schema(FIELDS, CsvFormat(b"|", b"\t"))), cut(text, []))
    assert rows_of(batches) == list(enumerate(words))[:-1]
    (letter,) = [letter for batch in batches for letter in batch.dead]
    assert letter.row == 5
    assert text[letter.byte_offset :].startswith(b"5\t")


@pytest.mark.parametrize("dialect", [CsvFormat(header=True), CsvFormat(b"||", header=True)])
def test_header(dialect: CsvFormat) -> None:
    """Row 17: the stream's first tuple is skipped, and only that."""
    end = dialect.tuple_delimiter
    text = end.join([b"n,word", b"1,a", b"n,word", b"2,b", b""])
    for at in ([], everywhere(text)):
        formatter = InputFormatter(Schema(FIELDS, dialect))
        batches = format_all(formatter, cut(text, at))
        assert rows_of(batches) == [(1, "a"), (2, "b")]
        assert sum(batch.bad for batch in batches) == 1


def test_empty_tuples_and_empty_fields() -> None:
    """Rows 7, 17: nothing between two delimiters is no tuple, an empty field is an empty text."""
    text = b"\n\n1,\n\r\n\n2,b\r\n\n"
    for at in ([], everywhere(text)):
        assert rows(text, CsvFormat(), at) == [(1, ""), (2, "b")]


def test_trim() -> None:
    """Row 17: surrounding blanks go, inside quotes too; without it they are part of a text."""
    text = b' 1 ,\t a b \n2 ,  \n3," c "\n'
    assert rows(text, CsvFormat(trim=True, quoting=True)) == [(1, "a b"), (2, ""), (3, "c")]
    assert rows(text, CsvFormat(quoting=True)) == [(1, "\t a b "), (2, "  "), (3, " c ")]


def test_blanks_around_a_text_for_null() -> None:
    """Rows 17, 22: what is trimmed to a text for NULL is NULL."""
    fields = (Field("n", "int64", nullable=True), Field("b", "bool", nullable=True), Field("w", "char", nullable=True))
    schema = Schema(fields, CsvFormat(trim=True), null_values=("NULL", ""))
    text = b" NULL , NULL , NULL \n 1 , true , x \n  ,\t, \n"
    batches = format_all(InputFormatter(schema), cut(text, []))
    assert rows_of(batches) == [(None, None, None), (1, True, "x"), (None, None, None)]
    assert sum(batch.nulled for batch in batches) == 0


def test_hundreds_of_columns() -> None:
    """Row 17: a tuple may have more than 300 fields."""
    schema = Schema(tuple(Field(f"c{n}", "int64") for n in range(350)), CsvFormat())
    text = b"".join(b",".join(b"%d" % (n + row) for n in range(350)) + b"\n" for row in range(5))
    found = rows_of(format_all(InputFormatter(schema), cut(text, [500, 3_000])))
    assert [row[349] for row in found] == [349, 350, 351, 352, 353]


def test_byte_order_mark() -> None:
    """Row 30: at the start of a stream it is none of the first field's characters, elsewhere it is data."""
    text = '\ufeff1,"a\n"\n2,b\n\ufeff3,c\n4,\ufeff\n'.encode()
    for at in ([], [2], [3], everywhere(text)):
        batches = format_all(InputFormatter(Schema(FIELDS, CsvFormat(quoting=True))), cut(text, at))
        assert rows_of(batches) == [(1, "a\n"), (2, "b"), (4, "\ufeff")]
        (letter,) = [letter for batch in batches for letter in batch.dead]
        assert letter.byte_offset == text.index(b"\xef\xbb\xbf3")
        assert [int(end) for batch in batches for end in batch.row_ends] == [10, 14, 27]


def test_byte_order_mark_before_a_header() -> None:
    """Row 30: the mark goes with the header."""
    text = "\ufeffn,word\n1,a\n".encode()
    for at in ([], everywhere(text)):
        assert rows(text, CsvFormat(header=True), at) == [(1, "a")]


def test_an_open_quote_at_the_end_of_the_stream() -> None:
    """Rows 10, 17: a field that is cut short is never a row; one that is whole needs no delimiter."""
    schema = Schema(FIELDS, CsvFormat(quoting=True))
    assert rows_of(format_all(InputFormatter(schema), cut(b'1,"a"\n2,"b"', [3]))) == [(1, "a"), (2, "b")]
    batches = format_all(InputFormatter(schema), cut(b'1,"a"\n2,"b\n3,c\n', [3, 9]))
    assert rows_of(batches) == [(1, "a")]
    assert [batch.bad for batch in batches if batch.bad] == [1]


def test_the_end_of_a_stream_takes_nothing_from_a_last_tuple() -> None:
    """Row 10: what ends as a delimiter begins is data; where that cannot be told from a delimiter it is an error."""
    schema = Schema((Field("word", "string"),), CsvFormat(tuple_delimiter=b"aba"))
    assert rows_of(format_all(InputFormatter(schema), cut(b"xaban/a", [2]))) == [("x",), ("n/a",)]
    batches = format_all(InputFormatter(schema), cut(b"xaban/ab", [2]))
    assert rows_of(batches) == [("x",)]
    assert [batch.bad for batch in batches if batch.bad] == [1]


@pytest.mark.parametrize("quoting", [False, True])
def test_a_tuple_may_not_be_too_long(quoting: bool) -> None:
    """Row 24: its length is bounded, delimiter included, wherever it stands and whatever is in it."""
    schema = Schema(FIELDS, CsvFormat(quoting=quoting), limits=Limits(tuple_bytes=10_000))
    word = ('"' + "\n,x" * 3_331 + '"' if quoting else "x" * 9_995).encode()
    fits, longer = b"2,%s%s\n" % (word, b"x" * (10_000 - 3 - len(word))), b"3,%s%s\n" % (word, b"x" * 10)
    text = b"1,a\n" * 1000 + fits + b"4,b\n" * 1000 + longer + b'5,"c"\n' * 1000
    for size in (len(text), 4096, 1 << 15):
        batches = format_all(InputFormatter(schema), in_pieces(text, size), at_once=3)
        assert [row[0] for row in rows_of(batches)] == [1] * 1000 + [2] + [4] * 1000 + [5] * 1000
        (letter,) = [letter for batch in batches for letter in batch.dead]
        assert (letter.expected, letter.byte_offset) == ("at most 10000 bytes", 8_000 + len(fits))


def test_pushdown() -> None:
    """Row 27: only wanted columns are parsed, those of conditions are looked at, nothing else is."""
    fields = (Field("n", "int64"), Field("word", "string"), Field("x", "float64", nullable=True))
    text = b"1,a,1.5\nbad,b,2.5\n3,c,nonsense\n4,d,\n5\n6,\xff,9\n"
    pushdown = Pushdown(("word",), (Condition("x", ">", 1.0),))
    batches = format_all(InputFormatter(Schema(fields, CsvFormat()), pushdown), cut(text, []))
    assert rows_of(batches) == [("a",), ("b",)]
    assert [sum(getattr(batch, name) for batch in batches) for name in ("tuples", "bad", "filtered", "nulled")] == [
        6,
        2,
        2,
        1,
    ]
    counted = format_all(InputFormatter(Schema(fields, CsvFormat()), Pushdown(())), cut(text, []))
    assert sum(batch.rows.num_rows for batch in counted) == 5
