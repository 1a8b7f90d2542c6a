"""Numbers of script columns: each format reads, or refuses, the same values of DECIMAL(p,s) and of unsigned types."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final

import pytest

from tests.unit.runtime.service.scripts.test_origins import Read

BAD: Final = None
NUMBERS: Final[Mapping[str, Mapping[str, int | None]]] = {
    "DECIMAL(18,2)": {
        "1": 100, "1.5": 150, "1.500": 150, "-0.00": 0, "1e2": 10_000, "1E-2": 1, "1500e-3": 150, "1e15": 10**17,
        "9999999999999999.99": 10**18 - 1, "-9999999999999999.99": 1 - 10**18, "10000000000000000": BAD, "1e16": BAD,
        "1.505": BAD, "15e-3": BAD, "1e400": BAD,
    },
    "DECIMAL(5,2)": {"999.99": 99_999, "-999.99": -99_999, "1000": BAD, "999.990": 99_999, "999.991": BAD, "1e3": BAD},
    "DECIMAL(5,0)": {"1": 1, "1.0": 1, "1e2": 100, "99999": 99_999, "100000": BAD, "1.5": BAD, "1e-1": BAD},
    "DECIMAL(19,0)": {"9999999999999999999": 10**19 - 1, "10000000000000000000": BAD, "2.0": 2},
    "DECIMAL(38,4)": {
        "1234567890123456789012345678901234.5678": 12345678901234567890123456789012345678,
        "9999999999999999999999999999999999.9999": 10**38 - 1, "10000000000000000000000000000000000": BAD,
        "0.00001": BAD,
    },
}  # fmt: skip
"""Type → JSON's numbers, and the column's integers; csv and JSON's texts have the same of them."""
TEXTS: Final[Mapping[str, Mapping[str, int | None]]] = {
    "DECIMAL(18,2)": {
        "+1": 100, ".5": 50, "5.": 500, "00012.30": 1230, "1.e1": 1000, "": BAD, ".": BAD, "1_000": BAD, "0x1F": BAD,
        "nan": BAD, "Infinity": BAD, "true": BAD, "- 1": BAD, "--1": BAD, "\uff11": BAD, "1f": BAD,
    },
    "DECIMAL(5,0)": {"+1": 1, "5.": 5, "007": 7, "0x1F": BAD, "1,5": BAD},
}  # fmt: skip
"""Type → texts that are no numbers of JSON, and the column's integers."""
UNSIGNED: Final[Mapping[str, Mapping[str, int | None]]] = {
    "UBIGINT": {"0": 0, "9223372036854775808": 2**63, "18446744073709551615": 2**64 - 1, "18446744073709551616": BAD,
                "-1": BAD, "1.0": BAD, "1e3": BAD},
    "UINTEGER": {"4294967295": 2**32 - 1, "4294967296": BAD, "-1": BAD},
    "USMALLINT": {"65535": 65_535, "65536": BAD},
    "UTINYINT": {"255": 255, "256": BAD},
}  # fmt: skip


def read(place: Path, kind: str, format_: str, data: bytes, count: int) -> list[int | None]:
    """The integers of the rows; BAD for those that are malformed."""
    (place / "x").write_bytes(data)
    declared = f"(i INT NOT NULL, v {kind} NOT NULL) FROM FILE '{place}/x' LINE DELIMITED {format_}"
    found = {row["i"]: int(row["v"]) for row in Read(place, declared).rows}
    return [found.get(number) for number in range(count)]


def csv(texts: Sequence[str]) -> bytes:
    return "".join(f'{number},"{text}"\n' for number, text in enumerate(texts)).encode()


def json_numbers(texts: Sequence[str]) -> bytes:
    return "".join(f'{{"i": {number}, "v": {text}}}\n' for number, text in enumerate(texts)).encode()


def json_texts(texts: Sequence[str]) -> bytes:
    return "".join(f'{{"i": {number}, "v": {json.dumps(text)}}}\n' for number, text in enumerate(texts)).encode()


def native(integers: Sequence[int], width: int) -> bytes:
    """Records of an int64 and an integer of so many bytes."""
    return b"".join(number.to_bytes(8, "little") + value.to_bytes(width, "little", signed=width == 16)
                    for number, value in enumerate(integers))  # fmt: skip


WRITERS: Final[Mapping[str, tuple[str, Callable[[Sequence[str]], bytes]]]] = {
    "csv": ("csv (quoting := 'yes')", csv),
    "json numbers": ("json", json_numbers),
    "json texts": ("json", json_texts),
}


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("writer", WRITERS)
def test_formats_judge_decimals_alike(tmp_path: Path, writer: str, kind: str) -> None:
    """Exact, never rounded: what needs more digits than p before or s after the point is malformed."""
    format_, write = WRITERS[writer]
    texts = NUMBERS[kind]
    assert read(tmp_path, kind, format_, write(list(texts)), len(texts)) == list(texts.values())


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("writer", ["csv", "json texts"])
def test_formats_judge_texts_of_decimals_alike(tmp_path: Path, writer: str, kind: str) -> None:
    """Texts that JSON has no numbers for are decimals in csv and in JSON's strings, or in neither."""
    format_, write = WRITERS[writer]
    texts = TEXTS[kind]
    assert read(tmp_path, kind, format_, write(list(texts)), len(texts)) == list(texts.values())


@pytest.mark.parametrize("kind", NUMBERS)
def test_native_judges_decimals_alike(tmp_path: Path, kind: str) -> None:
    """Of the values that the column can hold, those beyond its precision are malformed in 16 bytes too."""
    precision = int(kind.partition("(")[2].partition(",")[0])
    values = [0, 10**precision - 1, 1 - 10**precision, 10**precision, -(10**precision)]
    found = read(tmp_path, kind, "native", native(values, 16), len(values))
    assert found == [*values[:3], BAD, BAD]


@pytest.mark.parametrize("kind", UNSIGNED)
@pytest.mark.parametrize("writer", ["csv", "json numbers"])
def test_formats_judge_unsigned_integers_alike(tmp_path: Path, writer: str, kind: str) -> None:
    """Values are in the range of the type; those of UBIGINT are integers of 128 bits in the relation."""
    format_, write = WRITERS[writer]
    texts = UNSIGNED[kind]
    assert read(tmp_path, kind, format_, write(list(texts)), len(texts)) == list(texts.values())


def test_native_reads_unsigned_integers_in_their_width(tmp_path: Path) -> None:
    """A UBIGINT is 8 bytes."""
    values = [0, 2**63, 2**64 - 1]
    assert read(tmp_path, "UBIGINT", "native", native(values, 8), 3) == values


def test_ubigint_is_an_exact_integer_in_the_relation(tmp_path: Path) -> None:
    """Arrow has it as decimal128(38, 0), as it has every wide integer."""
    (tmp_path / "x").write_text("18446744073709551615\n\n")
    reading = Read(tmp_path, f"(v UBIGINT, w INT) FROM FILE '{tmp_path}/x' LINE DELIMITED csv (null := 'NULL')")
    assert reading.letters[0]["expected"] == "2 fields"
    (tmp_path / "y").mkdir()
    (tmp_path / "x").write_text("18446744073709551615,1\n,2\n")
    reading = Read(tmp_path / "y", f"(v UBIGINT, w INT) FROM FILE '{tmp_path}/x' LINE DELIMITED csv")
    assert reading.values == [(Decimal(2**64 - 1), 1), (None, 2)]
