"""Row 7 of docs/features/state.md, case by case: recovery after each kind of edit and of checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.state import KINDS, ObjectSpace, PersistedList
from tests.features.state.spaces import Bench
from tests.features.state.test_commit_rows import CHANGES, made
from tests.generators.persisted import LABS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("past", ["new", "committed", "deleted", "deleted and made again", "another kind before"])
def test_row_07_an_object_recovers(kind: str, full: bool, past: str) -> None:
    bench = Bench()
    lab = LABS[kind]
    if past == "another kind before":
        other = PersistedList if kind != "list" else KINDS["dictionary"]
        before: Any = bench.space.create(other, "it")
        before.extend([1, 2, 3]) if other is PersistedList else before.update({1: 1, 2: 2})
    elif past != "new":
        before = bench.space.create(lab.kind, "it", length=lab.length)
        for number in range(6):
            CHANGES[kind](before, number)
    bench.commit(full=full)
    if past in {"deleted", "deleted and made again", "another kind before"}:
        bench.space.delete("it")
    if past == "deleted":
        bench.commit(full=full)
        assert list(bench.restart()) == []
        assert [edit for table in ("metadata/it", "items/it") for edit in bench.store.scan(table)] == []
        return
    held = (
        bench.space.get(lab.kind, "it")
        if past == "committed"
        else bench.space.create(lab.kind, "it", length=lab.length)
    )
    for number in (7, 3, 7, 8):
        CHANGES[kind](held, number)
        bench.commit(full=full)
        bench.space._check()
        assert lab.contents(ObjectSpace(bench.store).get(lab.kind, "it")) == lab.contents(held)
    again = bench.restart().get(lab.kind, "it")
    CHANGES[kind](again, 9)
    CHANGES[kind](held, 9)
    assert lab.contents(again) == lab.contents(held), "it goes on as if nothing had been"


@pytest.mark.parametrize("kind", KINDS)
def test_row_07_what_was_not_committed_is_forgotten(kind: str) -> None:
    bench, held = made(kind)
    bench.commit()
    expected = LABS[kind].contents(held)
    CHANGES[kind](held, 5)
    assert LABS[kind].contents(held) != expected
    assert LABS[kind].contents(bench.restart().get(KINDS[kind], "it")) == expected
