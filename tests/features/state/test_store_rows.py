"""Row 10 of docs/features/state.md: one conformance test runs over all stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.state import MemoryStore, SqliteStore, Store
from tests.generators.storechecks import CHECKS

ROOT = Path(__file__).parents[3]
STEPS = max(len(steps) for steps in CHECKS.values())


@pytest.mark.parametrize("check", CHECKS)
def test_row_10_memory_conforms(check: str) -> None:
    store = MemoryStore()
    for step in CHECKS[check]:
        step(store)


@pytest.mark.parametrize("check", CHECKS)
def test_row_10_sqlite_conforms(check: str, tmp_path: Path) -> None:
    for step in CHECKS[check]:
        store: Store = SqliteStore(tmp_path / "state.db")
        try:
            step(store)
        finally:
            store.close()
            store.close()
