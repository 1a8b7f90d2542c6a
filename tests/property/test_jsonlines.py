"""JSON lines: the rows are those of Python's own JSON, read strictly line by line; neighbours change nothing.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import json
import math
import re
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.formats import InputFormatter
from runtime.formats.jsonlines import JsonFormat, JsonIndexer
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Field, Malformed, Schema
from tests.generators.json_lines import indexer, parse, parse_block
from tests.generators.text_buffers import cut, cuts, format_all, format_with_threads, in_pieces, rows_of
from tests.harness.examples import examples

FIELDS = (
    Field("n", "int16"),
    Field("u", "uint64", nullable=True),
    Field("f", "float32", nullable=True),
    Field("t", "string", nullable=True),
    Field("c", "char", nullable=True),
    Field("d", "decimal(6,2)", nullable=True),
    Field("w", "date", nullable=True),
    Field("s", "timestamp(ms)", nullable=True, path="o.s"),
    Field("b", "bool", path="o.p.b"),
    Field("q", "array<int8>", nullable=True, path="o.q"),
)
READER = indexer(*FIELDS)
READER_SCHEMA = Schema(FIELDS, format=JsonFormat())
FLAT = Pushdown(("n", "u", "f", "t"))
STRICT = indexer(*FIELDS, malformed_nullable=Malformed.SKIP)

GOOD = {
    "n": st.integers(-(2**15), 2**15 - 1).map(str),
    "u": st.integers(0, 2**64 - 1).map(str),
    "f": st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
    "t": st.text(max_size=6).filter(lambda text: text.isprintable()).map(json.dumps),
    "c": st.characters(codec="utf-8").map(lambda letter: json.dumps(letter, ensure_ascii=False)),
    "d": st.decimals(-9999, 9999, places=2).map(str),
    "w": st.dates().map(lambda day: f'"{day.isoformat()}"'),
    "s": st.datetimes().map(lambda moment: f'"{moment.isoformat(timespec="milliseconds")}"'),
    "b": st.sampled_from(["true", "false"]),
    "q": st.lists(st.one_of(st.integers(-128, 127), st.none()), max_size=3).map(json.dumps),
}
ODD = st.sampled_from(
    [
        *(
            "null",
            "true",
            "0",
            "-1",
            "-0",
            "1.0",
            "1.5",
            "1e3",
            "128",
            "99999",
            "1e39",
            "NaN",
            "-Infinity",
            "18446744073709551616",
        ),
        *(
            '""',
            '"x"',
            '"xy"',
            '"1.25"',
            '"1.255"',
            '"2026-02-30"',
            '"2026-02-28"',
            '"2026-02-28T01:02:03Z"',
            '"\\u00e4"',
            '"\\ud800"',
        ),
        *(
            "[]",
            "{}",
            "[1]",
            "[1.5]",
            "[[]]",
            '{"s":1}',
            '{"p":{"b":true}}',
            "[null]",
            "01",
            "tru",
            "9999.99",
            "10000",
            "0.001",
        ),
    ]
)
KEYS = st.sampled_from([*"nuftcdw", "o", "z", "\\u006e"])


@st.composite
def objects(draw: st.DrawFn, odd: bool) -> str:
    """The text of an object, its keys in any order; if odd, with any value for any key, also twice or not at all."""

    def values(key: str) -> str:
        return draw(st.one_of(GOOD[key], GOOD[key], ODD)) if odd else draw(GOOD[key])

    nested = [f'"q":{values("q")}', f'"s":{values("s")}', f'"p":{{"b":{values("b")}}}']
    pairs = [f'"{key}":{values(key)}' for key in "nuftcdw"] + [f'"o":{{{",".join(draw(st.permutations(nested)))}}}']
    pairs = draw(st.permutations(pairs))
    if odd:
        pairs = pairs[draw(st.sampled_from([0, 0, 0, 1, 4])) :]
        pairs += draw(st.lists(st.builds('"{}":{}'.format, KEYS, ODD), max_size=2))
    space = draw(st.sampled_from(["", " "]))
    return f"{space}{{{','.join(pairs)}}}{space}"


def _mutated(line: str, at: float, byte: int) -> bytes:
    text = bytearray(line.encode())
    text[int(at * len(text))] = byte
    return bytes(text).replace(b"\n", b"n")


LINES = st.one_of(
    objects(odd=False).map(str.encode),
    objects(odd=True).map(str.encode),
    objects(odd=False).map(lambda line: b"\xef\xbb\xbf" + line.encode()),
    st.builds(_mutated, objects(odd=False), st.floats(0, 0.999), st.integers(0, 255)),
    st.sampled_from(
        [b"", b" \t", b"\r", b"null", b"{}", b"[1]", b'{"n":1}{"n":2}', b'{"n":', b"\xff", b"\xef\xbb\xbf"]
    ),
    st.binary(max_size=8).map(lambda text: text.replace(b"\n", b"")),
)


class _Number(str):
    """The text of a number."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; what stands under a key that occurs twice is marked as a value of no type. Half a pair is no UTF-8."""
    json.dumps(pairs, ensure_ascii=False, default=str).encode()
    keys = [key for key, _ in pairs]
    return {key: value if keys.count(key) == 1 else ... for key, value in pairs}


