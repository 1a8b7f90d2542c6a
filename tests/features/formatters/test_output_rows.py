"""Rows 25 to 30 of docs/features/formats.md: codecs, synchronised mode, pushdown, epochs, registries, UTF-8."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import runtime.formats.values as values_module
from runtime.formats import (
    Block,
    Codec,
    CodecError,
    Condition,
    CsvFormat,
    InputFormatIndexer,
    InputFormatter,
    ParsedBlock,
    Pushdown,
    Run,
    RunIndex,
    Schema,
    SchemaError,
    SettledIndex,
    TupleRange,
    ValueParser,
    format_named,
    register,
    register_format,
    value_parser,
)
from runtime.formats import registry as registry_module
from runtime.formats.jsonlines import JsonFormat
from tests.conformance.formats.cutting import shuffled
from tests.conformance.formats.drive import drive
from tests.conformance.formats.encoding import compressed, encoded_buffers
from tests.features.formatters.streams import PAIRS, cut_after, format_bytes, format_raws, schema_of, values
from tests.generators.ingest_lab import IngestLab, ListSource, footers, sealed_rows, trace, trace_adaptor

ROWS = [(n, f"word {n}") for n in range(400)]
TEXT = b"".join(b"%d,%s\n" % (n, word.encode()) for n, word in ROWS)
CODECS = pytest.mark.parametrize("name", ["gzip", "zstd", "lz4"])


@CODECS
@pytest.mark.parametrize("size", [1, 13, 1000])
def test_row_25_a_stream_compressed_as_a_whole(name: str, size: int) -> None:
    """Sequential: cut anywhere, in any order, by several workers; two frames behind each other are one stream."""
    half = len(TEXT) // 2
    raws = cut_after(compressed(name, TEXT[:half]) + compressed(name, TEXT[half:]), size)
    for seed in range(3):
        rng = random.Random(seed)
        formatter = InputFormatter(PAIRS)
        formatter.open(1, codec=Codec(name))  # type: ignore[arg-type]
        outcome = drive(formatter, shuffled(rng, raws, 20), rng, workers=2 * seed)[1]
        assert values(outcome) == ROWS
        assert outcome.ends[-1] == len(TEXT)


@CODECS
@pytest.mark.parametrize("is_sized", [False, True])
def test_row_25_buffers_compressed_one_by_one(name: str, is_sized: bool) -> None:
    codec = Codec(name, "per_buffer", is_sized=is_sized)  # type: ignore[arg-type]
    raws = encoded_buffers(codec, cut_after(TEXT, 100))
    for seed in range(3):
        rng = random.Random(seed)
        formatter = InputFormatter(PAIRS)
        formatter.open(1, codec=codec)
        outcome = drive(formatter, shuffled(rng, raws, 40), rng, workers=2 * seed)[1]
        assert values(outcome) == ROWS
        assert outcome.ends[-1] == len(TEXT)


@CODECS
@pytest.mark.parametrize("mode", ["sequential", "per_buffer"])
def test_row_25_a_bomb_meets_a_limit(name: str, mode: Any) -> None:
    codec = Codec(name, mode, limit_bytes=1 << 21)  # type: ignore[arg-type]
    formatter = InputFormatter(PAIRS)
    formatter.open(1, codec=codec)
    (raw,) = encoded_buffers(codec, cut_after(b"\n" * 10_000_000, 10_000_000))
    with pytest.raises(CodecError, match="at most 2097152 decoded bytes"):
        formatter.format([raw])


class TurnFormat(msgspec.Struct, frozen=True):
    """Letters that toggle: between two stars a semicolon ends no tuple. Only to be read from the start on."""

    @property
    def name(self) -> str:
        return "turn"

    def indexer(self, schema: Schema, pushdown: Pushdown) -> InputFormatIndexer:
        return TurnIndexer(schema, pushdown)


class TurnIndexer(InputFormatIndexer):
    ordered: ClassVar[bool] = True
    seen: ClassVar[list[bytes]] = []

    def __init__(self, schema: Schema, pushdown: Pushdown) -> None:
        del pushdown
        self._schema = schema.arrow_schema()

    def index(self, run: Run) -> RunIndex:
        self.seen.append(run.data)
        text = run.data
        return SettledIndex(TupleRange(text.find(b";") + 1 or -1, text.rfind(b";") + 1 or -1))

    def parse(self, block: Block) -> ParsedBlock:
        texts = bytes(block.data).split(b";")[:-1]
        ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64)
        rows = pa.RecordBatch.from_arrays(
            [pa.array([text.decode() for text in texts], pa.string())], schema=self._schema
        )
        return ParsedBlock(rows=rows, tuples=len(texts), ends=lambda: ends)

    def terminated(self, tail: bytes, state: int) -> bytes | None:
        return tail + b";"

    def empty_rows(self) -> Any:
        return self._schema.empty_table().to_batches(max_chunksize=1)[0:1] or pa.RecordBatch.from_pylist(
            [], self._schema
        )


@pytest.mark.parametrize("workers", [0, 4])
def test_row_26_an_ordered_format_sees_the_stream_in_order(workers: int) -> None:
    """Buffers come in any order and on any thread; the indexer sees their bytes as the stream had them."""
    data = b"".join(b"tuple %d;" % n for n in range(300))
    for seed in range(3):
        TurnIndexer.seen.clear()
        rng = random.Random(seed)
        schema = schema_of(["string"], TurnFormat())
        outcome = drive(InputFormatter(schema), shuffled(rng, cut_after(data, 7), 60), rng, workers=workers)[1]
        assert b"".join(TurnIndexer.seen) == data
        assert values(outcome) == [(f"tuple {n}",) for n in range(300)]


@pytest.mark.parametrize("form", [CsvFormat(), CsvFormat(quoting=True), JsonFormat()])
def test_row_27_columns_that_nobody_needs_are_not_parsed(form: Any) -> None:
    """What is malformed in them does no harm; tuples are cut, counted and checked for their shape all the same."""
    schema = schema_of(["int64", "int64", "string"], form)
    if form == JsonFormat():
        data = b'{"f0":1,"f1":"x","f2":"a"}\n{"f0":2,"f1":[],"f2":"b"}\n{"f0":3,"f2":"c"}\nno object\n'
    else:
        data = b"1,x,a\n2,,b\n3,3.5,c\n4,4\n"
    outcome = format_bytes(schema, data, size=5, pushdown=Pushdown(columns=("f0", "f2")))
    assert values(outcome) == [(1, "a"), (2, "b"), (3, "c")]
    assert (outcome.total("tuples"), outcome.total("bad")) == (4, 1)
    assert format_bytes(schema, data).total("bad") == 4


def test_row_27_rows_that_nobody_needs_are_dropped_early() -> None:
    pushdown = Pushdown(columns=("f1",), conditions=(Condition("f0", ">=", 7), Condition("f1", "<>", "w8")))
    data = b"".join(b"%d,w%d\n" % (n, n) for n in range(10))
    outcome = format_bytes(schema_of(["int64", "string"]), data, size=3, pushdown=pushdown)
    assert values(outcome) == [("w7",), ("w9",)]
    assert outcome.numbers == [7, 9]
    assert outcome.ends == [40, 50]
    assert (outcome.total("tuples"), outcome.total("filtered")) == (10, 8)


@pytest.mark.parametrize("cuts", [range(0), range(50, 5000, 50), range(3, 5000, 3)], ids=["one", "many", "tiny"])
def test_row_28_a_batch_is_cut_where_an_epoch_ends(tmp_path: Path, cuts: range) -> None:
    """Epochs of 13 messages: each holds the rows of its own bytes and no others, whatever the buffers were."""
    data = trace(100)
    source = ListSource(0, data, [place for place in cuts if place < len(data)])
    assert IngestLab(tmp_path / "all", [(source, trace_adaptor)], workers=2, epoch_messages=13).run() == "finished"
    cut_at = [0, *(footer.cuts["origin-0"].offset for footer in footers(tmp_path / "all"))]
    assert [data[start:stop].count(b"\n") for start, stop in pairwise(cut_at)] == [13] * 7 + [9]
    alone = IngestLab(tmp_path / "first", [(ListSource(0, data[: cut_at[1]]), trace_adaptor)], epoch_messages=1000)
    assert alone.run() == "finished"
    assert sealed_rows(tmp_path / "first") == sealed_rows(tmp_path / "all")[:1]


def test_row_28_rows_know_where_they_end() -> None:
    """What an epoch is cut by: for each row the offset behind it, in columns of Arrow."""
    raws = cut_after(TEXT, 20)
    ends = [place + 1 for place, byte in enumerate(TEXT) if byte == 10]
    for seed in range(3):  # several at once, with gaps between them, are one block
        outcome = format_raws(PAIRS, raws, shuffled(random.Random(seed), range(1, len(raws) + 1), 30), most=16)
        assert outcome.ends == ends
    assert all(type(batch.rows) is pa.RecordBatch for batch in outcome.batches)


def test_row_29_value_parsers_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that one module registers is a type of every text format; a taken name is an error."""
    monkeypatch.setattr(values_module, "_PLAIN", dict(values_module._PLAIN))
    even = ValueParser(
        "even", pa.string(), column_check=lambda column: pa.compute.match_substring_regex(column, "[02468]$")
    )
    register(even)
    with pytest.raises(SchemaError, match="new type name"):
        register(even)
    assert values(format_bytes(schema_of(["even"]), b"12\n13\n14\n")) == [("12",), ("14",)]
    lines = b'{"f0":"12"}\n{"f0":"13"}\n{"f0":"14"}\n'
    assert values(format_bytes(schema_of(["even"], JsonFormat()), lines)) == [("12",), ("14",)]
    assert value_parser("array<even>").arrow_type == pa.list_(pa.string())


