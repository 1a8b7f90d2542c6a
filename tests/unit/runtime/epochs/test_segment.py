"""What is sealed is read back, and nothing else is taken for it."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.epochs import LOCAL_DISK, Cut, Footer, TornSegmentError, read_segment
from runtime.epochs.segment import write_segment

BIDS = pa.record_batch(
    {"id": pa.array([1, 2, 3]), "symbol": pa.array(["A", None, "B"]), "weight": pa.array([1, 1, -1])}
)
FOOTER = Footer(
    from_epoch=6,
    to_epoch=7,
    cuts={"feed": Cut("S1", 12, 340)},
    messages=12,
    time_ns=99,
    control=b"program",
    attributes={"why": "none"},
)


def sealed(path: Path) -> int:
    return write_segment(
        LOCAL_DISK, path, {"bids": [BIDS, BIDS.slice(1)], "asks": [], "trades": [BIDS.slice(0, 0)]}, FOOTER
    )


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.segment"
    checksum = sealed(path)
    segment = read_segment(path)
    segment.verify()
    assert segment.checksum == checksum
    assert segment.footer.cuts == FOOTER.cuts
    assert (segment.footer.control, segment.footer.attributes) == (b"program", {"why": "none"})
    bids = segment.rows("bids")
    assert bids is not None
    assert bids.equals(pa.Table.from_batches([BIDS, BIDS.slice(1)]))
    trades = segment.rows("trades")
    assert trades is not None
    assert trades.num_rows == 0
    assert segment.rows("asks") is None
    assert [(s.name, s.rows, s.offset % 64) for s in segment.footer.sections] == [("bids", 5, 0), ("trades", 0, 0)]


def test_large_batches_are_written_as_they_are(tmp_path: Path) -> None:
    """Small neighbours become one; a large batch is not copied into another, and the stream is Arrow's own."""
    sizes = [1, 2, 1 << 14, 5, (1 << 16) + 1, 40_000, 7, 8]
    batches = [pa.record_batch({"n": pa.array(range(size)), "text": pa.array(["x"] * size)}) for size in sizes]
    write_segment(LOCAL_DISK, tmp_path / "x", {"rows": batches}, FOOTER)
    segment = read_segment(tmp_path / "x")
    segment.verify()
    rows = segment.rows("rows")
    assert rows is not None
    assert rows.equals(pa.Table.from_batches(batches))
    assert [batch.num_rows for batch in rows.to_batches()] == [3, 1 << 14, 5, (1 << 16) + 1, 40_000, 15]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        for batch in rows.to_batches():
            writer.write_batch(batch)
    (section,) = segment.footer.sections
    assert sink.getvalue().to_pybytes() == (tmp_path / "x").read_bytes()[: section.length]


def test_a_segment_without_sections(tmp_path: Path) -> None:
    write_segment(LOCAL_DISK, tmp_path / "x", {}, FOOTER)
    segment = read_segment(tmp_path / "x")
    segment.verify()
    assert segment.footer == FOOTER


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), max_size=4))
def test_any_rows(tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]]) -> None:
    path = tmp_path_factory.mktemp("segment") / "x"
    schema = pa.schema([("v", pa.int64())])
    write_segment(
        LOCAL_DISK, path, {"v": [pa.record_batch([pa.array(b, pa.int64())], schema=schema) for b in batches]}, FOOTER
    )
    table = read_segment(path).rows("v")
    assert (table.column("v").to_pylist() if table is not None else []) == [n for b in batches for n in b]


def test_a_file_that_was_cut_short_is_torn_at_every_length(tmp_path: Path) -> None:
    path = tmp_path / "x.segment"
    sealed(path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(TornSegmentError, match=r"x\.segment"):
            read_segment(path)


def test_a_file_that_goes_on_is_torn(tmp_path: Path) -> None:
    path = tmp_path / "x.segment"
    sealed(path)
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(TornSegmentError):
        read_segment(path)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    """In the padding between sections as well, which means nothing."""
    path = tmp_path / "x.segment"
    write_segment(LOCAL_DISK, path, {"trades": [BIDS.slice(0, 0)], "bids": [BIDS]}, FOOTER)
    data = path.read_bytes()
    first, second = read_segment(path).footer.sections
    assert first.offset + first.length < second.offset, "there is padding"
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        with pytest.raises(TornSegmentError, match=r"x\.segment"):
            read_segment(path).verify()


def test_a_footer_of_something_else_is_torn(tmp_path: Path) -> None:
    """The checksum holds, the bytes are no footer."""
    path = tmp_path / "x.segment"
    body = b"\x01\x02"
    tail = len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + b"DBKSEG01"
    path.write_bytes(body + tail)
    with pytest.raises(TornSegmentError, match=r"x\.segment"):
        read_segment(path)


def test_a_footer_of_an_earlier_release_has_no_watermarks(tmp_path: Path) -> None:
    """All other fields are read."""
    path = tmp_path / "x.segment"
    fields = msgspec.structs.asdict(FOOTER)
    del fields["watermarks"]
    body = msgspec.msgpack.encode(fields)
    path.write_bytes(body + len(body).to_bytes(4, "little") + zlib.crc32(body).to_bytes(4, "little") + b"DBKSEG01")
    footer = read_segment(path).footer
    assert footer.watermarks is None
    assert footer.cuts == FOOTER.cuts


def test_no_file_is_not_a_torn_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_segment(tmp_path / "x.segment")
