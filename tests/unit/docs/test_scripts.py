"""What the pages say of scripts holds: their declarations are read, and every option has its line."""

from __future__ import annotations

import gzip
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.compiler.script import parse_script
from runtime.engine.ingest import EpochWriter, IngestConfig, Origin
from runtime.formats import COALESCE_BYTES, Codec, InputFormatter, Limits, RawBuffer
from runtime.formats.registry import format_kind
from runtime.service.scripts.origins import script_origins
from runtime.sources import Position

ROOT = Path(__file__).parents[3]
FORMATS_PAGE = (ROOT / "docs" / "formats.md").read_text("utf-8")
PARTS_PAGE = (ROOT / "docs" / "parts.md").read_text("utf-8")
FORMATS = ("csv", "json", "native", "itch")


def declarations(page: str) -> Iterator[str]:
    for block in re.findall(r"^```sql\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if "CREATE STREAM" in block:
            yield block


def origin_of(sql: str, data: bytes, tmp_path: Path) -> Origin:
    """The origin that a page's script makes of a file with this content."""
    script = parse_script(sql, name="page.sql", base_dir=tmp_path)
    (declaration,) = script.streams
    path = tmp_path / getattr(declaration.source, "name")  # noqa: B009 (a file, as the assertion below finds)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    writer = EpochWriter(tmp_path / "run", time.time_ns, lambda _: None)
    try:
        (origin,) = script_origins(script.streams, writer).values()
    finally:
        writer.close()
    return origin


def rows_of(origin: Origin, data: bytes) -> list[tuple[Any, ...]]:
    formatter = InputFormatter(origin.adaptor.schema)
    formatter.open(0, codec=origin.source.codec_at(Position()))
    batches = formatter.format([RawBuffer(0, 1, data, 0)]).batches + formatter.finish(0)
    return [tuple(row.values()) for batch in batches for row in batch.rows.to_pylist()]


def test_the_first_declaration_of_the_page_reads_what_it_says(tmp_path: Path) -> None:
    sql = next(sql for sql in declarations(FORMATS_PAGE) if "trades" in sql)
    data = b't;price;volume;note\r\n1;10.5;3;"a;b"\n2;;70000000000;x\n3;1;2\n'
    origin = origin_of(sql, data, tmp_path)
    # A price in exact integers of four decimals; a volume beyond int32 is malformed, which makes it NULL; the last
    # tuple has too few fields and is skipped.
    found = rows_of(origin, gzip.compress(data))
    assert [(row[0], row[2], row[3]) for row in found] == [(1, 3, "a;b"), (2, None, "x")]
    assert found[1][1] is None


def test_the_declaration_of_the_parts_page_reads_what_it_says(tmp_path: Path) -> None:
    (sql,) = declarations(PARTS_PAGE)
    data = b'{"symbol":"ACME","quote":{"price":10.25},"quantity":7,"more":1}\n{"quantity":1}\n'
    origin = origin_of(sql, data, tmp_path)
    ((at, symbol, quantity, price),) = rows_of(origin, gzip.compress(data))
    assert (at, symbol, quantity) == (None, "ACME", 7)
    assert price is not None


@pytest.mark.parametrize("name", FORMATS)
def test_every_option_of_a_format_is_on_the_page(name: str) -> None:
    section = FORMATS_PAGE.partition(f"### {name}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    written = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    aliases = {"delimiter": "field_delimiter"}
    fields = {field.name for field in msgspec.structs.fields(format_kind(name))} - {"tuple_delimiter"}
    assert {aliases.get(option, option) for option in written} == fields
    assert ("`'x' DELIMITED`" in section) == (name == "csv")


def test_the_bounds_on_the_page_are_those_of_the_code() -> None:
    config, limits, codec = IngestConfig(), Limits(), Codec("gzip")
    assert f"more than {config.admitted_bytes >> 20} MiB in total" in FORMATS_PAGE
    assert f"or {config.in_flight_bytes >> 20} MiB of one source" in FORMATS_PAGE
    assert f"| `tuple_bytes` | {limits.tuple_bytes} |" in FORMATS_PAGE
    bounds = f"{limits.tuple_bytes >> 10} KiB, {limits.fields} fields and {limits.nesting} levels of nesting"
    assert bounds in FORMATS_PAGE
    assert f"| {codec.limit_bytes >> 20} MiB, {codec.most_ratio} |" in FORMATS_PAGE
    assert f"formatted together, as one *block* of up to {COALESCE_BYTES >> 20} MiB" in FORMATS_PAGE.replace("\n", " ")
    assert f"{limits.described} malformed tuples of a block are described" in FORMATS_PAGE.replace("\n", " ")