def _of(text: str) -> _Number:
    if text not in ("NaN", "Infinity", "-Infinity") and math.isinf(float(text)):
        raise ValueError("no reader takes it")
    return _Number(text)


def _number(text: _Number, lowest: int, highest: int) -> int:
    if not re.fullmatch(r"-?\d+", text) or not lowest <= int(text) <= highest or (lowest == 0 and text.startswith("-")):
        raise ValueError(text)
    return int(text)


def _float32(text: _Number) -> float:
    if not abs(float(text)) <= 3.4028235677973366e38:
        raise ValueError(text)
    return float(text)


def _decimal(text: str) -> Decimal:
    value = Decimal(text) if re.fullmatch(r"-?[\d.]+(e\d+)?", text) else Decimal("NaN")
    if value.is_nan() or abs(value) >= 10_000 or value != value.quantize(Decimal("0.01")):
        raise ValueError(text)
    return value


def _expect(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise ValueError(value)
    return value


def _char(text: str) -> str:
    if len(text) != 1:
        raise ValueError(text)
    return text


def _day(text: str) -> date:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        raise ValueError(text)
    return date.fromisoformat(text)


def _moment(text: str) -> datetime:
    _day(text[:10])
    if not re.fullmatch(
        r"([ T][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,3})?)?)?(Z|[-+][0-9]{2}(:?[0-9]{2})?)?)?", text[10:]
    ):
        raise ValueError(text)
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=None) - (moment.utcoffset() or datetime.resolution * 0)


CONVERT: dict[str, Any] = {
    "n": lambda v: _number(_expect(_Number, v), -(2**15), 2**15 - 1),
    "u": lambda v: _number(_expect(_Number, v), 0, 2**64 - 1),
    "f": lambda v: _float32(_expect(_Number, v)),
    "t": lambda v: _expect(str, v),
    "c": lambda v: _char(_expect(str, v)),
    "d": lambda v: _decimal(v if type(v) is _Number else _expect(str, v)),
    "w": lambda v: _day(_expect(str, v)),
    "s": lambda v: _moment(_expect(str, v)),
    "b": lambda v: _expect(bool, v),
    "q": lambda v: [None if item is None else _number(_expect(_Number, item), -128, 127) for item in _expect(list, v)],
}


def expected(line: bytes, strict: bool) -> tuple[tuple[Any, ...] | None, int] | None:
    """The row of a line, None if it is bad, and how many values became NULL; None for a blank line."""
    line = line.removeprefix(b"\xef\xbb\xbf")
    if not line.strip(b" \t\r"):
        return None
    try:
        text = line.decode().strip(" \t\r")
        record = json.loads(text, object_pairs_hook=_pairs, parse_int=_of, parse_float=_of, parse_constant=_of)
    except ValueError:
        return None, 0
    if type(record) is not dict:
        return None, 0
    row, nulled = [], 0
    for field in FIELDS:
        value: Any = record
        try:
            for key in (field.path or field.name).split("."):
                value = None if value is None else _expect(dict, value).get(key)
            row.append(None if value is None else CONVERT[field.name](value))
        except ValueError:
            if not field.nullable or strict:
                return None, 0
            row.append(None)
            nulled += 1
        if row[-1] is None and not field.nullable:
            return None, 0
    return tuple(row), nulled


