"""The time of epochs: how far event time had come at the cut of each, sealed with it as a change of `EPOCH_TIME`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from runtime.engine.ingest.eventtimes import OVER, largest_integer, largest_time, message_time
from runtime.plan import EPOCH_TIME
from runtime.state import ARROW_TYPES, ObjectSpace, PersistedValue, Schema

__all__ = ["EpochTime"]

_NAME: Final = "epoch/time"
_SCHEMA: Final = pa.schema(
    [*((column.name, ARROW_TYPES[column.type]) for column in EPOCH_TIME.columns), ("weight", pa.int64())]
)


class EpochTime:
    """The largest event time that was applied; owned by the step that applies.

    It is that of the messages of a market's feed, whatever they are about, that of the epochs of an upstream, and that
    of the time columns that the ingest was given. It never goes back, and does not pass without input. What it was at
    the last cut is in the object space, so that a restart goes on from there.
    """

    def __init__(self, space: ObjectSpace, times: Mapping[str, str]) -> None:
        """``times``: relation whose rows count as well as messages → its time column."""
        self._kept = space.get_or_create(PersistedValue[int | None], _NAME, Schema(int | None), initial=None)
        self._times = times
        self._reached: int | None = self._kept.value

    def applied(self, rows: pa.RecordBatch, deltas: Mapping[str, pa.RecordBatch]) -> None:
        """Take note of messages and of what they changed."""
        name = message_time(rows)
        if name is not None:
            self.reach(largest_integer(rows.column(name)) if rows.num_rows else None)
            return
        for relation, column in self._times.items():
            if (changed := deltas.get(relation)) is not None:
                self.reach(largest_time(changed.column(column)))

    def reach(self, time: int | None) -> None:
        """Take note of an event time in nanoseconds."""
        if time is not None and (self._reached is None or time > self._reached):
            self._reached = min(time, OVER)

    def at_cut(self) -> Mapping[str, pa.RecordBatch]:
        """The change of `EPOCH_TIME` with which the epoch closes here."""
        before, now = self._kept.value, self._reached
        if now is None or now == before:
            return {}
        self._kept.value = now
        times, weights = ([now], [1]) if before is None else ([before, now], [-1, 1])
        moments = [time // 1000 for time in times]
        return {EPOCH_TIME.name: pa.record_batch([times, moments, weights], schema=_SCHEMA)}
