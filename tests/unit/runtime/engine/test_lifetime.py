"""Callbacks that come with the last reference, and those that are disarmed."""

from __future__ import annotations

import pytest

from runtime.engine.errors import EngineError
from runtime.engine.lifetime import callback


def test_the_last_reference_makes_the_call() -> None:
    calls: list[int] = []
    owner, first = callback(lambda: calls.append(1))
    with first, first.copy() as second:
        assert owner.references == 2
        second.release()
        second.release()
        assert (calls, owner.references, owner._callback.call is not None) == ([], 1, True)
    assert (calls, owner.references, owner._callback.call is not None) == ([1], 0, False)


def test_an_owner_that_has_gone_disarms_it() -> None:
    calls: list[int] = []
    owner, first = callback(lambda: calls.append(1))
    with owner:
        assert owner._callback.call is not None
    first.release()
    owner.release()
    assert calls == []


def test_a_reference_that_was_released_is_not_copied() -> None:
    _, first = callback(lambda: None)
    first.release()
    with pytest.raises(EngineError, match="expected a reference that was not released"):
        first.copy()
