"""Epochs are committed while the next one fills: in order, one at a time, and a failure is heard at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from runtime.engine.ingest import CommitterThread, EpochWriter, Sections
from runtime.epochs import LOCAL_DISK, Cut, Disk, EpochLogReader, Footer, LocalDisk
from runtime.state import MemoryStore, PersistedList, SqliteStore, Store
from runtime.state.stores import Edit
from tests.generators.ingest_lab import WAIT_SECONDS, IngestLab, ListSource, footers, trace_adaptor

TRACE = b"".join(b"%d,%d,B,1,90\n" % (n, n) for n in range(8))
CUT = {"feed": Cut("S", 1, 1)}


class SlowStore(MemoryStore):
    """Commits when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.error: Exception | None = None

    def commit(self, edits: list[Edit]) -> None:  # type: ignore[override, unused-ignore]
        self.begun.set()
        assert self.go_on.wait(WAIT_SECONDS)
        if self.error is not None:
            raise self.error
        super().commit(edits)


def opened(directory: Path, store: Store, disk: Disk = LOCAL_DISK) -> EpochWriter:
    return EpochWriter(directory, lambda: 1, lambda footer: None, store=store, disk=disk, committer=CommitterThread())


def rows(*numbers: int) -> dict[str, pa.RecordBatch]:
    return {"r": pa.record_batch({"a": list(numbers), "weight": [1] * len(numbers)})}


def test_edits_during_a_commit_belong_to_the_next_epoch(tmp_path: Path) -> None:
    store = SlowStore()
    writer = opened(tmp_path, store)
    edited = writer.space.create(PersistedList, "edited")
    edited.append("one")
    writer.add(rows(1), 1)
    writer.begin_seal(CUT)
    assert store.begun.wait(WAIT_SECONDS)
    edited.append("two")
    writer.add(rows(2), 1)
    assert (writer.epoch, writer.messages) == (-1, 1), "nobody sees an epoch that is not durable"
    store.go_on.set()
    assert writer.settle() == 0
    writer._committer.close()  # as if the process had ended here
    store.go_on.set()
    again = opened(tmp_path, store)
    assert list(again.space.get(PersistedList, "edited")) == ["one"]
    again.add(rows(2), 1)
    again.space.get(PersistedList, "edited").append("two")
    again.seal(CUT)
    again.close()
    log = EpochLogReader(tmp_path / "epochs")
    assert [log.read(epoch).rows("r").column("a").to_pylist() for epoch in (0, 1)] == [[1], [2]]  # type: ignore[union-attr]
    assert list(opened(tmp_path, store).space.get(PersistedList, "edited")) == ["one", "two"]


def test_the_next_epoch_closes_after_the_last_is_durable(tmp_path: Path) -> None:
    store = SlowStore()
    writer = opened(tmp_path, store)
    writer.begin_seal({})
    closing = threading.Thread(target=writer.begin_seal, args=({},))
    closing.start()
    closing.join(0.05)
    assert closing.is_alive()
    store.go_on.set()
    closing.join(WAIT_SECONDS)
    assert writer.settle() == 1
    writer.close()


def test_sections_are_made_by_the_committer(tmp_path: Path) -> None:
    writer = opened(tmp_path, SqliteStore(tmp_path / "state.db"))
    seen: list[str] = []

    def batches() -> dict[str, tuple[pa.RecordBatch, ...]]:
        seen.append(threading.current_thread().name)
        return {"view/v": tuple(rows(7).values()), "view/none": ()}

    writer.add_sections(Sections(0, batches))
    writer.seal({})
    writer.close()
    segment = EpochLogReader(tmp_path / "epochs").read(0)
    assert seen == ["committer"]
    assert [section.name for section in segment.footer.sections] == ["view/v"]


def test_the_rows_of_an_epoch_are_handed_on_once_it_is_durable(tmp_path: Path) -> None:
    writer = opened(tmp_path, SqliteStore(tmp_path / "state.db"))
    log = EpochLogReader(tmp_path / "epochs")
    seen: list[tuple[int, dict[str, pa.Table]]] = []

    def on_rows(footer: Footer, sections: Mapping[str, Sequence[pa.RecordBatch]]) -> None:
        assert log.latest() == footer.to_epoch
        seen.append((footer.to_epoch, {name: pa.Table.from_batches(batches) for name, batches in sections.items()}))

    writer.on_rows = on_rows
    writer.add(rows(3), 1)
    writer.add_sections(Sections(0, lambda: {"view/v": tuple(rows(7).values()), "view/none": ()}))
    writer.seal({})
    writer.seal({})
    writer.close()
    segment = log.read(0)
    assert [epoch for epoch, _ in seen] == [0, 1]
    assert seen[0][1] == {section.name: segment.rows(section.name) for section in segment.footer.sections}
    assert "view/v" in seen[0][1]
    assert seen[1][1] == {}


