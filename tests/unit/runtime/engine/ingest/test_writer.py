"""Stopped or killed anywhere, the writer goes on as if nothing had happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.engine.ingest import EpochWriter
from runtime.engine.ingest.deadletters import EpochDeadLetters, LettersMark
from runtime.epochs import Cut, EpochLog, EpochLogError, TornSegmentError
from runtime.formats import DeadLetter
from runtime.state import CorruptStateError, Edit, ObjectSpace, SqliteStore, StateError
from tests.generators.ingest_lab import (
    WAIT_SECONDS,
    IngestLab,
    ListSource,
    dead_letters,
    feed_adaptor,
    footers,
    relations,
    trace_adaptor,
)

TRACE = "".join(
    f"{n},{n % 11},{'BSBSED'[n * 7 % 6]},{n % 5 + 1},{90 + n % 4}\n" + (f"bad {n}\n" if n % 9 == 0 else "")
    for n in range(60)
).encode()
FEED_LINES = [
    f"{n},x,{n}\n"
    if n % 8 == 0
    else f"{n},{n // 3},{n},1,{'T' if n % 5 == 0 else 'BS'[n % 2]},{n % 9 + 1},{90 + n % 7},ACME\n"
    for n in range(1, 61)
]
FEED = "".join(FEED_LINES).encode()


def feed_place(position: object) -> int:
    sequence: int = position.sequence  # type: ignore[attr-defined]
    return sum(len(line) for line in FEED_LINES[: sequence - 1])


def source(kind: str, cuts: list[int], *, upto: int | None = None) -> ListSource:
    """A trace's or a feed's source, of which only the first bytes come."""
    data = TRACE if kind == "trace" else FEED
    at = None if kind == "trace" else feed_place
    return ListSource(0, data[:upto], [c for c in cuts if c < len(data)], ends=upto is None, at=at)


@pytest.fixture(scope="module", params=["trace", "feed"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What an uninterrupted run gives."""
    directory = tmp_path_factory.mktemp("whole")
    kind: str = request.param
    make = trace_adaptor if kind == "trace" else feed_adaptor
    assert IngestLab(directory, [(source(kind, []), make)], epoch_messages=6).run() == "finished"
    return kind, directory


@settings(max_examples=12)
@given(
    stops=st.lists(st.tuples(st.integers(0, 1600), st.booleans()), max_size=4),
    cuts=st.lists(st.integers(0, 1600), max_size=20),
)
def test_a_run_that_is_stopped_anywhere_goes_on(
    tmp_path_factory: pytest.TempPathFactory, whole: tuple[str, Path], stops: list[tuple[int, bool]], cuts: list[int]
) -> None:
    """Closed without sealing, at any byte: relations and dead letters are those of an uninterrupted run."""
    kind, expected = whole
    make = trace_adaptor if kind == "trace" else feed_adaptor
    directory = tmp_path_factory.mktemp("run")
    for upto, barrier in sorted(stops):
        lab = IngestLab(directory, [(source(kind, cuts, upto=upto), make)], epoch_messages=6)
        lab.start()
        lab.settle()
        if barrier and lab.ingest.holds_any:
            sealed = threading.Event()
            lab.writer._on_epoch = lambda _footer, sealed=sealed: sealed.set()  # type: ignore[misc]
            lab.ingest.request_barrier()
            assert sealed.wait(WAIT_SECONDS)
        lab.close()
    lab = IngestLab(directory, [(source(kind, cuts), make)], epoch_messages=6)
    assert lab.run() == "finished"
    assert relations(directory) == relations(expected)
    assert sum(f.messages for f in footers(directory)) == sum(f.messages for f in footers(expected))
    assert [text for _, text in dead_letters(directory)] == [text for _, text in dead_letters(expected)]
    assert footers(directory)[-1].cuts == footers(expected)[-1].cuts
    writer = EpochWriter(directory, lambda: 0, lambda _: None)
    assert writer.dead_letters == len(dead_letters(expected))
    assert writer.recovered is not None
    assert writer.recovered.messages == sum(f.messages for f in footers(expected))
    writer.close()


