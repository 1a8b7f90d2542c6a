"""A file as a source: every byte once, in order, at the pace of the sink.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from threading import Condition
from typing import Final, Literal

import pytest

from runtime.formats import RawBuffer
from runtime.formats.codecs import Codec
from runtime.sources import FileSource, Position, SourceStateError

WAIT_S = 20.0
LZ4: Final = Codec("lz4").encode_buffer


class Sink:
    """Takes the first so many buffers, then refuses until more are allowed; wakes the test at every call."""

    def __init__(self, room: int = 1_000_000) -> None:
        self.room = room
        self.taken: list[RawBuffer] = []
        self.refused: list[RawBuffer] = []
        self.events: list[tuple[str, int, str]] = []
        self.changed = Condition()

    def offer(self, raw: RawBuffer) -> bool:
        with self.changed:
            taken = len(self.taken) < self.room
            (self.taken if taken else self.refused).append(raw)
            self.changed.notify_all()
            return taken

    def end_of_stream(self, origin_id: int) -> None:
        self._event("end", origin_id, "")

    def failed(self, origin_id: int, reason: str) -> None:
        self._event("failed", origin_id, reason)

    def lost(self, origin_id: int, reason: str) -> None:
        self._event("lost", origin_id, reason)

    def _event(self, kind: str, origin_id: int, reason: str) -> None:
        with self.changed:
            self.events.append((kind, origin_id, reason))
            self.changed.notify_all()

    @property
    def data(self) -> bytes:
        return b"".join(raw.data for raw in self.taken)


def run(path: Path, position: Position | None = None, buffer_bytes: int = 1 << 18) -> Sink:
    sink, source = Sink(), FileSource(path, 7, buffer_bytes=buffer_bytes)
    source.open(sink, position or Position())
    assert source.join(WAIT_S)
    return sink


@pytest.mark.parametrize("offset", [0, 1, 999, 1_000])
def test_every_byte_once(tmp_path: Path, offset: int) -> None:
    """A file arrives from the offset on in numbered buffers, then its end is told."""
    data = bytes(range(250)) * 4
    path = tmp_path / "feed.csv"
    path.write_bytes(data)
    sink = run(path, Position(offset=offset), buffer_bytes=64)
    assert sink.data == data[offset:]
    assert [raw.sequence_number for raw in sink.taken] == list(range(1, len(sink.taken) + 1))
    assert all(data[raw.offset :].startswith(raw.data) and len(raw.data) <= 64 for raw in sink.taken)
    assert sink.events == [("end", 7, "")]


@pytest.mark.parametrize(
    ("suffix", "compress"), [(".gz", gzip.compress), (".zst", Codec("zstd").encode_buffer), (".lz4", LZ4)]
)
@pytest.mark.parametrize("offset", [0, 999, 1_000])
def test_a_compressed_file_is_decoded_by_who_formats_it(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes], offset: int
) -> None:
    """It comes as it is, from its beginning on; the codec of the position leaves out what stands before it."""
    data = bytes(range(250)) * 4
    path = tmp_path / f"feed.csv{suffix}"
    path.write_bytes(compress(data))
    sink = run(path, Position(offset=offset), buffer_bytes=16)
    assert sink.data == path.read_bytes()
    assert {raw.offset for raw in sink.taken} == {-1}
    codec = FileSource(path, 7).codec_at(Position(offset=offset))
    assert codec is not None
    decoder = codec.decoder()
    assert b"".join([decoder.decode(raw.data) for raw in sink.taken]) == data[offset:]
    decoder.finish()


def frames(*parts: bytes, name: Literal["gzip", "zstd", "lz4"] = "zstd") -> bytes:
    """A file of frames."""
    codec = Codec(name, "per_buffer", is_sized=True)
    buffers = [codec.encode_buffer(part) for part in parts]
    return b"".join([(len(buffer) - 4).to_bytes(4, "little") + buffer for buffer in buffers])


@pytest.mark.parametrize("name", ["gzip", "zstd", "lz4"])
def test_a_file_of_frames_is_read_from_any_decoded_byte_on(
    tmp_path: Path, name: Literal["gzip", "zstd", "lz4"]
) -> None:
    """Each frame is a buffer that knows its decoded offset; the one in which the position lies is cut."""
    parts = [b"one\n", b"", b"two\nthr", b"ee\n"]
    data = b"".join(parts)
    path = tmp_path / "feed"
    path.write_bytes(frames(*parts, name=name))
    for offset in range(len(data) + 1):
        source = FileSource(path, 7, codec=Codec(name, "per_buffer"))
        sink = Sink()
        source.open(sink, Position(offset=offset))
        assert source.join(WAIT_S)
        assert sink.events == [("end", 7, "")]
        codec = source.codec_at(Position(offset=offset))
        assert codec is not None
        found = [(raw.offset, codec.decode_buffer(raw.data)) for raw in sink.taken]
        assert b"".join(text for _, text in found) == data[offset:]
        assert all(data[place:].startswith(text) for place, text in found)
        assert [raw.sequence_number for raw in sink.taken] == list(range(1, len(found) + 1))


@pytest.mark.parametrize(
    ("data", "offset", "reason"),
    [
        (frames(b"one\n")[:-1], 0, "expected a frame of 13 bytes, was the end of the file after 12"),
        (frames(b"one\n") + b"\1\0\0", 0, "expected the 8 bytes of a frame's lengths, was 3 at the end"),
        (b"\xff" * 8, 0, "expected frames of at most"),
        (frames(b"one\n"), 5, "expected at least 5 bytes, was 4"),
        (frames(b"one\n").replace(b"\x28\xb5", b"??"), 1, "expected a zstd stream"),
    ],
)
def test_a_file_of_frames_that_is_none_is_a_failure(tmp_path: Path, data: bytes, offset: int, reason: str) -> None:
    path = tmp_path / "feed"
    path.write_bytes(data)
    source, sink = FileSource(path, 7, codec=Codec("zstd", "per_buffer")), Sink()
    source.open(sink, Position(offset=offset))
    assert source.join(WAIT_S)
    ((kind, _, said),) = sink.events
    assert (kind, reason in said) == ("failed", True), said


def test_empty_file(tmp_path: Path) -> None:
    """Row 9: an empty file is a stream without buffers."""
    (tmp_path / "empty").write_bytes(b"")
    sink = run(tmp_path / "empty")
    assert (sink.taken, sink.events) == ([], [("end", 7, "")])


def test_refusal_blocks_until_resume(tmp_path: Path) -> None:
    """A refused buffer is offered again after resume, unchanged, and nothing is read ahead of it."""
    path = tmp_path / "feed"
    path.write_bytes(b"abcdefghij")
    sink, source = Sink(room=2), FileSource(path, 7, buffer_bytes=2)
    source.open(sink, Position())
    with sink.changed:
        assert sink.changed.wait_for(lambda: len(sink.refused) == 1, WAIT_S)
        assert (sink.data, sink.refused[0].data) == (b"abcd", b"ef")
    source.resume()  # still no room: refused once more
    with sink.changed:
        assert sink.changed.wait_for(lambda: len(sink.refused) == 2, WAIT_S)
        sink.room = 100
    source.resume()
    assert source.join(WAIT_S)
    assert sink.data == b"abcdefghij"
    assert sink.events == [("end", 7, "")]


def test_resume_before_the_refusal_has_returned(tmp_path: Path) -> None:
    """A resume that comes while the buffer is being refused is not lost."""
    path = tmp_path / "feed"
    path.write_bytes(b"abcd")

    class Hasty(Sink):
        def offer(self, raw: RawBuffer) -> bool:
            if not self.refused:
                self.refused.append(raw)
                source.resume()
                return False
            return super().offer(raw)

    sink, source = Hasty(), FileSource(path, 7)
    source.open(sink, Position())
    assert source.join(WAIT_S)
    assert sink.data == b"abcd"


def test_close_wakes_a_source_that_waits(tmp_path: Path) -> None:
    """After close the thread ends and the sink hears nothing more."""
    path = tmp_path / "feed"
    path.write_bytes(b"abcd")
    sink, source = Sink(room=0), FileSource(path, 7)
    source.open(sink, Position())
    with sink.changed:
        assert sink.changed.wait_for(lambda: len(sink.refused) == 1, WAIT_S)
    source.close()
    assert source.join(WAIT_S)
    source.close()
    assert (sink.taken, sink.events) == ([], [])
    with pytest.raises(SourceStateError):
        source.open(sink, Position())


@pytest.mark.parametrize("name", ["missing", "short"])
def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path, name: str) -> None:
    """The sink hears which file failed and why."""
    (tmp_path / "short").write_bytes(b"abc")
    sink = run(tmp_path / name, Position(offset=10 if name == "short" else 0))
    ((kind, origin_id, reason),) = sink.events
    assert (kind, origin_id) == ("failed", 7)
    assert name in reason
