"""Row 7 of docs/features/state.md, at random: each type beside its Python counterpart, with crashes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from runtime.state import MemoryStore, ObjectSpace
from tests.generators.persisted import LABS, Lab, outcome
from tests.generators.stores import BrokenDiskError, UnreliableStore
from tests.harness.examples import examples

NAME = "it"


class Machine(RuleBasedStateMachine):
    """One object and its counterpart; what the store holds is what the counterpart was at the last commit."""

    lab: Lab

    @initialize()
    def start(self) -> None:
        self.store = UnreliableStore(MemoryStore())
        self.space = ObjectSpace(self.store)
        self.saving: Any = None  # what the counterpart was when a save was begun that is under way
        self.make()
        self.committed: Any = None  # None: no object

    def make(self) -> None:
        self.held: Any = self.space.create(self.lab.kind, NAME, length=self.lab.length)
        self.model = self.lab.model()

    @rule(data=st.data(), times=st.integers(1, 4))
    def act(self, data: st.DataObject, times: int) -> None:
        for _ in range(times):
            name = data.draw(st.sampled_from(sorted(self.lab.operations)))
            operation = self.lab.operations[name]
            given = data.draw(operation.arguments)
            found = outcome(operation.persisted, self.held, *deepcopy(given))
            expected = outcome(operation.model, self.model, *deepcopy(given))
            assert found == expected, name

    @rule(failures=st.lists(st.sampled_from(["lost", "unknown"]), max_size=2), full=st.booleans(), data=st.data())
    @precondition(lambda self: self.saving is None)
    def commit(self, failures: list[Any], full: bool, data: st.DataObject) -> None:
        self.store.failures = list(failures)
        for failure in failures:
            before = deepcopy(self.model)
            with pytest.raises(BrokenDiskError):
                self.space.commit(full=full)
            if failure == "unknown":
                self.committed = before
            self.act(data, 1)
        self.space.commit(full=full)
        self.committed = deepcopy(self.model)
        self.space.commit()
        assert self.store.edits == [], "nothing changed, nothing is written"

    @rule(full=st.booleans())
    @precondition(lambda self: self.saving is None)
    def begin_commit(self, full: bool) -> None:
        self.edits = self.space.save(full=full)
        self.saving = deepcopy(self.model)

    @rule(fate=st.sampled_from(["saved", "lost", "unknown"]))
    @precondition(lambda self: self.saving is not None)
    def end_commit(self, fate: str) -> None:
        if fate != "lost":
            self.store.commit(self.edits)
            self.committed = self.saving
        if fate == "saved":
            self.space.on_saved()
        else:
            self.space.on_failed()
        self.saving = None

    @rule()
    def crash(self) -> None:
        self.space = ObjectSpace(self.store)
        self.saving = None
        if self.committed is None:
            assert list(self.space) == []
            self.make()
        else:
            self.held = self.space.get(self.lab.kind, NAME)
            self.model = deepcopy(self.committed)

    @rule()
    def delete_and_make_again(self) -> None:
        self.space.delete(NAME)
        self.make()

    @rule()
    @precondition(lambda self: self.saving is None)
    def move(self) -> None:
        self.store = UnreliableStore(MemoryStore())
        self.space.move_to(self.store)
        self.committed = deepcopy(self.model)

    @invariant()
    def agrees(self) -> None:
        if hasattr(self, "model"):
            assert self.lab.contents(self.held) == self.lab.contents(self.model)
            self.space._check()


@pytest.mark.parametrize("kind", LABS)
def test_row_07_random_operations_and_crashes_equal_python(kind: str) -> None:
    machine = type(f"Machine_{kind}", (Machine,), {"lab": LABS[kind]})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(100), stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
