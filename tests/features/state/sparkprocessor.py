"""A processor that does the steps of the stores' checks on a store in its own state: one step a batch."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from runtime.spark.store import SparkStore
from tests.generators.storechecks import CHECKS

__all__ = ["OUTPUT_SCHEMA", "CheckProcessor"]

OUTPUT_SCHEMA: Final = "check string, step int, failure string"


class CheckProcessor(StatefulProcessor):
    """A group is a check by its claim; says why a step failed, or nothing."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = SparkStore.declare(handle)
        self._steps = handle.getValueState("steps", "done int")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """One step."""
        assert len(list(rows)) == 1
        check = str(key[0])
        held = self._steps.get() if self._steps.exists() else None
        done = 0 if held is None else int(held[0])
        store = SparkStore(self._state)
        failure = ""
        try:
            CHECKS[check][done](store)
        except Exception:  # noqa: BLE001 (a failure is a row, so that one check does not end the query of all)
            failure = traceback.format_exc()
        store.close()
        self._steps.update((done + 1,))
        yield Row(check=check, step=done, failure=failure)

    def close(self) -> None:
        """Nothing to release."""
