"""Unions, failing tuples, tuples over many buffers, stuck workers, and restarts in the middle of compressed files."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from runtime.engine.ingest import EpochWriter
from runtime.engine.ingest.formatting import Formatting
from runtime.epochs import Cut
from runtime.formats import Formatted, InputFormatter, Malformed, RawBuffer
from runtime.formats.codecs import Codec
from runtime.plan import Column, Relation
from runtime.relations import Adaptor, RowAdaptor, row_schema
from runtime.sources import FileSource, Position
from tests.generators.ingest_lab import WAIT_SECONDS, IngestLab, ListSource, dead_letters, footers, relations

NUMBERS = Relation("n", (Column("n", "int64"), Column("text", "string")))
SCHEMA = row_schema(NUMBERS)


def numbers(writer: EpochWriter, cut: Cut) -> Adaptor:
    del writer, cut
    return RowAdaptor(NUMBERS, SCHEMA)


def failing(writer: EpochWriter, cut: Cut) -> Adaptor:
    del writer, cut
    return RowAdaptor(NUMBERS, msgspec.structs.replace(SCHEMA, malformed=Malformed.FAIL))


def lines(start: int, stop: int) -> bytes:
    return b"".join([b"%d,row-%d\n" % (n, n) for n in range(start, stop)])


def formatters(lab: IngestLab) -> list[Formatting]:
    return [node.body for node in lab.ingest.plan.nodes if isinstance(node.body, Formatting)]


def expected(*ranges: range) -> Counter[tuple[Any, ...]]:
    return Counter((n, f"row-{n}") for numbers in ranges for n in numbers)


def test_a_union_shares_a_formatter(tmp_path: Path) -> None:
    """Each origin with a shredder of its own: their tuples are cut in all places, and none is mixed with another's."""
    ranges = [range(k * 1000, k * 1000 + 60) for k in range(5)]
    origins = []
    for origin_id, of in enumerate(ranges):
        data = lines(of.start, of.stop)
        origins.append((ListSource(origin_id, data, range(3 + origin_id, len(data), 3 + origin_id)), numbers))
    lab = IngestLab(tmp_path, origins, epoch_messages=7)
    assert lab.run() == "finished"
    assert len(formatters(lab)) == 1
    assert relations(tmp_path)["n"] == expected(*ranges)
    assert [f.messages for f in footers(tmp_path)] == [7] * 42 + [6]
    assert {name: counters.tuples for name, counters in lab.ingest.counters().items()} == {
        f"origin-{k}": 60 for k in range(5)
    }


def test_other_policies_make_another_formatter(tmp_path: Path) -> None:
    sources = [ListSource(0, lines(0, 5)), ListSource(1, lines(5, 9)), ListSource(2, lines(9, 12))]
    lab = IngestLab(tmp_path, [(sources[0], numbers), (sources[1], failing), (sources[2], numbers)])
    assert lab.run() == "finished"
    assert len(formatters(lab)) == 2
    assert relations(tmp_path)["n"] == expected(range(12))


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_tuple_that_fails_its_origin_fails_it_in_order(tmp_path: Path, size: int, workers: int) -> None:
    """What stands before it is sealed, what stands behind it is not read, whatever workers found first."""
    data = lines(0, 20) + b"oops,\xff\n" + lines(20, 40) + b"again\n"
    lab = IngestLab(
        tmp_path, [(ListSource(0, data, range(size, len(data), size)), failing)], workers=workers, epoch_messages=6
    )
    outcome = lab.run()
    assert outcome.startswith("failed: origin origin-0: expected ")
    before = len(lines(0, 20))
    ends_in = (before + len(b"oops,\xff")) // size + 1
    for said in ("was b'oops,\\xff'", "row 20", f"byte {before}", f"buffer {ends_in}"):
        assert said in outcome
    assert relations(tmp_path)["n"] == expected(range(20))
    assert [f.messages for f in footers(tmp_path)] == [6, 6, 6, 2]
    assert footers(tmp_path)[-1].cuts["origin-0"].offset == len(lines(0, 20))
    assert lab.writer.dead_letters == 0, "it is none, and comes again with the next start"


def test_repeats_are_told_when_the_stream_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The formatter forgets a stream at its end, the counters of its origin do not."""
    monkeypatch.setattr("runtime.engine.ingest.ingest.InputFormatter", partial(InputFormatter, slots=2, max_slots=2))
    data = lines(0, 60)
    source = ListSource(0, data, range(2, len(data), 2), shuffle=list.reverse)
    lab = IngestLab(tmp_path, [(source, numbers)], workers=1)
    assert lab.run() == "finished"
    assert relations(tmp_path)["n"] == expected(range(60))
    assert lab.ingest.counters()["origin-0"].repeats >= len(data) // 2 - 2 * 64


def test_a_tuple_over_many_more_buffers_than_may_be_in_flight(tmp_path: Path) -> None:
    """A buffer whose tuple is not over has left: it holds nothing up."""
    text = "x" * 5000
    data = b"1,one\n2," + text.encode() + b"\n3,three\n"
    lab = IngestLab(tmp_path, [(ListSource(0, data, range(3, len(data), 3)), numbers)], in_flight=4, in_flight_bytes=20)
    assert lab.run() == "finished"
    assert relations(tmp_path)["n"] == {(1, "one"): 1, (2, text): 1, (3, "three"): 1}


def test_a_stuck_worker_holds_its_origin_back_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Buffers behind the one it has are formatted by others, but only so many are admitted."""
    stuck, go_on = threading.Event(), threading.Event()
    format_ = InputFormatter.format

    def stick(self: InputFormatter, raws: Sequence[RawBuffer], *more: Any) -> Formatted:
        if any(raw.origin_id == 0 and raw.sequence_number == 2 for raw in raws):
            stuck.set()
            assert go_on.wait(WAIT_SECONDS)
        return format_(self, raws, *more)

    monkeypatch.setattr(InputFormatter, "format", stick)
    data = lines(0, 300)
    slow, other = ListSource(0, data, range(9, len(data), 9)), ListSource(1, lines(300, 900), range(11, 9000, 11))
    lab = IngestLab(tmp_path, [(slow, numbers), (other, failing)], workers=2, in_flight=10)
    lab.start()
    assert stuck.wait(WAIT_SECONDS)
    drained = threading.Event()
    assert other.delivered.wait(WAIT_SECONDS)
    lab.ingest.when_drained(1, drained.set)
    assert drained.wait(WAIT_SECONDS)
    assert not slow.delivered.is_set()
    assert lab.ingest.waiting_bytes <= 10 * 9
    go_on.set()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert relations(tmp_path)["n"] == expected(range(900))


