"""What Arrow's readers take though it is no value, or leave though it is one, is set right.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation, localcontext
from math import inf
from typing import Any

import pyarrow as pa
import pytest

from runtime.formats import CsvFormat, Field, InputFormatter, Limits, Malformed, Schema
from runtime.formats.csv import indexer
from runtime.formats.csv.reading import ColumnReader
from tests.generators.text_buffers import cut, format_all, rows_of

BAD = "no value"


def values(type_name: str, texts: Sequence[str | bytes], *, trim: bool = False) -> list[Any]:
    """What each text is, by itself and between others, which must be the same."""
    raw = [text.encode() if isinstance(text, str) else text for text in texts]
    form = CsvFormat(field_delimiter=b"|", trim=trim)
    schema = Schema((Field("n", "int32"), Field("x", type_name)), form, limits=Limits(described=100_000))

    def read(some: list[bytes]) -> list[Any]:
        lines = b"".join(b"%d|%b\n" % (n, text) for n, text in enumerate(some))
        batches = format_all(InputFormatter(schema, described=100_000), cut(lines, []))
        assert {letter.field for batch in batches for letter in batch.dead} <= {"x"}
        found: dict[Any, Any] = {row[0]: row[1] for row in rows_of(batches)}
        return [found.get(n, BAD) for n in range(len(some))]

    together = read(raw)
    assert together == [read([text])[0] for text in raw]
    return together


@pytest.mark.parametrize("precision_scale", [(38, 10), (10, 2), (38, 0), (38, 38), (20, 18), (20, 19), (1, 0), (5, 5)])
def test_decimals_are_exact_or_none(precision_scale: tuple[int, int]) -> None:
    """Row 21: digits that do not fit are no value, also where 128 bits would wrap around, and with exponents."""
    precision, scale = precision_scale
    seeded = random.Random(precision * 100 + scale)
    texts = ["9" * 38, "12345678901234567890123456789012345678", "123456789", "1e8", "1e28", "1e60", "0.5", "-0", "+7"]
    for _ in range(150):
        whole, behind = seeded.randint(0, precision + 1), seeded.randint(0, scale + 1)
        digits = "".join(seeded.choices("0123456789", k=whole + behind))
        text = seeded.choice(("", "-", "+")) + digits[:whole] + "." + digits[whole:]
        texts.append(text + seeded.choice(("", "", f"e{seeded.randint(-40, 40)}")))
    expected = [exact(text, precision, scale) for text in texts]
    found = values(f"decimal({precision},{scale})", texts)
    for text, value, wanted in zip(texts, found, expected, strict=True):
        assert value in (wanted, BAD), text
        if "e" not in text and len(text.strip("+-.")) <= precision:  # others are Arrow's to take or leave
            assert value == wanted, text
    assert sum(value != BAD for value in found) > 5


@pytest.mark.parametrize("type_name", ["decimal(38,0)", "decimal(10,2)", "decimal(20,18)", "decimal(38,10)"])
def test_a_decimal_far_behind_the_point_is_not_zero(type_name: str) -> None:
    """Row 21: whatever its exponent."""
    texts = [f"7e-{n}" for n in range(19, 300)] + ["7e-" + "9" * 30, "0.7E-000041", "7e-4294967297"]
    assert values(type_name, texts) == [BAD] * len(texts)
    assert values("decimal(10,2)", ["700e-2", "70.0e-01", "5e-2", "1e-0"]) == [7, 7, Decimal("0.05"), 1]
    assert values("decimal(38,0)", ["7" * 36 + "00e-2"]) == [int("7" * 36)]


def exact(text: str, precision: int, scale: int) -> Any:
    """By the decimals of the standard library."""
    with localcontext(prec=200):
        try:
            value = Decimal(text)
        except InvalidOperation:
            return BAD
        unscaled = value.scaleb(scale)
        return value if unscaled == unscaled.to_integral_value() and abs(unscaled) < 10**precision else BAD


def test_decimals_in_arrays_and_structs() -> None:
    """Row 21: the same there."""
    long = "12345678901234567890123456789012345678"
    assert values("array<decimal(38,10)>", [f"[{long}]", f"[1.5, {long[:28]}]"]) == [
        BAD,
        [Decimal("1.5"), Decimal(long[:28])],
    ]
    assert values("array<decimal(10,2)>", ["[123456789]", "[12345678]"]) == [BAD, [Decimal(12345678)]]
    assert values("struct<x:decimal(10,2)>", ['{"x":123456789}', '{"x":"1.25"}']) == [BAD, {"x": Decimal("1.25")}]


@pytest.mark.parametrize("type_name", ["float32", "float64"])
def test_a_float_is_infinite_only_in_words(type_name: str) -> None:
    """Row 21: what is too large is no value; the words for infinity are."""
    texts = ["1e400", "inf", "-Infinity", "-1e999", "1.5", " +INF", "9" * 400]
    assert values(type_name, texts) == [BAD, inf, -inf, BAD, 1.5, inf, BAD]
    assert values("float32", ["1e39", "3.4028235e38"]) == [BAD, 3.4028234663852886e38]
    assert values("float64", ["1e39", "-inf"]) == [1e39, -inf]
    assert values(f"array<{type_name}>", ["[NaN]", "[1e400]", "[1.5]"]) == [BAD, BAD, [1.5]]


def test_texts_in_arrays_are_utf8() -> None:
    """Row 21: bytes that are no text are no value, whatever column they stand in."""
    assert values("array<string>", [b'["\xff"]', b'["\xc3\xa4"]']) == [BAD, ["ä"]]
    assert values("struct<x:string>", [b'{"x":"\xff"}', b'{"x":"\xc3\xa4"}']) == [BAD, {"x": "ä"}]


def test_dates_in_arrays_and_structs() -> None:
    """Row 21: ISO 8601 as everywhere, and no numbers of days."""
    texts = ['{"x":"2020-01-01"}', '{"x":3}', '{"x":"2020-02-30"}', '{"x":null}']
    assert values("struct<x:date>", texts) == [{"x": date(2020, 1, 1)}, BAD, BAD, {"x": None}]
    assert values("array<date>", ['["2020-02-29"]', "[1]"]) == [[date(2020, 2, 29)], BAD]


def test_json_in_a_field_is_one_value() -> None:
    """Row 21: nothing slips in behind it, neither rows nor keys; line ends in it are blank space, and none in texts."""
    assert values("array<int64>", ['[1],"other":[2]', '[1],"value":[2]', '[1]} {"value":[2]', "[1]"])[:3] == [BAD] * 3
    assert values("struct<x:int8>", ['{"x":1,"y":2}', '{"x":1}']) == [BAD, {"x": 1}]
    schema = Schema((Field("x", "array<string>"),), CsvFormat(quoting=True))
    text = b'"[\n""a""\r\n]"\n"[""a\nb""]"\n[null]\n'
    batches = format_all(InputFormatter(schema), cut(text, []))
    assert rows_of(batches) == [(["a"],), ([None],)]


@pytest.mark.parametrize("trim", [False, True])
def test_timestamps_with_an_offset(trim: bool) -> None:
    """Row 21: they are taken as UTC, beside those that have none."""
    noon = datetime(2020, 1, 1, 12)  # noqa: DTZ001
    texts = ["2020-01-01T12:00:00Z", "2020-01-01 12:00", "2020-01-01T13:30:00+01:30", "2020-01-01T07-0500"]
    assert values("timestamp(ms)", texts, trim=trim) == [noon] * 4
    bad = ["2020-01-01Z", "2020-01-01T12:00:00z", "2020-01-01T12:00:00+24:00", "2020-01-01T12:00:00.1234Z"]
    assert values("timestamp(ms)", bad, trim=trim) == [BAD] * 4
    assert values("timestamp(ns)", ["2262-04-11T23:47:16.854775807-01:00"]) == [BAD]


def test_offsets_that_come_and_go() -> None:
    """Row 21: one formatter reads blocks with offsets, blocks without and blocks of both."""
    schema = Schema(
        (Field("t", "timestamp(s)"), Field("u", "timestamp(s)", nullable=True)), CsvFormat(), malformed=Malformed.SKIP
    )
    formatter = InputFormatter(schema)
    blocks = [(zone, other) for zone in ("Z", "", "+00:00") for other in ("", "Z")] * 2
    lines = [f"2020-01-01 12:00:00{first},2020-01-01 12:00{second}\n" * 40 for first, second in blocks]
    text = "".join(lines).encode()
    ends = [sum(map(len, lines[: n + 1])) for n in range(len(lines))]
    noon = datetime(2020, 1, 1, 12)  # noqa: DTZ001
    batches = format_all(formatter, cut(text, ends[:-1]))
    assert rows_of(batches) == [(noon, noon)] * 40 * len(blocks)
    assert not any(batch.bad or batch.nulled for batch in batches)


@pytest.mark.parametrize("days", ["2026-02-%02d", "2024-02-%02d", "1900-02-%02d", "2000-02-%02d", "2026-04-%02d"])
def test_days_that_there_are(days: str) -> None:
    """Row 21: many bad days among good ones, as dates and as timestamps."""
    texts = [days % day for day in range(33)]
    wanted = []
    for text in texts:
        try:
            wanted.append(date.fromisoformat(text))
        except ValueError:
            wanted.append(BAD)  # type: ignore[arg-type]
    assert values("date", texts * 3) == wanted * 3
    assert [
        v if v == BAD else v.date() for v in values("timestamp(us)", [f"{t}T10:00" for t in texts] * 3)
    ] == wanted * 3


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("trim", [False, True])
def test_hexadecimal_digits_are_no_bits_of_a_sign(bits: int, trim: bool) -> None:
    """Row 21: beyond the greatest value of a signed type they are malformed, beside negative numbers as well."""
    most, digits = 2 ** (bits - 1) - 1, bits // 4
    texts = [f"0x{most:x}", f"0X{most + 1:X}", f" 0x{2 * most + 1:x}", f"0x{2 * most + 2:x}", f"-{most}", "0x0", "-0"]
    wanted = [most, BAD, BAD, BAD, -most, 0, 0]
    for padding in (0, 100):
        assert values(f"int{bits}", texts + ["7"] * padding, trim=trim) == wanted + [7] * padding
    assert values(f"uint{bits}", [f"0x{'f' * digits}", f"0x1{'0' * digits}"], trim=trim) == [2**bits - 1, BAD]


WORST = [
    ("int64", "9" * 30, "7"),
    ("uint8", "0x1FF", "0xff"),
    ("float64", "1.2.3", "1.5"),
    ("decimal(9,2)", "1.234", "1.23"),
    ("date", "2026-02-30", "2026-02-28"),
    ("timestamp(us)", "2026-11-21 25:00", "2026-11-21 23:00Z"),
    ("decimal(38,10)", "9" * 38, "9" * 28),
    ("array<int16>", "[70000]", "[7000]"),
    ("struct<x:array<string>>", '{"x":[1]}', '{"x":["1"]}'),
]


@pytest.mark.parametrize(("type_name", "bad", "good"), WORST)
def test_a_block_of_bad_values_takes_few_reader_calls(
    type_name: str, bad: str, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 23: they are found by their looks or one by one in Python, not each by a call of Arrow's reader."""
    reader = ColumnReader(Field("x", type_name), (), trim=False)
    conversion = reader._conversion
    assert conversion is not None
    calls = []
    plain = conversion.values

    def counted(tokens: Any, skip: Any) -> Any:
        calls.append(len(tokens))
        return plain(tokens, skip)

    monkeypatch.setattr(conversion, "values", counted)
    texts = [good if n % 100 == 50 else bad for n in range(2_000)]
    column, wrong = reader.read(pa.array([text.encode() for text in texts], pa.binary()))
    assert wrong.tolist() == [text == bad for text in texts]
    assert column.null_count == 1_980
    assert len(calls) <= 300


