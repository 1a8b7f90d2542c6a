"""What the embedded store does when a disk, a file or another process is in the way."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.state import (
    CorruptStateError,
    Edit,
    MemoryStore,
    ObjectSpace,
    PersistedList,
    SqliteStore,
    StateError,
    Store,
    StoreError,
)

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


def test_a_commit_is_all_or_nothing(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.commit([Edit("a", 1, b"old")])
    with pytest.raises(OverflowError):
        store.commit([Edit("a", 1, b"new"), Edit("new", 1, b"new"), Edit("a", 2**70, b"too wide a key")])
    assert store.get("a", 1) == b"old"
    store.commit([Edit("new", 1, b"next")])
    store.close()
    again = SqliteStore(tmp_path / "s.db")
    assert again.get("new", 1) == b"next"
    assert again.get("a", 1) == b"old"
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


def test_a_database_of_the_first_format_is_read_and_upgraded(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(SqliteStore(path)) as store:
        store.commit([Edit("letters", 1, b"a")])
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 1")
    with closing(SqliteStore(path)) as store:
        assert store.get("letters", 1) == b"a"
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3,)


@pytest.mark.parametrize(
    ("statement", "was"),
    [("CREATE TABLE letters (text TEXT)", "application 0x0, format 0"), ("PRAGMA user_version = 7", "format 7")],
)
def test_a_foreign_database_is_named_and_left_alone(tmp_path: Path, statement: str, was: str) -> None:
    path = tmp_path / "s.db"
    if "PRAGMA" in statement:
        SqliteStore(path).close()
    other = sqlite3.connect(path)
    other.execute(statement)
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StateError, match=rf"expected a state database of format 3 at .*s\.db.*{was}"):
        SqliteStore(path)
    assert path.read_bytes()[100:] == before[100:], "beside the header, which says how it was opened last"


def written(path: Path, rows: int = 500) -> None:
    """A database of many pages."""
    store = SqliteStore(path)
    store.commit([Edit("items/orders", key, bytes(range(200))) for key in range(rows)])
    store.close()


def test_a_torn_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    written(path)
    path.write_bytes(path.read_bytes()[:9_000])
    with pytest.raises(CorruptStateError, match=r"s\.db"):
        list(SqliteStore(path).scan("items/orders"))


@pytest.mark.parametrize("how", ["scan", "get"])
def test_a_flipped_bit_is_noticed_and_its_place_said(tmp_path: Path, how: str) -> None:
    path = tmp_path / "s.db"
    written(path)
    data = bytearray(path.read_bytes())
    data[data.index(bytes(range(50, 200))) + 20] ^= 4
    path.write_bytes(data)
    store = SqliteStore(path)

    def read() -> None:
        if how == "scan":
            list(store.scan("items/orders"))
        for key in range(500):
            store.get("items/orders", key)

    with pytest.raises(CorruptStateError, match=r"items/orders, key \d+: expected the value that was stored"):
        read()
    store.close()


def test_a_value_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    written(path)
    database = sqlite3.connect(path)
    database.execute("UPDATE slots SET data = (SELECT data FROM slots WHERE key = 4) WHERE key = 5")
    database.commit()
    database.close()
    store = SqliteStore(path)
    assert store.get("items/orders", 4) == bytes(range(200))
    with pytest.raises(CorruptStateError, match="items/orders, key 5"):
        store.get("items/orders", 5)
    store.close()


def test_a_full_disk_fails_the_commit_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    space = ObjectSpace(store)
    texts = space.create(PersistedList[str], "texts")
    space.commit()
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages + 4}")
    texts.extend("x" * 1000 for _ in range(100))
    for _ in range(2):
        with pytest.raises(StoreError, match=r"s\.db: .*database or disk is full"):
            space.commit()
        texts.append("y")
    assert list(ObjectSpace(store).get(PersistedList[str], "texts")) == []
    store._db.execute(f"PRAGMA max_page_count = {pages + 4000}")
    space.commit()
    store.close()
    again = SqliteStore(path)
    assert list(ObjectSpace(again).get(PersistedList[str], "texts")) == list(texts)
    again.close()


def test_numbers_of_dropped_tables_are_reused_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    store = SqliteStore(path)
    for number in range(20):
        store.commit([Edit(f"items/{number}", 0, b"x")])
        store.commit([Edit(f"items/{number}", 0, None)])
    store.close()
    again = SqliteStore(path)
    assert again._tables == {}
    again.close()