def dying(writer: EpochWriter, epochs: int) -> Any:
    """The writer's `seal`, that fails behind so many epochs: the rest is lost as by a kill."""
    seal, left = writer.begin_seal, iter(range(epochs))

    def sealed(*arguments: Any, **more: Any) -> Any:
        if next(left, None) is None:
            raise OSError("killed")
        return seal(*arguments, **more)

    return sealed


@pytest.mark.parametrize("name", ["plain", "gzip", "zstd", "lz4", "frames"])
def test_a_file_goes_on_where_its_last_epoch_ended(tmp_path: Path, name: Any) -> None:
    """Killed again and again behind some epochs; malformed tuples are told once."""
    data = lines(0, 100) + b"bad\n" + lines(100, 333) + b"worse\n" + lines(333, 500)
    path = tmp_path / "file"
    codec: Codec | None = None
    if name == "frames":
        codec = Codec("zstd", "per_buffer", is_sized=True)
        parts = [codec.encode_buffer(data[start : start + 77]) for start in range(0, len(data), 77)]
        path.write_bytes(b"".join([(len(part) - 4).to_bytes(4, "little") + part for part in parts]))
    else:
        codec = None if name == "plain" else Codec(name)
        path.write_bytes(data if codec is None else codec.encode_buffer(data))
    directory = tmp_path / "run"

    def lab() -> IngestLab:
        return IngestLab(directory, [(FileSource(path, 0, buffer_bytes=50, codec=codec), numbers)], epoch_messages=13)

    for epochs in (3, 4, 11):
        killed = lab()
        killed.writer.begin_seal = dying(killed.writer, epochs)  # type: ignore[method-assign]
        assert killed.run() == "failed: OSError: killed"
    assert lab().run() == "finished"
    assert relations(directory)["n"] == expected(range(500))
    letters = [json.loads(line) for line in (directory / "dead-letters.jsonl").read_bytes().splitlines()]
    assert [(letter["data"], letter["row"], letter["byte_offset"]) for letter in letters] == [
        ("bad", 100, data.index(b"bad")),
        ("worse", 334, data.index(b"worse")),
    ]
    cut = footers(directory)[-1].cuts["origin-0"]
    assert (cut.sequence, cut.tuples, cut.offset) == (500, 502, len(data))


@pytest.mark.parametrize("policy", [Malformed.DEAD_LETTER, Malformed.SKIP])
def test_malformed_tuples_are_counted_once_over_restarts(tmp_path: Path, policy: Malformed) -> None:
    """Also those that are too many to be described, when an epoch ends between them."""
    data = b"".join([b"%d,row-%d\nbad-%d\n" % (n, n, n) for n in range(500)])

    def skipping(writer: EpochWriter, cut: Cut) -> Adaptor:
        del writer, cut
        return RowAdaptor(NUMBERS, msgspec.structs.replace(SCHEMA, malformed=policy))

    def lab() -> IngestLab:
        return IngestLab(tmp_path, [(ListSource(0, data, [9000]), skipping)], epoch_messages=13)

    for epochs in (3, 6, 9):
        killed = lab()
        killed.writer.begin_seal = dying(killed.writer, epochs)  # type: ignore[method-assign]
        assert killed.run() == "failed: OSError: killed"
        assert killed.writer.dead_letters == sum(footer.messages for footer in footers(tmp_path)) - 1
    last = lab()
    assert last.run() == "finished"
    assert relations(tmp_path)["n"] == expected(range(500))
    assert last.writer.dead_letters == 500
    letters = dead_letters(tmp_path)
    assert len(set(letters)) == len(letters)
    assert bool(letters) == (policy is Malformed.DEAD_LETTER)


class Packed(ListSource):
    """A stream whose buffers are compressed each on its own."""

    def codec_at(self, position: Position) -> Codec:
        del position
        return Codec("gzip", "per_buffer")


def test_an_error_of_a_codec_names_the_origin_at_fault(tmp_path: Path) -> None:
    """And none of those whose buffers were in the same task."""
    codec = Codec("gzip", "per_buffer")
    texts = [codec.encode_buffer(lines(0, 5)), b"no gzip", codec.encode_buffer(lines(5, 9))]
    lab = IngestLab(tmp_path, [(Packed(n, text), numbers) for n, text in enumerate(texts)], workers=1)
    assert lab.run().startswith("failed: origin origin-1: expected a gzip stream, was not one")
    assert len(lab.listener.failed_origins) == 1
    assert relations(tmp_path)["n"] == expected(range(9)), "the others are read to their ends"