@pytest.mark.parametrize("policy", [Malformed.NULL, Malformed.SKIP])
@pytest.mark.parametrize("cuts", [0, 1, 2])
def test_a_tuple_that_is_taken_out_comes_back_in_its_place(
    policy: Malformed, cuts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row 23: with NULL for its value or without a row, the tuples around it and their ends are as before."""
    monkeypatch.setattr(indexer, "_MOST_CUTS", cuts)
    schema = Schema((Field("n", "int32"), Field("x", "int8", nullable=True)), CsvFormat(), malformed_nullable=policy)
    bad = {700: "x", 1_500: "999", 1_501: "1.5", 2_900: ""}
    lines = [b"%d,%s\n" % (n, bad.get(n, "7").encode()) for n in range(3_000)]
    (batch,) = format_all(InputFormatter(schema), cut(b"".join(lines), []))
    worse = {n for n, text in bad.items() if text}
    nulls = policy == Malformed.NULL
    assert rows_of([batch]) == [(n, None if n in bad else 7) for n in range(3_000) if nulls or n not in worse]
    assert (batch.nulled, batch.bad) == ((3, 0) if nulls else (0, 3))
    ends = [sum(map(len, lines[: n + 1])) for n in range(3_000) if nulls or n not in worse]
    assert batch.row_ends.tolist() == ends
    assert [letter.byte_offset for letter in batch.dead] == [sum(map(len, lines[:n])) for n in sorted(worse)][
        : batch.bad
    ]


def test_a_tuple_that_is_too_long_is_measured_in_bytes() -> None:
    """Row 24: in the same words wherever it is cut."""
    schema = Schema((Field("s", "string"),), CsvFormat(), limits=Limits(tuple_bytes=20))
    text = b"a\n" + b"b" * 30 + b"\nc\n"
    said = set()
    for places in ([], [10], [2, 33]):
        batches = format_all(InputFormatter(schema), cut(text, places))
        said |= {(letter.expected, letter.reason) for batch in batches for letter in batch.dead}
    assert said == {("at most 20 bytes", "31 bytes")}
