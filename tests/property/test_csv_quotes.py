"""Quoted text, cut anywhere, in any order: the rows are those of Arrow's reader on the whole file.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.formats import CsvFormat, Field, Format, InputFormatter, Run, Schema, TupleRange
from runtime.formats.csv import quotes
from runtime.formats.csv.delimiters import index_unquoted
from runtime.formats.csv.quotes import QuotedIndex, is_incomplete, scan
from tests.generators.text_buffers import cut, cuts, format_all, format_with_threads, rows_of
from tests.harness.examples import examples

FIELDS = (Field("a", "string"), Field("b", "string"), Field("c", "string"))
SPECIAL = st.text('",\nxä \\|;', max_size=30)
QUOTED = st.text('",\n\rxä ', max_size=8).map(lambda text: '"' + text.replace('"', '""') + '"')
PLAIN = st.text('"xä 1', max_size=6).filter(lambda text: not text.startswith('"'))
ROWS = st.lists(st.tuples(*[st.one_of(QUOTED, PLAIN)] * 3).map(",".join), max_size=25)


def whole(text: bytes, dialect: CsvFormat) -> list[tuple[object, ...]]:
    """What Arrow reads from the text in one piece, tuples of another width left out."""
    if not text:
        return []
    table = pacsv.read_csv(
        pa.BufferReader(text),
        read_options=pacsv.ReadOptions(column_names=["a", "b", "c"], use_threads=False),
        parse_options=pacsv.ParseOptions(
            delimiter=dialect.field_delimiter.decode(),
            quote_char='"' if dialect.quoting else False,
            double_quote=dialect.quoting,
            escape_char=dialect.escape.decode() or False,
            newlines_in_values=dialect.quoting,
            invalid_row_handler=lambda _: "skip",
        ),
        convert_options=pacsv.ConvertOptions(column_types=Schema(FIELDS, CsvFormat()).arrow_schema(), null_values=[]),
    )
    return [tuple(row.values()) for row in table.to_pylist()]


def complete(text: bytes, dialect: CsvFormat) -> bytes:
    """The text up to a last tuple that is not cut short inside quotes or behind an escape."""
    found = scan(text, dialect)
    if not is_incomplete(found.end_state):
        return text
    return text[: int(found.ends[-1])] if len(found.ends) else b""


@given(st.data(), ROWS, st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_quoted_text(data: st.DataObject, rows: list[str], end: str, last: bool) -> None:
    """Row 17: quoted fields with delimiters, quotes and line ends, and stray quotes, over any borders of buffers."""
    dialect = CsvFormat(quoting=True)
    text = complete((end.join(rows) + (end if last else "")).encode(), dialect)
    raws = data.draw(st.permutations(cut(text, data.draw(cuts(text)))))
    at_once = data.draw(st.integers(1, 5))
    assert rows_of(format_all(InputFormatter(Schema(FIELDS, dialect)), raws, at_once=at_once)) == whole(text, dialect)


@given(st.data(), st.lists(SPECIAL, max_size=8), st.sampled_from([b"", b"\\"]))
def test_arbitrary_text(data: st.DataObject, parts: list[str], escape: bytes) -> None:
    """Row 17: whatever stands there, with and without escapes; every bad tuple is described where it stands."""
    dialect = CsvFormat(quoting=True, escape=escape)
    text = complete("".join(parts).encode(), dialect)
    raws = data.draw(st.permutations(cut(text, data.draw(cuts(text)))))
    batches = format_all(InputFormatter(Schema(FIELDS, dialect)), raws, at_once=data.draw(st.integers(1, 5)))
    assert rows_of(batches) == whole(text, dialect)
    for batch in batches:
        for letter in batch.dead:
            assert text[letter.byte_offset :].startswith(letter.data)


@settings(max_examples=examples(20))
@given(st.data(), ROWS, st.integers(1, 6), st.integers(0, 1_000))
def test_any_number_of_threads(data: st.DataObject, rows: list[str], threads: int, seed: int) -> None:
    """Row 4: the same from several threads at once."""
    dialect = CsvFormat(quoting=True)
    text = complete("\n".join([*rows, ""]).encode(), dialect)
    formatter = InputFormatter(Schema(FIELDS, dialect))
    raws = cut(text, data.draw(cuts(text)))
    assert rows_of(format_with_threads(formatter, raws, threads, seed, at_once=2)) == whole(text, dialect)


@given(st.data(), st.lists(SPECIAL, max_size=8), st.sampled_from([b"||", b"\r\n", b"xx", b"|;|", b"\xc3\xa4"]))
def test_delimiters_of_several_bytes(data: st.DataObject, parts: list[str], delimiter: bytes) -> None:
    """Rows 13, 17: delimiters split between buffers, that overlap themselves or not; line ends are ordinary then."""
    text = "".join(parts).encode() + delimiter
    *whole_ones, rest = text.split(delimiter)
    if delimiter == b"\r\n":
        rest = rest.removesuffix(b"\r")  # the end of the stream completes it
    cut_off = (rest + delimiter).find(delimiter) != len(rest)  # the end would become a part of the delimiter
    tuples = [tuple_.decode() for tuple_ in (*whole_ones, b"" if cut_off else rest) if tuple_]
    raws = data.draw(st.permutations(cut(text, data.draw(cuts(text)))))
    schema = Schema(FIELDS, CsvFormat(delimiter, b","))
    batches = format_all(InputFormatter(schema), raws, at_once=data.draw(st.integers(1, 5)))
    assert rows_of(batches) == [tuple(t.split(",")) for t in tuples if t.count(",") == 2]
    assert sum(batch.tuples for batch in batches) == len(tuples) + cut_off


def by_bytes(dialect: CsvFormat, state: int, data: bytes) -> TupleRange:
    """The automaton of the states, one byte after the other."""
    delimiter, ends, part = dialect.tuple_delimiter, [], 0
    if state > 8:
        part, state = state - 8, 1
    if not dialect.quoting:
        part = state
    for place, code in enumerate(data):
        byte = bytes((code,))
        if dialect.quoting:
            if state in {4, 5}:
                state, part = state - 3 if state == 5 else 1, 0
                continue
            if state == 2:
                state = 5 if byte == dialect.escape else 3 if byte == b'"' else 2
                continue
            if byte == b'"' and state in {0, 3}:
                state, part = 2, 0
                continue
            if byte in {dialect.escape, dialect.field_delimiter}:
                state, part = (4 if byte == dialect.escape else 0), 0
                continue
        seen = delimiter[:part] + byte
        if seen == delimiter:
            ends.append(place + 1)
            state = part = 0
            continue
        state = 1
        part = next(n for n in range(min(len(seen), len(delimiter) - 1), -1, -1) if seen.endswith(delimiter[:n]))
    if not dialect.quoting:
        state = part
    elif state == 1 and part:
        state = 8 + part
    return TupleRange(ends[0] if ends else -1, ends[-1] if ends else -1, state)


@pytest.mark.parametrize("window", [4, 16, 4096])
@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b"ab", b"aaab"])
@pytest.mark.parametrize("escape", [b"", b"\\"])
@given(text=st.text('"",\n\rab\\', max_size=60))
def test_an_index_answers_for_every_start(text: str, escape: bytes, delimiter: bytes, window: int) -> None:
    """Row 13, 17: cut and end state, for every state, as if one had read byte after byte; an end state that is told
    before the start is known holds for all of them."""
    data, dialect = text.encode(), CsvFormat(delimiter, quoting=True, escape=escape)
    states = [0, 1, 2, 3, *([4, 5] if escape else []), *range(9, 8 + len(delimiter))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quotes, "_WINDOW", window)
        index = QuotedIndex(data, dialect)
        wanted = {state: by_bytes(dialect, state, data) for state in states}
        assert {state: index.cut(state) for state in states} == wanted
    if index.end_state is not None:
        assert {cut.end_state for cut in wanted.values()} == {index.end_state}


@pytest.mark.parametrize("delimiter", [b"\n\n", b"aba", b"aab", b"aabaa", b"\r\n"])
@given(text=st.text("\n\rabx", max_size=30), border=st.integers(0, 30))
def test_delimiters_that_overlap_themselves(delimiter: bytes, text: str, border: int) -> None:
    """Row 13: yes, no and maybe: the leftmost delimiters that do not overlap, for every part that stood before."""
    dialect, data = CsvFormat(delimiter), text.encode()
    index = index_unquoted(Run([data[:border], data[border:]], 0), delimiter)
    for state in range(len(delimiter)):
        assert index.cut(state) == by_bytes(dialect, state, data)


def test_the_dialect_is_a_format() -> None:
    """Row 29: what a schema needs of a format is the protocol and nothing else."""
    made: Format = CsvFormat(quoting=True)
    assert made.name == "csv"