class KilledError(RuntimeError):
    """Stands for the end of the process."""


def _before(owner: type, name: str) -> Callable[[pytest.MonkeyPatch, int], None]:
    """Kill at the n-th call."""

    def patch(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
        real, calls = getattr(owner, name), [0]

        def call(*args: object, **kwargs: object) -> object:
            calls[0] += 1
            if calls[0] == nth:
                raise KilledError(name)
            return real(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    return patch


def _after(owner: type, name: str) -> Callable[[pytest.MonkeyPatch, int], None]:
    """Kill when the n-th call has done its work."""

    def patch(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
        real, calls = getattr(owner, name), [0]

        def call(*args: object, **kwargs: object) -> object:
            found = real(*args, **kwargs)
            calls[0] += 1
            if calls[0] == nth:
                raise KilledError(name)
            return found

        monkeypatch.setattr(owner, name, call)

    return patch


POINTS = {
    f"{when.__name__[1:]} {owner.__name__}.{name}": when(owner, name)
    for owner, name in (
        (EpochDeadLetters, "write"),
        (EpochLog, "prepare"),
        (ObjectSpace, "capture"),
        (SqliteStore, "commit"),
        (EpochLog, "publish"),
    )
    for when in (_before, _after)
}


@pytest.mark.parametrize("nth", [1, 2, 5])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_of_a_seal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[str, Path], point: str, nth: int
) -> None:
    """All of the epoch or nothing of it, dead letters included."""
    kind, expected = whole
    make = trace_adaptor if kind == "trace" else feed_adaptor
    cuts = list(range(50, 1600, 50))
    with monkeypatch.context() as broken:
        lab = IngestLab(tmp_path, [(source(kind, cuts), make)], epoch_messages=6)
        POINTS[point](broken, nth)
        assert lab.run() == f"failed: KilledError: {point.split('.')[1]}"
    lab = IngestLab(tmp_path, [(source(kind, cuts), make)], epoch_messages=6)
    committed = (
        nth if point in ("after SqliteStore.commit", "before EpochLog.publish", "after EpochLog.publish") else nth - 1
    )
    assert lab.writer.epoch == committed
    assert all(epoch <= committed for epoch, _ in dead_letters(tmp_path))
    assert lab.run() == "finished"
    assert relations(tmp_path) == relations(expected)
    assert dead_letters(tmp_path) == dead_letters(expected)
    assert [f.messages for f in footers(tmp_path)] == [f.messages for f in footers(expected)]


def opened(directory: Path) -> EpochWriter:
    return EpochWriter(directory, lambda: 42, lambda _: None)


def test_an_epoch_holds_what_was_added(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    assert (writer.epoch, writer.recovered) == (-1, None)
    batch = pa.record_batch({"n": pa.array([1, 2]), "weight": pa.array([1, 1])})
    writer.seal({}, control=b"program")
    assert not writer.is_open
    writer.add({"n": batch, "none": batch.slice(0, 0)}, 2)
    assert (writer.is_open, writer.messages) == (True, 2)
    footer = writer.seal({"feed": Cut("S", 2, 9)})
    assert (footer.from_epoch, footer.to_epoch, footer.messages, footer.time_ns) == (0, 1, 2, 42)
    segment = writer.log.read(1)
    assert [s.name for s in segment.footer.sections] == ["n"]
    assert (writer.is_open, writer.messages, writer.epoch) == (False, 0, 1)
    writer.close()


def test_a_directory_has_one_writer_and_is_freed_by_a_failure(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    writer.seal({})
    with pytest.raises(StateError, match="does another process run on it"):
        opened(tmp_path)
    writer.close()
    path = tmp_path / "epochs" / f"{0:012d}.segment"
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    for _ in range(2):
        with pytest.raises(TornSegmentError):
            opened(tmp_path)
    path.unlink()
    with pytest.raises(EpochLogError, match="expected epoch 0, the last one committed"):
        opened(tmp_path)
    path.write_bytes(data)
    opened(tmp_path).close()


def test_a_corrupt_record_is_told(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "state.db")
    store.commit([Edit("epochs", 0, b"\xc1")])
    store.close()
    with pytest.raises(CorruptStateError, match="expected the last epoch's record"):
        opened(tmp_path)


def letter(text: str) -> DeadLetter:
    return DeadLetter(0, 1, 0, 0, "f", "int64", "bad", text.encode())


def test_dead_letters_are_bounded_in_the_file_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    dead = EpochDeadLetters(path, limit_bytes=1000)
    for epoch in range(20):
        dead.write(epoch, [letter(f"{epoch}-{n}") for n in range(2)], 3)
        assert path.stat().st_size <= 1000
    assert dead.count == 60
    kept = path.read_bytes()
    assert EpochDeadLetters(path, dead.mark, 60, limit_bytes=1000).count == 60
    assert path.read_bytes() == kept


def test_dead_letters_past_the_last_commit_are_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "dead.jsonl"
    dead = EpochDeadLetters(path)
    marks = []
    for epoch in range(3):
        dead.write(epoch, [letter(str(epoch))], 1)
        marks.append(dead.mark)
    lines = path.read_bytes().splitlines(keepends=True)
    for length in range(len(lines[2]) + 1):
        path.write_bytes(lines[0] + lines[1] + lines[2][:length])
        EpochDeadLetters(path, marks[1])
        assert path.read_bytes() == lines[0] + lines[1]
    assert EpochDeadLetters(path, None).mark == marks[1], "of a run that was begun with an earlier release"
    EpochDeadLetters(path, marks[0])
    assert [msgspec.json.decode(line)["epoch"] for line in path.read_bytes().splitlines()] == [0]


def test_dead_letters_that_are_damaged_are_set_aside(tmp_path: Path) -> None:
    """No answer depends on them, so that they refuse no start; the count stays."""
    path = tmp_path / "dead.jsonl"
    dead = EpochDeadLetters(path)
    dead.write(0, [letter("one")], 1)
    data = path.read_bytes()
    damaged = [data[:5], b"", data[:9] + bytes([data[9] ^ 1]) + data[10:]]
    for number, each in enumerate(damaged, 1):
        path.write_bytes(each)
        with patch.object(EpochDeadLetters, "_log") as log:
            again = EpochDeadLetters(path, dead.mark, 1)
        kept = path.with_name(f"dead.jsonl.damaged-{number}")
        assert (kept.read_bytes(), path.exists(), again.count) == (each, False, 1)
        assert f"kept as {kept}" in log.error.call_args.kwargs["kept"]
    again.write(1, [letter("two")], 1)
    assert EpochDeadLetters(path, again.mark, 2).mark == again.mark
    path.unlink()
    assert EpochDeadLetters(path, again.mark, 2).mark == LettersMark()


def test_the_letters_of_an_open_epoch_are_bounded(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    for _ in range(30):
        writer.set_aside(tuple(letter("x") for _ in range(1000)), 1000)
    assert len(writer._letters) == 10_000
    writer.seal({})
    assert writer.dead_letters == 30_000
    writer.close()


def test_epochs_do_not_go_back_with_a_clock_that_is_set_back(tmp_path: Path) -> None:
    times: list[int] = []
    for clock_ns in ([1_000, 400, 900], [300, 1_000, 1_001]):
        shown = iter(clock_ns)
        writer = EpochWriter(tmp_path, lambda: next(shown), lambda footer: times.append(footer.time_ns))  # noqa: B023
        for _ in clock_ns:
            writer.seal({})
        writer.close()
    assert times == [1_000, 1_000, 1_000, 1_000, 1_000, 1_001]