@pytest.mark.parametrize("strict", [False, True])
@given(lines=st.lists(LINES, max_size=12))
def test_rows_are_those_of_the_lines_one_by_one(strict: bool, lines: list[bytes]) -> None:
    """Rows 18, 21, 23, 30."""
    reader: JsonIndexer = STRICT if strict else READER
    parsed = parse(reader, *lines)
    told = [each for line in lines if (each := expected(line, strict)) is not None]
    assert [index for index, (row, _) in enumerate(told) if row is None] == parsed.bad_tuples.tolist()
    rows = [tuple(row.values()) for row in parsed.rows.to_pylist()]
    for row, wanted in zip(rows, [wanted for wanted, _ in told if wanted is not None], strict=True):
        assert row[2] == wanted[2] or math.isclose(row[2], wanted[2], rel_tol=1e-6, abs_tol=1e-37)  # float32
        assert row[:2] + row[3:] == wanted[:2] + wanted[3:]
    assert parsed.nulled.tolist() == [i for i, (_, nulled) in enumerate(told) for _ in range(nulled)]


@given(lines=st.lists(LINES, min_size=1, max_size=12), again=st.integers(1, 60))
def test_a_line_is_good_or_bad_whatever_stands_around_it(lines: list[bytes], again: int) -> None:
    together = parse_block(READER, b"\n".join(lines * again) + b"\n")
    alone = [parse(READER, line) for line in lines]
    assert together.rows.to_pylist() == [row for parsed in alone for row in parsed.rows.to_pylist()] * again
    assert together.tuples == sum(parsed.tuples for parsed in alone) * again
    assert len(together.bad_tuples) == sum(len(parsed.bad_tuples) for parsed in alone) * again
    assert len(together.nulled) == sum(len(parsed.nulled) for parsed in alone) * again
    described = [(bad.field, bad.expected) for parsed in alone for bad in parsed.bad] * again
    assert [(bad.field, bad.expected) for bad in together.bad] == described[: len(together.bad)]


@given(st.data(), st.lists(LINES, max_size=12), st.booleans())
def test_any_cutting_and_order(data: st.DataObject, lines: list[bytes], last_delimiter: bool) -> None:
    """Rows 1-3, 6-8, 10, 23: what comes in pieces and in any order is what came whole."""
    text = b"\n".join(lines) + b"\n" * last_delimiter
    raws = data.draw(st.permutations(cut(text, data.draw(cuts(text)))))
    formatter = InputFormatter(READER_SCHEMA)
    batches = format_all(formatter, raws, at_once=data.draw(st.sampled_from([1, 2, 5, 100])))
    whole = parse_block(READER, b"\n".join(lines) + b"\n")
    assert rows_of(batches) == [tuple(row.values()) for row in whole.rows.to_pylist()]
    assert sum(batch.tuples for batch in batches) == whole.tuples
    assert sum(batch.bad for batch in batches) == len(whole.bad_tuples)
    assert sum(batch.nulled for batch in batches) == len(whole.nulled)
    for letter, bad in zip([letter for batch in batches for letter in batch.dead], whole.bad, strict=True):
        assert (letter.row, letter.byte_offset, letter.field) == (bad.index, bad.start, bad.field)
        assert text[bad.start : bad.stop] == letter.data


@settings(max_examples=examples(20))
@given(st.lists(objects(odd=False), min_size=1, max_size=20), st.integers(1, 90), st.integers(0, 1_000))
def test_any_number_of_threads_reads_what_arrow_reads_at_once(lines: list[str], size: int, seed: int) -> None:
    """Row 4, and the file read in one piece by the library as the second opinion."""
    text = "\n".join(lines).encode()
    batches = format_with_threads(InputFormatter(READER_SCHEMA, FLAT), in_pieces(text, size), 1 + seed % 4, seed)
    explicit = pa.schema([("n", pa.int16()), ("u", pa.uint64()), ("f", pa.float32()), ("t", pa.string())])
    options = pajson.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore")
    table = pajson.read_json(pa.BufferReader(text), parse_options=options)
    assert rows_of(batches) == [tuple(row.values()) for row in table.to_pylist()]
