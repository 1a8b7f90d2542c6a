"""Both stores keep the same promises."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state import Edit, MemoryStore, SqliteStore, StateError, Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    held: Store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "s.db")
    yield held
    held.close()
    held.close()


EDITS = st.lists(
    st.builds(Edit, st.sampled_from(["a", "b"]), st.integers(0, 4), st.none() | st.binary(max_size=3)), max_size=12
)


@given(commits=st.lists(EDITS, max_size=6))
def test_a_store_is_a_dict(commits: list[list[Edit]]) -> None:
    """Of two edits of one place in one commit the later one holds, in both."""
    stores: list[Store] = [MemoryStore(), SqliteStore(Path(":memory:"))]
    model: dict[tuple[str, int], bytes] = {}
    for edits in commits:
        for edit in edits:
            model.pop((edit.table, edit.key), None)
            if edit.data is not None:
                model[edit.table, edit.key] = edit.data
        for store in stores:
            store.commit(edits)
            for table in ("a", "b"):
                assert list(store.scan(table)) == sorted((k, v) for (t, k), v in model.items() if t == table)
                assert [store.get(table, k) for k in range(5)] == [model.get((table, k)) for k in range(5)]
    for store in stores:
        store.close()


def test_what_was_never_written_is_not_there(store: Store) -> None:
    assert store.get("nothing", 0) is None
    assert list(store.scan("nothing")) == []


def test_a_commit_is_all_or_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.commit([Edit("a", 1, b"old")])
    with pytest.raises(OverflowError):
        store.commit([Edit("a", 1, b"new"), Edit("a", 2**70, b"too wide a key")])
    assert store.get("a", 1) == b"old"
    store.commit([Edit("a", 1, b"next")])
    store.close()
    again = SqliteStore(tmp_path / "s.db")
    assert again.get("a", 1) == b"next"
    again.close()


def test_a_second_process_is_refused_until_the_first_has_closed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = SqliteStore(path)
    code = (
        "import sys, pathlib\nfrom runtime.state import SqliteStore, StateError\n"
        "try:\n    SqliteStore(pathlib.Path(sys.argv[1]))\nexcept StateError as error:\n    print(error)\n"
    )
    run = [sys.executable, "-c", code, str(path)]
    root = Path(__file__).parents[4]
    said = subprocess.run(run, capture_output=True, text=True, check=True, cwd=root).stdout
    assert "alone, was: database is locked" in said
    with pytest.raises(StateError, match="does another process run on it"):
        SqliteStore(path)
    first.close()
    assert subprocess.run(run, capture_output=True, text=True, check=True, cwd=root).stdout == ""


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is a letter, not a database" * 100)
    with pytest.raises(StateError, match=r"expected a state database at .*s\.db"):
        SqliteStore(path)
