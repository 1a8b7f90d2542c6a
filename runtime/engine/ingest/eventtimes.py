"""Event time: the progress of each relation that derived streams read, and the time that is sealed with each epoch.

The relation `epoch_time` has one row, the time of the epoch, and `now()` in a view is a subquery over this relation. If
a view is spread over shards, every shard has the whole relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.relations import MARKET_TIMES, TRADES
from runtime.engine.ingest.origin import Origin
from runtime.engine.ingest.upstream import Upstream
from runtime.plan import EPOCH_TIME
from runtime.state import ARROW_TYPES, ObjectSpace, PersistedValue, Schema
from runtime.upstreams import UpstreamEpoch

__all__ = ["EpochTime", "EventTimes", "fills_trades", "largest_integer", "largest_time", "message_time"]

_LATEST: Final = (1 << 63) - 1
_MESSAGE_TIMES: Final = ("time_ns", "timestamp")
"""Names, by format, of the column with the times of a feed's messages."""
_UNITS_NS: Final = {pa.timestamp("us"): 1_000, pa.date32(): 86_400_000_000_000}
_NAME: Final = "epoch/time"
_SCHEMA: Final = pa.schema(
    [*((column.name, ARROW_TYPES[column.type]) for column in EPOCH_TIME.columns), ("weight", pa.int64())]
)


class EventTimes:
    """Latest time of each origin, by relation; owned by the applying step.

    The latest time of a market's feed is the largest time of its messages of any kind, so that a quiet relation does
    not hold back the others. The latest time of any other relation is the largest time of its rows.
    """

    def __init__(self) -> None:
        self._latest: dict[tuple[str, str], int] = {}

    def forget(self, origin: str) -> None:
        """Forget an origin that is no longer read."""
        self._latest = {key: time for key, time in self._latest.items() if key[0] != origin}

    def applied(
        self, origin: str, reached: int | None, deltas: Mapping[str, pa.RecordBatch], times: Mapping[str, str]
    ) -> None:
        """Record the times of an origin's messages and of the rows that they changed.

        ``times`` has the time column of each relation, and ``reached`` is the largest time of messages of a market's
        feed, see `EpochTime.applied`.
        """
        if reached is None or MARKET_TIMES.keys().isdisjoint(times):
            self.changed(origin, deltas, times)
            return
        for name in MARKET_TIMES:
            self._reach(origin, name, reached)

    def changed(self, origin: str, deltas: Mapping[str, pa.RecordBatch], times: Mapping[str, str]) -> None:
        """Record the times of rows that an origin has changed without messages."""
        for name, column in times.items():
            if (rows := deltas.get(name)) is not None:
                self._reach(origin, name, largest_time(rows.column(column)))

    def followed(self, upstream: str, epoch: UpstreamEpoch, times: Mapping[str, str]) -> None:
        """Record the watermarks that an upstream's epoch has sealed, or the times of its rows if it has sealed none."""
        if epoch.watermarks is None:
            self.changed(upstream, epoch.relations, times)
            return
        for name in epoch.watermarks.keys() & times.keys():
            self._reach(upstream, name, epoch.watermarks[name])

    def _reach(self, origin: str, relation: str, time: int | None) -> None:
        if time is not None:
            key = origin, relation
            self._latest[key] = max(time, self._latest.get(key, time))

    def watermarks(
        self, origins: Iterable[Origin], upstreams: Iterable[Upstream], times: Mapping[str, str]
    ) -> tuple[dict[str, int], frozenset[str]]:
        """Return the watermark of each relation, and the relations that have ended.

        The watermark of a relation is the smallest of the times that its origins and upstreams have reached; a relation
        is left out if one of these has reached no time. An origin that has ended without a failure does not count. If
        all have ended without a failure, the relation has ended, too. Its watermark is then still the smallest time
        that they have reached, because a restart may find more rows.
        """
        reached: dict[str, list[int | None]] = {name: [] for name in times}
        reached_at_end: dict[str, list[int | None]] = {name: [] for name in times}
        for origin in origins:
            filled = {relation.name for relation in origin.adaptor.relations}
            if "trades" in filled:
                filled.add("touches")
            group = reached_at_end if origin.ended and not origin.failure else reached
            for name in filled & times.keys():
                group[name].append(self._latest.get((origin.name, name)))
        for upstream in upstreams:
            for name in MARKET_TIMES.keys() & times.keys():
                reached[name].append(self._latest.get((upstream.name, name)))
        ended = frozenset(name for name in times if reached_at_end[name] and not reached[name])
        known = {name: _all_known(reached[name] or reached_at_end[name]) for name in times}
        return {name: min(marks) for name, marks in known.items() if marks}, ended

    def sealed(self, origins: Iterable[Origin], upstreams: Iterable[Upstream]) -> dict[str, int]:
        """Return the watermarks that the epoch seals for readers of the log: that of TRADES, if it is known.

        An origin that has ended without a failure does not delay the watermark. The end itself is not sealed, because
        the next start may read more rows: if all origins have ended, the watermark is the largest of their times.
        """
        ended: list[int | None] = []
        others = [self._latest.get((upstream.name, TRADES.name)) for upstream in upstreams]
        for origin in origins:
            if fills_trades(origin):
                is_over = origin.ended and not origin.failure
                (ended if is_over else others).append(self._latest.get((origin.name, TRADES.name)))
        if others:
            return {TRADES.name: min(marks)} if (marks := _all_known(others)) else {}
        return {TRADES.name: max(marks)} if (marks := [mark for mark in ended if mark is not None]) else {}