def test_edits_are_encoded_while_the_segment_is_written(tmp_path: Path) -> None:
    """The segment's write waits for the encoding here; the encoding begins behind the sections, which may share it."""
    encoding, made = threading.Event(), threading.Event()

    class WaitingDisk(LocalDisk):
        def write(self, path: Path, pieces: Iterable[bytes | pa.Buffer]) -> None:
            assert encoding.wait(WAIT_SECONDS)
            super().write(path, pieces)

    writer = opened(tmp_path, SqliteStore(tmp_path / "state.db"), WaitingDisk())
    capture = writer.space.capture

    def observed() -> Callable[[], list[Edit]]:
        encode = capture()

        def observed_encode() -> list[Edit]:
            assert made.is_set()
            encoding.set()
            return encode()

        return observed_encode

    def batches() -> dict[str, tuple[pa.RecordBatch, ...]]:
        assert not encoding.wait(0.05)
        made.set()
        return {"view/v": tuple(rows(7).values())}

    writer.space.create(PersistedList, "edited").append("one")
    writer.space.capture = observed  # type: ignore[assignment, method-assign]
    writer.add_sections(Sections(0, batches))
    writer.seal(CUT)
    writer.close()
    again = opened(tmp_path, SqliteStore(tmp_path / "state.db"))
    assert list(again.space.get(PersistedList, "edited")) == ["one"]
    again.close()


def test_edits_that_cannot_be_encoded_fail_the_commit(tmp_path: Path) -> None:
    writer = opened(tmp_path, SqliteStore(tmp_path / "state.db"))

    def fails() -> list[Edit]:
        raise ValueError("no bytes")

    writer.space.capture = lambda: fails  # type: ignore[assignment, method-assign, misc]
    with pytest.raises(ValueError, match="no bytes"):
        writer.seal(CUT)
    writer.close()
    again = opened(tmp_path, SqliteStore(tmp_path / "state.db"))
    assert again.epoch == -1
    again.close()


def test_a_failed_commit_is_reported_again_and_is_the_last(tmp_path: Path) -> None:
    store = SlowStore()
    store.error = OSError("no space")
    writer = opened(tmp_path, store)
    heard = threading.Event()
    writer.on_failed = heard.set
    writer.begin_seal({})
    store.go_on.set()
    assert heard.wait(WAIT_SECONDS)
    for call in (writer.settle, lambda: writer.begin_seal({})):
        with pytest.raises(OSError, match="no space"):
            call()
    assert writer.epoch == -1
    writer.close()


def test_an_ingest_without_input_fails_with_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The barrier that the committer asks for finds it: nothing else would come."""
    lab = IngestLab(tmp_path, [(ListSource(0, TRACE, ends=False), trace_adaptor)])
    lab.start()
    lab.settle()

    def fails(store: SqliteStore, edits: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(SqliteStore, "commit", fails)
    lab.ingest.request_barrier()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "failed: OSError: no space"
    lab.close()


def test_the_end_is_told_when_all_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = IngestLab(tmp_path, [(ListSource(0, TRACE), trace_adaptor)], epoch_messages=3)
    told: list[int] = []
    finished, go_on = lab.listener.on_finished, threading.Event()
    real = SqliteStore.commit

    def late(store: SqliteStore, edits: list[Edit]) -> None:
        assert go_on.wait(WAIT_SECONDS)
        real(store, edits)

    def on_finished() -> None:
        told.append(lab.writer.epoch)
        finished()

    monkeypatch.setattr(SqliteStore, "commit", late)
    monkeypatch.setattr(lab.listener, "on_finished", on_finished)
    lab.ingest.start()
    go_on.set()
    assert lab.listener.outcomes.get(timeout=WAIT_SECONDS) == "finished"
    lab.close()
    assert told == [len(footers(tmp_path))] == [3]
    assert lab.ingest.commit_durations.count == 4, "with the lab's own epoch 0"


def test_a_store_can_be_read_during_a_commit(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")
    store.commit([Edit("t", key, b"%d" % key) for key in range(200)])
    wrong: list[object] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            found = dict(store.scan("t"))
            if len(found) != 200 or store.get("t", 7) not in (b"7", b"seven"):
                wrong.append(found)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        store.commit([Edit("t", 7, (b"7", b"seven")[number % 2]), Edit("u", number, bytes(1000))])
    done.set()
    reader.join(WAIT_SECONDS)
    assert not wrong
    assert list(store.keys("t")) == list(range(200))
    store.close()
