"""Valid files of fixed-size records, read as a whole by Python's `struct`."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from decimal import Context, Decimal
from typing import Any, Final, Literal

import pyarrow as pa

from runtime.formats import Field, Schema
from runtime.formats.native import NativeFormat
from tests.conformance.formats.sample import Sample
from tests.conformance.formats.texts import BOUNDS, random_word

__all__ = ["NativeFiles"]

_CODES = {
    "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
    "float32": "f", "float64": "d", "bool": "?", "char": "c", "date": "i", "timestamp(ns)": "q", "timestamp(s)": "q",
    "decimal(9,2)": "16s", "decimal(38,10)": "16s", "numeric(9,2)": "16s",
    "string": "{}s",
}  # fmt: skip
_STORED = {"date": pa.int32(), "timestamp(ns)": pa.int64(), "timestamp(s)": pa.int64()}
_ORDERS: Final[tuple[Literal["little", "big"], ...]] = ("little", "big")
_PADDINGS: Final[tuple[Literal["nul", "blank"], ...]] = ("nul", "blank")
_EXACT = Context(prec=50)
_DAYS, _SECONDS = 700_000, 9_000_000_000


class NativeFiles:
    """Random files of one record layout: fields with gaps, in either byte order, with or without NULLs."""

    def __init__(self, rng: random.Random) -> None:
        self._order = rng.choice(_ORDERS)
        self._has_nulls = rng.random() < 0.5
        fields, places, codes = [], [], []
        count = rng.choice((1, 2, 4, 12))
        end = (count + 7) // 8 if self._has_nulls else 0
        codes.append(f"{end}s")
        for number in range(count):
            kind, gap = rng.choice(list(_CODES)), rng.choice((0, 0, 0, 3))
            width = rng.choice((1, 8, 13)) if kind == "string" else 0
            code = _CODES[kind].format(width)
            place = f"f{number}@{end + gap}" if gap else f"f{number}"
            places.append(place + (f":{width}" if width else ""))
            codes += [f"{gap}x", code]
            end += gap + struct.calcsize(f"<{code}")
            fields.append(Field(f"f{number}", kind, nullable=self._has_nulls and rng.random() < 0.6))
        tail = rng.choice((0, 0, 5))
        codes.append(f"{tail}x")
        self._padding = rng.choice(_PADDINGS)
        self._record = struct.Struct(("<" if self._order == "little" else ">") + "".join(codes))
        form = NativeFormat(
            byte_order=self._order,
            layout=" ".join(places),
            record_bytes=end + tail if tail else 0,
            null_bitmap=self._has_nulls,
            padding=self._padding,
        )
        self.schema = Schema(tuple(fields), format=form)

    def sample(self, rng: random.Random, rows: int | None = None) -> Sample:
        """Return a random file."""
        count = rng.choice((0, 1, 2, 20, 60, 300)) if rows is None else rows
        data = b"".join(self._record.pack(*self._random_record(rng)) for _ in range(count))
        size = self._record.size
        ends = list(range(size, size * (count + 1), size))
        return Sample(
            schema=self.schema, data=data, table=self._read(data), ends=ends, breaks=[0, *ends], spread="length"
        )

    def _random_record(self, rng: random.Random) -> Iterator[Any]:
        nulls = sum(1 << bit for bit, field in enumerate(self.schema.fields) if field.nullable and rng.random() < 0.2)
        yield nulls.to_bytes(8, "little")[: (len(self.schema.fields) + 7) // 8 if self._has_nulls else 0]
        for field in self.schema.fields:
            yield self._random_value(rng, field.type)

    def _random_value(self, rng: random.Random, kind: str) -> Any:
        if kind in BOUNDS:
            return rng.choice((*BOUNDS[kind], rng.randint(*BOUNDS[kind])))
        if kind == "string":
            text = random_word(rng, 5).encode()
            # Only ever whole characters: of what is cut off within one the rest is ASCII.
            return text.ljust(20, b" " if self._padding == "blank" else b"\0") if text.isascii() else b"x" * 20
        if kind.startswith(("decimal", "numeric")):
            digits = int(kind[8:-1].partition(",")[0])
            return rng.randint(-(10**digits) + 1, 10**digits - 1).to_bytes(16, self._order, signed=True)
        return {
            "float32": rng.choice((0.0, -1.5, float(rng.randint(-(2**20), 2**20)))),
            "float64": rng.choice((0.0, -0.0, float("inf"), rng.gauss(0, 1e9))),
            "bool": rng.random() < 0.5,
            "char": rng.choice(b"aZ0#~").to_bytes(1, "little"),
            "date": rng.randint(-_DAYS, _DAYS),
        }.get(kind, rng.randint(-_SECONDS, _SECONDS))

    def _read(self, data: bytes) -> Any:
        """Return the library's parse."""
        columns: list[list[Any]] = [[] for _ in self.schema.fields]
        for nulls, *values in self._record.iter_unpack(data):
            bits = int.from_bytes(nulls, "little")
            for bit, (field, value) in enumerate(zip(self.schema.fields, values, strict=True)):
                columns[bit].append(None if bits >> bit & 1 else self._value(field.type, value))
        arrays = []
        for field, column in zip(self.schema.fields, columns, strict=True):
            wanted = field.parser.arrow_type
            arrays.append(pa.array(column, _STORED.get(field.type, wanted)).cast(wanted))
        return pa.table(arrays, names=list(self.schema.names))

    def _value(self, kind: str, value: Any) -> Any:
        if kind == "string":
            return value.rstrip(b" " if self._padding == "blank" else b"\0").decode()
        if kind == "char":
            return value.decode()
        if kind.startswith(("decimal", "numeric")):
            scale = int(kind[8:-1].partition(",")[2])
            return Decimal(int.from_bytes(value, self._order, signed=True)).scaleb(-scale, context=_EXACT)
        return value