def fills_trades(origin: Origin) -> bool:
    """Return True if the origin is a market's feed, whose rows go into BIDS, ASKS and TRADES."""
    return any(relation.name == TRADES.name for relation in origin.adaptor.relations)


def largest_integer(column: pa.Array) -> int | None:
    """Return the largest integer of a column; None if all are NULL."""
    if column.null_count or column.type != pa.int64():
        largest: int | None = pc.max(column).as_py()
        return largest
    return int(column.to_numpy().max())


def message_time(rows: pa.RecordBatch) -> str | None:
    """Return the name of the time column of a market feed's messages; None for other messages."""
    names = rows.schema.names
    return next((name for name in _MESSAGE_TIMES if name in names), None) if "sequence" in names else None


def _all_known(marks: list[int | None]) -> list[int]:
    known = [mark for mark in marks if mark is not None]
    return known if len(known) == len(marks) else []


def largest_time(column: pa.Array) -> int | None:
    """Return the largest time of a column in nanoseconds; None if all are NULL."""
    unit = _UNITS_NS.get(column.type, 1)
    if unit > 1:
        column = column.cast(pa.int32() if column.type == pa.date32() else pa.int64()).cast(pa.int64())
    largest = pc.max(column).as_py()
    return None if largest is None else int(largest) * unit


class EpochTime:
    """Largest event time that was applied; owned by the applying step.

    It is the largest time of any message of a market's feed, any epoch of an upstream, and any row of the other
    relations that advance it. It never decreases, and does not advance without input. Its value at the last cut is in
    the object space, so that a restart resumes with it.
    """

    def __init__(self, space: ObjectSpace, times: Mapping[str, str]) -> None:
        """Restore the time from the object space.

        ``times`` has the time column of each relation whose rows advance the time as messages do.
        """
        self._kept = space.get_or_create(PersistedValue[int | None], _NAME, Schema(int | None), initial=None)
        self._times = times
        self._reached: int | None = self._kept.value

    def applied(self, rows: pa.RecordBatch, deltas: Mapping[str, pa.RecordBatch]) -> int | None:
        """Record the times of messages and of the rows that they changed.

        Return the largest time of messages of a market's feed; None for other messages, or if there are none.
        """
        name = message_time(rows)
        if name is not None:
            reached = largest_integer(rows.column(name)) if rows.num_rows else None
            self.reach(reached)
            return reached
        for relation, column in self._times.items():
            if (changed := deltas.get(relation)) is not None:
                self.reach(largest_time(changed.column(column)))
        return None

    def reach(self, time: int | None) -> None:
        """Advance to an event time in nanoseconds, if it is later."""
        if time is not None and (self._reached is None or time > self._reached):
            self._reached = min(time, _LATEST)

    def at_cut(self) -> Mapping[str, pa.RecordBatch]:
        """Return the change of `EPOCH_TIME` for the epoch that closes here."""
        before, now = self._kept.value, self._reached
        if now is None or now == before:
            return {}
        self._kept.value = now
        times, weights = ([now], [1]) if before is None else ([before, now], [-1, 1])
        moments = [time // 1000 for time in times]
        return {EPOCH_TIME.name: pa.record_batch([times, moments, weights], schema=_SCHEMA)}
