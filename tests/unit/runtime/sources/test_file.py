"""A file as a source: every byte once, in order, at the pace of the sink."""

from __future__ import annotations

import gzip
from pathlib import Path
from threading import Condition

import pytest

from runtime.formats import RawBuffer
from runtime.sources import FileSource, Position, SourceStateError

WAIT_S = 20.0


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


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 999, 1_000])
def test_every_byte_once(tmp_path: Path, compressed: bool, offset: int) -> None:
    """A file, plain or gzip, arrives from the offset on in numbered buffers, then its end is told."""
    data = bytes(range(250)) * 4
    path = tmp_path / ("feed.csv.gz" if compressed else "feed.csv")
    path.write_bytes(gzip.compress(data) if compressed else data)
    sink = run(path, Position(offset=offset), buffer_bytes=64)
    assert sink.data == data[offset:]
    assert [raw.sequence_number for raw in sink.taken] == list(range(1, len(sink.taken) + 1))
    assert all(data[raw.offset :].startswith(raw.data) and len(raw.data) <= 64 for raw in sink.taken)
    assert sink.events == [("end", 7, "")]


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


@pytest.mark.parametrize("name", ["missing", "broken.gz", "short"])
def test_a_file_that_cannot_be_read_is_a_failure(tmp_path: Path, name: str) -> None:
    """The sink hears which file failed and why."""
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"abc" * 1_000)[:-12])
    (tmp_path / "short").write_bytes(b"abc")
    sink = run(tmp_path / name, Position(offset=10 if name == "short" else 0))
    ((kind, origin_id, reason),) = sink.events
    assert (kind, origin_id) == ("failed", 7)
    assert name in reason