def test_row_29_a_new_format_is_registered_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """One class of options and one indexer, as `TurnFormat` above: then it is read like any other."""
    monkeypatch.setattr(registry_module, "_registered", {})
    with pytest.raises(SchemaError, match="turn"):
        format_named("turn")
    register_format("turn", TurnFormat)
    assert format_named("turn") == TurnFormat()
    assert format_named("csv", {"delimiter": ";"}) == CsvFormat(field_delimiter=b";")
    with pytest.raises(SchemaError, match="csv"):
        register_format("csv", TurnFormat)
    outcome = format_raws(schema_of(["string"], format_named("turn")), cut_after(b"a;b;c", 2), ())
    assert values(outcome) == [("a",), ("b",), ("c",)]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
@pytest.mark.parametrize("form", [CsvFormat(), CsvFormat(quoting=True), JsonFormat()])
def test_row_30_utf8_everywhere_and_invalid_bytes_by_policy(form: Any, size: int) -> None:
    """Letters of one to four bytes, cut by every border; bytes that are no UTF-8 make a bad tuple, or a NULL."""
    texts = ["a", "é", "€", "😀", "aé€😀\u00a0z"]
    line = '{{"f0":"{}"}}\n' if form == JsonFormat() else "{}\n"
    good = [line.format(text).encode() for text in texts]
    wrong = [
        line.format("é").encode().replace("é".encode(), bad) for bad in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5")
    ]
    data = b"".join([good[0], wrong[0], *good[1:4], *wrong[1:], good[4]])
    outcome = format_bytes(schema_of(["string"], form), data, size=size)
    assert values(outcome) == [(text,) for text in texts]
    assert (outcome.total("bad"), len(outcome.letters)) == (4, 4)
    assert outcome.letters[0].data == wrong[0].rstrip(b"\n")


def test_row_30_an_invalid_byte_in_a_nullable_text_is_null() -> None:
    outcome = format_bytes(schema_of(["int64", "string?"]), b"1,a\n2,\xff\n3,c\n", size=3)
    assert values(outcome) == [(1, "a"), (2, None), (3, "c")]
    assert (outcome.total("nulled"), outcome.total("bad")) == (1, 0)
