"""Values as bytes: psycopg's own readers, which share no code with this encoder, read every value back."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from psycopg.adapt import Transformer

from runtime.service.postgres.encoding import binary_values, copy_lines, data_rows, text_values
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.types import literal, result_type

_EXACT = Context(prec=60)
_DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 (a timestamp without a zone)
_MICROS = some.integers(0, 86_399_999_999).map(lambda micros: (_DAY + dt.timedelta(microseconds=micros)).time())
_TEXT = some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
_STAMPS = some.datetimes(_DAY.replace(year=1600), _DAY.replace(year=2200))


def _decimals(precision: int, scale: int) -> some.SearchStrategy[Decimal]:
    most = 10**precision - 1
    return some.integers(-most, most).map(lambda whole: Decimal(whole).scaleb(-scale, _EXACT))


KINDS: dict[str, tuple[pa.DataType, some.SearchStrategy[Any]]] = {
    "BOOLEAN": (pa.bool_(), some.booleans()),
    "TINYINT": (pa.int8(), some.integers(-(2**7), 2**7 - 1)),
    "SMALLINT": (pa.int16(), some.integers(-(2**15), 2**15 - 1)),
    "INTEGER": (pa.int32(), some.integers(-(2**31), 2**31 - 1)),
    "UINTEGER": (pa.uint32(), some.integers(0, 2**32 - 1)),
    "BIGINT": (pa.int64(), some.integers(-(2**63), 2**63 - 1)),
    "UBIGINT": (pa.uint64(), some.integers(0, 2**64 - 1)),
    "HUGEINT": (pa.decimal128(38, 0), _decimals(38, 0)),
    "DECIMAL(38,9)": (pa.decimal128(38, 9), _decimals(38, 9)),
    "DECIMAL(18,5)": (pa.decimal128(18, 5), _decimals(18, 5)),
    "DECIMAL(38,38)": (pa.decimal128(38, 38), _decimals(38, 38)),
    "DECIMAL(4,1)": (pa.decimal32(4, 1), _decimals(4, 1)),
    "DOUBLE": (pa.float64(), some.floats(allow_nan=False)),
    "FLOAT": (pa.float32(), some.floats(allow_nan=False, width=32)),
    "VARCHAR": (pa.string(), _TEXT),
    "BLOB": (pa.binary(), some.binary(max_size=12)),
    "DATE": (pa.date32(), some.dates()),
    "TIME": (pa.time64("us"), _MICROS),
    "TIMESTAMP": (pa.timestamp("us"), _STAMPS),
    "TIMESTAMP WITH TIME ZONE": (pa.timestamp("us", "UTC"), _STAMPS.map(lambda at: at.replace(tzinfo=dt.UTC))),
    "UUID": (pa.string(), some.uuids().map(str)),
    "BIGINT[]": (pa.list_(pa.int64()), some.lists(some.none() | some.integers(-9, 9), max_size=4)),
    "VARCHAR[]": (pa.list_(pa.string()), some.lists(some.none() | _TEXT, max_size=4)),
}


def read(values: pa.Array, oid: int, *, is_binary: bool) -> list[Any]:
    loader = Transformer().get_loader(oid, psycopg.pq.Format(int(is_binary)))
    return [None if value is None else loader.load(value) for value in values.to_pylist()]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("encode", [text_values, binary_values])
@settings(max_examples=25)
@given(data=some.data())
def test_a_reader_that_is_not_ours_reads_the_same(name: str, encode: Callable[..., pa.Array], data: Any) -> None:
    arrow, strategy = KINDS[name]
    values = data.draw(some.lists(some.none() | strategy, max_size=8))
    array = pa.array(values, arrow)
    kind = result_type(name)
    found = read(encode(array, kind), kind.oid, is_binary=encode is binary_values)
    if name == "UUID":
        found = [None if value is None else str(value) for value in found]
    if name == "FLOAT" and encode is text_values:
        found = [None if value is None else struct.unpack("f", struct.pack("f", value))[0] for value in found]
    assert found == values
    begin = data.draw(some.integers(0, len(values)))
    part = encode(array.slice(begin), kind)
    assert len(part) == len(values) - begin
    assert [value is None for value in part.to_pylist()] == [value is None for value in values[begin:]]
    assert name.endswith("[]") or part.to_pylist() == encode(array, kind).to_pylist()[begin:]


@pytest.mark.parametrize(
    ("name", "array", "text"),
    [
        ("DOUBLE", pa.array([1.0, float("nan"), float("inf"), float("-inf"), 1e-7]),
         ["1", "NaN", "Infinity", "-Infinity", "1e-7"]),
        ("INTERVAL", pa.array([pa.MonthDayNano([14, -3, 14_706_700_000_000]), pa.MonthDayNano([0, 0, 0])]),
         ["1 year 2 mons -3 days 04:05:06.7", "00:00:00"]),
        ("STRUCT(a INTEGER)", pa.array([{"a": 1}, None]), ['{"a":1}', None]),
        ('"NULL"', pa.nulls(2), [None, None]),
        ("VARCHAR[]", pa.array([["a b", None, "", "NULL", 'q"\\']]), ['{"a b",NULL,"","NULL","q\\"\\\\"}']),
        ("DECIMAL(18,10)", pa.array([Decimal("0.0000000001")], pa.decimal128(18, 10)), ["0.0000000001"]),
        ("TIMESTAMP", pa.array([_DAY.replace(hour=10), _DAY.replace(hour=10, microsecond=500_000)]),
         ["2026-01-01 10:00:00", "2026-01-01 10:00:00.5"]),
    ],
)  # fmt: skip
def test_text_is_as_postgresql_writes_it(name: str, array: pa.Array, text: list[str | None]) -> None:
    found = text_values(array, result_type(name)).to_pylist()
    assert [None if value is None else value.decode() for value in found] == text


def test_an_interval_in_binary() -> None:
    (found,) = binary_values(pa.array([pa.MonthDayNano([1, 2, 3_000])]), result_type("INTERVAL")).to_pylist()
    assert found == struct.pack("!qii", 3, 2, 1)


def test_infinity_in_binary_is_the_end_of_the_range() -> None:
    days = pa.array([2**31 - 1, -(2**31) + 1, 0, None], pa.int32()).cast(pa.date32())
    assert binary_values(days, result_type("DATE")).to_pylist() == [
        *(struct.pack("!i", day) for day in (2**31 - 1, -(2**31), -10_957)), None,
    ]  # fmt: skip
    times = pa.array([2**63 - 1, -(2**63) + 1, None], pa.int64()).cast(pa.timestamp("ns"))
    assert binary_values(times, result_type("TIMESTAMP_NS")).to_pylist() == [
        struct.pack("!q", 2**63 - 1), struct.pack("!q", -(2**63)), None,
    ]  # fmt: skip
    with pytest.raises(PostgresError, match="PostgreSQL's range"):
        binary_values(pa.array([-(2**31) + 2], pa.int32()).cast(pa.date32()), result_type("DATE"))


@given(some.lists(some.tuples(some.none() | _TEXT, some.none() | some.integers(-9, 9)), max_size=6))
def test_each_row_is_a_message(rows: list[tuple[str | None, int | None]]) -> None:
    kinds = [result_type("VARCHAR"), result_type("INTEGER")]
    arrays = [pa.array([row[0] for row in rows], pa.string()), pa.array([row[1] for row in rows], pa.int32())]
    values = [text_values(array, kind) for array, kind in zip(arrays, kinds, strict=True)]
    data = bytes(data_rows(values, len(rows)))
    for row in rows:
        cells = [None if cell is None else str(cell).encode() for cell in row]
        content = b"".join(struct.pack("!i", -1) if c is None else struct.pack("!i", len(c)) + c for c in cells)
        expected = b"D" + struct.pack("!ih", len(content) + 6, 2) + content
        assert data.startswith(expected)
        data = data[len(expected) :]
    assert not data


@given(some.lists(some.none() | _TEXT | some.sampled_from(["\\N", "\\.", "", "a\tb\nc\rd\\", 'q"q,']), max_size=6))
def test_lines_of_copy_are_read_back(cells: list[str | None]) -> None:
    kind = result_type("VARCHAR")
    values = text_values(pa.array(cells, pa.string()), kind)
    for is_csv in (False, True):
        data = bytes(copy_lines([values, values], [kind, kind], len(cells), is_csv=is_csv))
        for cell in cells:
            (length,) = struct.unpack_from("!i", data, 1)
            line, data = data[5 : length + 1].decode(), data[length + 1 :]
            if is_csv:
                quoted = "" if cell is None else cell
                is_odd = cell is not None and (cell in ("", "\\.") or any(sign in cell for sign in ',"\n\r'))
                one = '"' + quoted.replace('"', '""') + '"' if is_odd else quoted
                assert line == f"{one},{one}\n"
            else:
                escaped = "\\N"
                if cell is not None:
                    escaped = cell.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
                assert line == f"{escaped}\t{escaped}\n"
        assert not data


def test_a_parameter_that_cannot_be_read_is_refused() -> None:
    for value, oid, is_binary, state in (
        (b"\xff", 25, False, "22021"),
        (b"a\0b", 25, False, "22021"),
        (b"123", 23, True, "22P03"),
        (b"\\xzz", 17, False, "22P02"),
        (b"1,2", 1007, False, "22P02"),
        (b"\0\0\0\1", 1007, True, "22P03"),
        (struct.pack("!HhHH", 1, 2000, 0, 0) + b"\0\1", 1700, True, "22008"),
        (struct.pack("!i", 2**31 - 1), 1082, True, "22008"),
        (b"x", 99_999, False, "0A000"),
    ):
        with pytest.raises(Exception, match="expected") as raised:
            literal(value, oid, is_binary=is_binary)
        assert getattr(raised.value, "sqlstate", "") == state
