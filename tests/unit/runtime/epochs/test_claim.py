"""Of two processes that take a directory for theirs the older one writes nothing more."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire.directories import Claim
from runtime.engine.ingest import EpochWriter
from runtime.epochs import CLAIM, DirectoryClaim, EpochLogReader, FencedError, ResultLog
from runtime.epochs.segment import Footer
from runtime.state import MemoryStore


def claim(directory: Path, process: int = 1) -> DirectoryClaim:
    return DirectoryClaim(directory, Claim("db-1", process))


def writer(directory: Path, held: DirectoryClaim, store: MemoryStore | None = None) -> EpochWriter:
    return EpochWriter(directory, lambda: 5, lambda _: None, store=store or MemoryStore(), claim=held)


def test_a_term_counts_up_with_every_start(tmp_path: Path) -> None:
    assert [claim(tmp_path).begin(0) for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(b"{")])
def test_a_term_counts_on_from_the_state_where_the_file_is_lost(tmp_path: Path, spoil: object) -> None:
    claim(tmp_path).begin(6)
    assert callable(spoil)
    spoil(tmp_path / CLAIM)
    assert claim(tmp_path).begin(7) == 8


def test_a_claim_holds_until_another_one_begins(tmp_path: Path) -> None:
    first, second = claim(tmp_path, 1), claim(tmp_path, 2)
    first.begin(0)
    first.check()
    second.begin(0)
    second.check()
    with pytest.raises(FencedError, match=r"^fenced: expected .* for term 1, was taken by process 2 on db-1, term 2"):
        first.check()
    (tmp_path / CLAIM).unlink()
    with pytest.raises(FencedError, match="a process that has removed the claim"):
        second.check()


def test_who_has_lost_the_directory_commits_nothing(tmp_path: Path) -> None:
    """Neither an epoch nor a result, whatever it holds."""
    store = MemoryStore()
    held = claim(tmp_path)
    old = writer(tmp_path, held, store)
    old.seal({}, b"program")
    results = ResultLog(tmp_path / "results", fence=held.check)
    claim(tmp_path, 2).begin(1)
    before = sorted(path.name for path in (tmp_path / "epochs").iterdir()), store.get("epochs", 0)
    with pytest.raises(FencedError):
        old.seal({})
    with pytest.raises(FencedError):
        results.publish(0, 1, {}, Footer(0, 1))
    assert (sorted(path.name for path in (tmp_path / "epochs").iterdir()), store.get("epochs", 0)) == before
    assert list((tmp_path / "results").iterdir()) == []


def test_a_term_in_the_state_fences_where_the_file_says_nothing(tmp_path: Path) -> None:
    store = MemoryStore()
    old = writer(tmp_path, claim(tmp_path), store)
    old.seal({}, b"program")
    file = (tmp_path / CLAIM).read_bytes()
    writer(tmp_path, claim(tmp_path, 2), store)
    (tmp_path / CLAIM).write_bytes(file)
    with pytest.raises(FencedError, match="expected term 1 in the state, was 2"):
        old.seal({})


def test_every_epoch_says_in_which_term_it_was_written(tmp_path: Path) -> None:
    store = MemoryStore()
    for _ in range(3):
        writer(tmp_path, claim(tmp_path), store).seal({}, b"program")
    log = EpochLogReader(tmp_path / "epochs")
    assert [log.read(epoch).footer.attributes["term"] for epoch in range(3)] == ["1", "2", "3"]
