"""What a script's declarations make of files: formats, policies, codecs, and the columns that are read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from runtime.compiler import StreamDeclaration, compile_program, read_script
from runtime.engine.ingest import EpochWriter, Ingest, IngestConfig
from runtime.epochs import EpochLogReader
from runtime.formats.codecs import Codec
from runtime.service.errors import ServiceError
from runtime.service.scripts.origins import script_origins
from runtime.service.scripts.run import columns_read
from tests.generators.ingest_lab import WAIT_SECONDS, ScriptListener


class Read:
    """A stream called r, read to its end."""

    def __init__(self, place: Path, declared: str, *, columns: dict[str, frozenset[str]] | None = None) -> None:
        """``declared``: from the columns on."""
        (stream,) = streams(place, declared)
        writer = EpochWriter(place / "run", lambda: 0, lambda _: None)
        try:
            writer.seal({})
            listener = ScriptListener()
            ingest = Ingest(IngestConfig(), writer, script_origins([stream], writer, columns), listener)
            ingest.start()
            self.outcome = listener.outcomes.get(timeout=WAIT_SECONDS)
            ingest.stop()
            (self.counters,) = ingest.counters().values()
        finally:
            writer.close()
        reader = EpochLogReader(place / "run" / "epochs")
        tables = [reader.read(epoch).rows("r") for epoch in range(1, reader.latest() + 1)]
        self.rows: list[dict[str, Any]] = [row for table in tables if table is not None for row in table.to_pylist()]
        letters = place / "run" / "dead-letters.jsonl"
        self.letters = [json.loads(line) for line in letters.read_bytes().splitlines()] if letters.exists() else []

    @property
    def values(self) -> list[tuple[Any, ...]]:
        """The rows without their weights, all of them inserted."""
        assert all(row["weight"] == 1 for row in self.rows)
        return [tuple(value for name, value in row.items() if name != "weight") for row in self.rows]


def streams(place: Path, declared: str, select: str = "") -> list[StreamDeclaration]:
    script = place / "script.sql"
    script.write_text(f"CREATE STREAM r{declared};\n{select}")
    return list(read_script(script).streams)


AB = "(a INT, b VARCHAR(9)) FROM FILE 'x' "


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("LINE DELIMITED csv", "1,one\n2,two\n"),
        ("LINE DELIMITED csv (delimiter := ';')", "1;one\n2;two\n"),
        (r"LINE DELIMITED csv (fields := '\t', header := 'true')", "a\tb\n1\tone\n2\ttwo\n"),
        ("'|;' DELIMITED csv (quoting := yes, trim := 'yes')", ' 1, one|;2,"two"|;'),
        ("LINE DELIMITED json", '{"b":"one","a":1}\n{"c":[],"a":2,"b":"two"}\n'),
        ("json (path.a := 'x.y')", '{"b":"one","x":{"y":1}}\n{"x":{"y":2},"b":"two"}\n'),
    ],
)
def test_a_format_and_its_options(tmp_path: Path, options: str, text: str) -> None:
    (tmp_path / "x").write_text(text)
    read = Read(tmp_path, AB + options)
    assert (read.outcome, read.values) == ("finished", [(1, "one"), (2, "two")])


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4"])
@pytest.mark.parametrize("mode", ["sequential", "per_buffer"])
def test_a_compressed_file(tmp_path: Path, name: Any, mode: Any) -> None:
    """As a whole, or as a file of frames; the option says what the suffix does not."""
    data = b"".join(b"%d,row\n" % n for n in range(50_000))
    codec = Codec(name, mode, is_sized=mode == "per_buffer")
    if mode == "sequential":
        (tmp_path / "x").write_bytes(codec.encode_buffer(data))
    else:
        parts = [codec.encode_buffer(data[start : start + 9999]) for start in range(0, len(data), 9999)]
        (tmp_path / "x").write_bytes(b"".join([(len(part) - 4).to_bytes(4, "little") + part for part in parts]))
    read = Read(tmp_path, AB + f"csv (codec := '{name}', codec_mode := '{mode}')")
    assert (read.outcome, read.values) == ("finished", [(n, "row") for n in range(50_000)])


def test_the_suffix_says_the_codec(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(b"1,one\n"))
    assert Read(tmp_path, AB.replace("'x'", "'x.csv.gz'") + "csv").values == [(1, "one")]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (gzip.compress(b"1,one\n" * 1000)[:-9], "expected the end of a gzip frame"),
        (b"1,one\n", "expected a gzip stream"),
        (gzip.compress(bytes(1 << 22)), "expected at most 1048576 decoded bytes a buffer"),
    ],
    ids=["cut short", "not gzip", "decodes to too much"],
)
def test_a_codec_that_breaks_fails_and_says_where(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "x").write_bytes(data)
    read = Read(tmp_path, AB + "csv (codec := 'gzip', codec_limit := '1048576')")
    assert reason in read.outcome
    assert "origin" in read.outcome
    assert str(tmp_path / "x") in read.outcome


NULLABLE = "1,2\n3,x\ny,4\n5,6\n"
NUMBERS = "(a INT NOT NULL, b INT) FROM FILE 'x' csv "


def test_malformed_values_are_null_and_tuples_dead_letters(tmp_path: Path) -> None:
    """Unless something else is said; both are counted."""
    (tmp_path / "x").write_text(NULLABLE)
    read = Read(tmp_path, NUMBERS)
    assert (read.outcome, read.values) == ("finished", [(1, 2), (3, None), (5, 6)])
    assert (read.counters.tuples, read.counters.bad, read.counters.nulled, read.counters.skipped) == (4, 1, 1, 0)
    ((letter),) = read.letters
    assert (letter["row"], letter["byte_offset"], letter["field"], letter["data"]) == (2, 8, "a", "y,4")


def test_malformed_tuples_may_be_skipped(tmp_path: Path) -> None:
    (tmp_path / "x").write_text(NULLABLE)
    read = Read(tmp_path, NUMBERS + "(malformed := 'skip', malformed_nullable := 'skip')")
    assert (read.outcome, read.values, read.letters) == ("finished", [(1, 2), (5, 6)], [])
    assert (read.counters.bad, read.counters.skipped, read.counters.nulled) == (2, 2, 0)


def test_a_malformed_tuple_may_fail_its_origin(tmp_path: Path) -> None:
    """In order: what stands before it is in an epoch, and the message says everything about it."""
    (tmp_path / "x").write_text(NULLABLE)
    read = Read(tmp_path, NUMBERS + "(malformed := 'fail')")
    assert read.values == [(1, 2), (3, None)]
    for said in (f"origin {tmp_path / 'x'}", "for field a", "was b'y,4'", "buffer 1", "row 2", "byte 8", "int64"):
        assert said in read.outcome, read.outcome


def test_null_has_the_text_that_the_option_says(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1,-\n2,3\n")
    read = Read(tmp_path, NUMBERS + "(null := '-')")
    assert (read.values, read.counters.nulled) == ([(1, None), (2, 3)], 0)


def test_types_may_be_narrower_in_the_input(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("1,200\n-1,300\n")
    read = Read(tmp_path, NUMBERS + "(type.b := 'uint8')")
    assert (read.values, read.counters.nulled) == ([(1, 200), (-1, None)], 1)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        (AB + "csv (colour := 'red')", "expected options out of "),
        (AB + "csv (quoting := 'maybe')", "expected yes or no for quoting of csv, was 'maybe'"),
        (AB + "csv (eventtype := 'delete')", "expected eventtype := 'insert' for r, was delete"),
        (AB + "csv (malformed := 'null')", "expected malformed := 'dead_letter' or 'skip' or 'fail' for r, was null"),
        (AB + "csv (tuple_bytes := 'many')", "expected tuple_bytes := a whole number from 1 to 1000000000000000000"),
        (AB + f"csv (tuple_bytes := '{'9' * 5_000}')", "for r, was 999"),
        (AB + "json (header := 'true')", "expected options out of "),
        (AB + "';' DELIMITED json", "expected LINE DELIMITED for json, was b';' DELIMITED"),
        (AB + "json (path.c := 'x')", "expected an option out of path.a, path.b for r, was path.c"),
        (AB + "csv (path.a := 'x')", "expected no path.a for r, as csv has no paths, was x"),
        (
            AB + "csv (malformed_nullable := 'fail')",
            "expected malformed_nullable := 'null', or 'dead_letter' like malformed, for r, was fail",
        ),
        (AB + "csv (malformed := 'skip', malformed_nullable := 'dead_letter')", "'null', or 'skip' like malformed"),
        (AB + "csv (codec_limit := '9')", "expected codec_limit for r only with a codec, was none: x has no suffix of"),
        (AB + "native", "stream r: expected no nullable field without a null_bitmap, was a"),
        (AB + "itch", "stream r: expected a field of an ITCH message, was 'a'"),
        (AB + "csv (type.a := 'float64')", "expected type.a := int8 or int16 or int32 or int64"),
        (AB + "xml", "expected an adaptor out of csv, itch, json, native, orderbook for r, was 'xml'"),
        (AB + "csv (codec := 'rar')", "expected codec := 'gzip' or 'zstd' or 'lz4' for r, was rar"),
        (AB + "orderbook (brokers := '0')", "expected brokers := a whole number from 1 to 1000000000000000000"),
        (AB + "';' DELIMITED orderbook", "expected LINE DELIMITED for orderbook of r, was b';' DELIMITED"),
        (
            AB + "'|' DELIMITED csv (tuple_delimiter := ';')",
            "expected tuple_delimiter or DELIMITED, was both: b'|' DEL",
        ),
        (AB + "orderbook (delimiter := ';')", "expected options out of "),
    ],
)
def test_what_nobody_knows_is_an_error(tmp_path: Path, declared: str, reason: str) -> None:
    (tmp_path / "x").write_bytes(b"")
    with pytest.raises(ServiceError) as caught:
        Read(tmp_path, declared)
    assert reason in str(caught.value)


def test_columns_that_no_view_reads_are_not_parsed(tmp_path: Path) -> None:
    """Nor looked at: what stands in them may be anything. Counting rows alone reads the first one."""
    declared = "(a INT NOT NULL, b INT, c INT NOT NULL) FROM FILE 'x' csv"
    (tmp_path / "x").write_text("1,2,x\n3,4,y\n")
    found = {}
    selects = ["SELECT SUM(b) FROM r GROUP BY a;", "SELECT COUNT(*) FROM r;", "SELECT c FROM r WHERE b > 1;"]
    for select in [*selects, " ".join(selects)]:
        script = tmp_path / "script.sql"
        script.write_text(f"CREATE STREAM r{declared};\n{select}")
        read = read_script(script)
        program = compile_program(read.selects, [s.relation() for s in read.streams], mode="sql")
        found[select] = columns_read(program, read.streams)["r"]
    assert list(found.values()) == [{"a", "b"}, set(), {"b", "c"}, {"a", "b", "c"}]
    assert Read(tmp_path, declared, columns={"r": frozenset("ab")}).rows == [
        {"a": 1, "b": 2, "weight": 1},
        {"a": 3, "b": 4, "weight": 1},
    ]
    assert Read(tmp_path / "run", declared.replace("'x'", "'../x'"), columns={"r": frozenset()}).values == [(1,), (3,)]
