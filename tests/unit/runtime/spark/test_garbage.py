"""Workers that Spark uses again look at their modules and graphs once a program, other processes are left alone."""

from __future__ import annotations

import gc

import pytest

from runtime.spark.garbage import Garbage


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    for name in ("unfreeze", "collect", "freeze"):
        monkeypatch.setattr(gc, name, lambda name=name: found.append(name))
    return found


def test_what_a_program_needs_is_looked_at_once(calls: list[str]) -> None:
    garbage = Garbage({"SPARK_REUSE_WORKER": "1"})
    for program in (0, 0, 7, 7, 7):
        garbage.keep(program)
    assert calls == ["unfreeze", "collect", "freeze"] * 2


def test_a_process_that_is_no_worker_is_left_alone(calls: list[str]) -> None:
    Garbage({}).keep(0)
    assert not calls
