"""State of installed adaptors: committed with their rows, and not used again once it is half changed."""

from __future__ import annotations

import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from deltabook.wire.readers import NewColumn, NewReader
from runtime.compiler import Column, Relation
from runtime.engine.ingest import IngestConfig
from runtime.relations import AdaptorError
from runtime.service.readers import AdaptorRequest, AdaptorState
from runtime.state import MemoryStore, ObjectSpace, PersistedSet, PersistedValue, Schema
from tests.generators.reader_lab import ReaderLab, file_reader
from tests.generators.stateful_adaptor import COLUMNS, StatefulAdaptor, answers

PAGE = Path(__file__).parents[5] / "docs" / "readers.md"
CHANCE = random.Random(5)
ROWS = [(n, CHANCE.randrange(5_000)) for n in range(400)]


class Entry:
    def __init__(self, name: str, make: Any) -> None:
        self.name, self._make = name, make

    def load(self) -> Any:
        return self._make


def install(monkeypatch: pytest.MonkeyPatch, name: str, make: Any) -> None:
    monkeypatch.setattr("runtime.service.readers.foreign.entry_points", lambda **_: [Entry(name, make)])


def write(folder: Path, rows: list[tuple[int, int]]) -> None:
    with (folder / "rows.csv").open("a", encoding="utf-8") as file:
        file.writelines(f"{n},{x}\n" for n, x in rows)


def reader(**options: str) -> NewReader:
    columns = tuple(NewColumn(name, "int64") for name in COLUMNS)
    return file_reader("kept", "rows.csv", adaptor="stateful", columns=columns, options=options)


def lab(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ReaderLab:
    install(monkeypatch, "stateful", StatefulAdaptor)
    return ReaderLab(folder / "run", monkeypatch, folder, ingest=IngestConfig(epoch_messages=7))


def test_all_persisted_types_go_on_where_the_last_epoch_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for begin, end in ((0, 100), (100, 101), (101, 400)):
        write(tmp_path, ROWS[begin:end])
        running = lab(tmp_path, monkeypatch)
        if not begin:
            running.add(reader())
            running.view("all_rows", f"SELECT {', '.join(COLUMNS)}, COUNT(*) AS c FROM kept GROUP BY ALL")
        expected = Counter({(*row, 1): 1 for row in answers(ROWS[:end])})
        running.until(lambda: running.rows("all_rows") == expected)  # noqa: B023 (called in the loop)
        running.seal()
        running.stop()
        assert running.failures == []


def test_state_of_a_call_that_failed_is_not_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ROWS[:50])
    stale = "expected state that calls have changed completely, was that of a call that failed (ArithmeticError"
    for reason in ("ArithmeticError: row 20", stale):
        running = lab(tmp_path, monkeypatch)
        if reason.startswith("A"):
            running.add(reader(fails_at="20"))
        running.until(lambda: running.state("kept").state == "failed")  # noqa: B023 (called in the loop)
        assert f"adaptor stateful: {reason}" in running.state("kept").reason
        running.seal()
        running.stop()
    running = lab(tmp_path, monkeypatch)
    running.drop("kept")
    running.add(reader())
    running.view("rows_read", "SELECT COUNT(*) AS n FROM kept")
    running.until(lambda: running.rows("rows_read") == Counter({(50,): 1}))
    running.stop()


def test_state_goes_with_its_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, ROWS[:9])
    running = lab(tmp_path, monkeypatch)
    running.add(reader())
    running.until(lambda: running.state("kept").state == "ended")
    space = running.runtime.parts.writer.space
    names = [name for name in space if name.startswith("reader/1/state/")]
    assert len(names) == 10
    assert len({space.kind(name) for name in names}) == 10, "one of each type"
    running.drop("kept")
    assert not [name for name in space if name.startswith("reader/1/")]
    running.stop()


def test_state_is_used_within_apply_alone() -> None:
    state = AdaptorState()
    with pytest.raises(AdaptorError, match="within apply, was used elsewhere"):
        state.get_or_create(PersistedValue[int], "n")
    state.bind(ObjectSpace(MemoryStore()), "reader/1")
    with pytest.raises(AdaptorError, match="within apply, was used elsewhere"):
        list(state)
    held = state.during(lambda: state.get_or_create(PersistedValue[int], "n", Schema(int), initial=4))
    assert held.value == 4
    assert state.during(lambda: (list(state), "n" in state, "m" in state)) == (["n"], True, False)
    state.during(lambda: state.delete("n"))
    assert state.during(lambda: list(state)) == []


def test_a_call_that_fails_without_its_state_is_made_again() -> None:
    state = AdaptorState()
    state.bind(ObjectSpace(MemoryStore()), "reader/1")

    def fails() -> None:
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        state.during(fails)
    assert state.during(lambda: 5) == 5


def test_an_adaptor_has_a_bounded_number_of_objects() -> None:
    state = AdaptorState()
    state.bind(ObjectSpace(MemoryStore()), "reader/1")

    def make() -> None:
        for number in range(1_001):
            state.get_or_create(PersistedSet[int], f"set {number}")

    with pytest.raises(AdaptorError, match="at most 1000 objects of an adaptor, was one more: set 1000"):
        state.during(make)


def test_the_adaptor_of_the_page_leaves_repeated_rows_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over a restart; a number is forgotten once enough others have come."""
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    page: dict[str, Any] = {}
    exec(compile(block, str(PAGE), "exec"), page)
    page["_REMEMBERED"] = 3
    install(monkeypatch, "once", page["Once"])
    read = ([1, 2, 2, 1, 3], [3, 1, 4, 5], [1, 5])
    counts: list[dict[int, int]] = [{1: 1, 2: 1, 3: 1}, {1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, {1: 2, 2: 1, 3: 1, 4: 1, 5: 1}]
    for part, expected in zip(read, counts, strict=True):
        write(tmp_path, [(n, 0) for n in part])
        running = ReaderLab(tmp_path / "run", monkeypatch, tmp_path)
        if expected is counts[0]:
            columns = (NewColumn("id", "int64"), NewColumn("x", "int64"))
            running.add(file_reader("kept", "rows.csv", adaptor="once", columns=columns))
            running.view("ids", "SELECT id, COUNT(*) AS c FROM kept GROUP BY id")
        running.until(lambda: running.rows("ids") == Counter(dict.fromkeys(expected.items(), 1)))  # noqa: B023
        running.seal()
        running.stop()


def test_a_request_has_state_of_its_own() -> None:
    relation = Relation("n", (Column("n", "int64"),))
    one, other = AdaptorRequest(relation, "", {}), AdaptorRequest(relation, "", {})
    assert one.state is not other.state
