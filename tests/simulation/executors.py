"""Spark's executors: tasks of shards that end, fail or come too late, and the state files that all share.

```
batch ── a task per shard ──▶ Executor: residents, local copy of the shard's state ── commit ──▶ StateFiles
                                │ fails: run again, anywhere          a late one writes over what ▲
                                └ hangs: given up, run again elsewhere, and commits in the end ───┘
```

The files are as Spark's first format has them: one of changes for each version and shard, without a word about which
attempt has written it, so that the last one to write it wins; an executor that holds a version in its local copy does
not look at the files at all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from runtime.spark import processor
from runtime.spark.processor import ShardProcessor

__all__ = ["Answers", "Attempt", "Executor", "StateFiles", "TaskLostError", "attempt"]

Answers = list[dict[str, Any]]
_Row = tuple[Any, ...]
_HEAD: Final = ("head",)
_SNAPSHOT_VERSIONS: Final = 4
"""Changes are put together now and then, as by Spark's maintenance."""
_Rows = dict[_Row, _Row]
_Changes = dict[_Row, _Row | None]


class TaskLostError(Exception):
    """The task ends in the middle of its work, as one does whose Python worker, executor or machine is lost."""


class StateFiles:
    """The state of one shard on the volume: outlives executors and the driver."""

    def __init__(self) -> None:
        self._changes: dict[int, _Changes] = {}
        self._snapshots: dict[int, _Rows] = {0: {}}

    def load(self, version: int) -> _Rows:
        """The state after so many batches."""
        base = max(at for at in self._snapshots if at <= version)
        rows = dict(self._snapshots[base])
        for at in range(base + 1, version + 1):
            _apply(rows, self._changes[at])
        return rows

    def commit(self, version: int, changes: _Changes, whole: _Rows) -> None:
        """What an attempt has changed, in the place of whatever stands there."""
        self._changes[version] = changes
        if version % _SNAPSHOT_VERSIONS == 0:
            self._snapshots[version] = dict(whole)


def _apply(rows: _Rows, changes: _Changes) -> None:
    for key, row in changes.items():
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row


class Executor:
    """One executor: what its Python workers hold of shards, and its local copies of their states."""

    def __init__(self) -> None:
        self.residents: dict[Any, Any] = {}
        """In the place of `runtime.spark.processor`'s own."""
        self.held: dict[int, tuple[int, _Rows]] = {}
        """Shard → version and rows."""

    def state(self, shard: int, version: int, files: StateFiles) -> _Rows:
        """A shard's rows at a version; those that are held are believed."""
        held = self.held.pop(shard, None)
        return held[1] if held is not None and held[0] == version else files.load(version)


class _Variables:
    """The state variables of a task: reads and writes rows until it is lost."""

    def __init__(self, rows: _Rows, lost_in: int) -> None:
        self.rows = rows
        self.changes: _Changes = {}
        self._lost_in = lost_in

    def get(self, key: _Row) -> _Row | None:
        self._operation()
        return self.rows.get(key)

    def put(self, key: _Row, row: _Row | None) -> None:
        self._operation()
        _apply(self.rows, {key: row})
        self.changes[key] = row

    def _operation(self) -> None:
        self._lost_in -= 1
        if self._lost_in == 0:
            raise TaskLostError


class _Value:
    """Spark's value state."""

    def __init__(self, variables: _Variables) -> None:
        self._variables = variables

    def exists(self) -> bool:
        return self._variables.get(_HEAD) is not None

    def get(self) -> _Row | None:
        return self._variables.get(_HEAD)

    def update(self, row: _Row) -> None:
        self._variables.put(_HEAD, row)


class _Map:
    """Spark's map state."""

    def __init__(self, variables: _Variables) -> None:
        self._variables = variables

    def getValue(self, key: _Row) -> _Row | None:
        return self._variables.get(key)

    def updateValue(self, key: _Row, row: _Row) -> None:
        self._variables.put(key, row)

    def removeKey(self, key: _Row) -> None:
        self._variables.put(key, None)


class _Handle:
    def __init__(self, variables: _Variables) -> None:
        self._variables = variables

    def getValueState(self, name: str, schema: str) -> _Value:
        return _Value(self._variables)

    def getMapState(self, name: str, key_schema: str, value_schema: str) -> _Map:
        return _Map(self._variables)


class Attempt(msgspec.Struct, eq=False):
    """A task that has done its work and has not committed it."""

    executor: Executor
    files: StateFiles
    shard: int
    version: int
    """Batches that are in the state that it has made."""
    rows: _Rows
    changes: _Changes
    answers: Answers

    def commit(self) -> None:
        """Write the state, whoever may have written it meanwhile."""
        self.files.commit(self.version, self.changes, self.rows)
        self.executor.held[self.shard] = (self.version, dict(self.rows))


def attempt(
    executor: Executor,
    files: StateFiles,
    make: Callable[[], ShardProcessor],
    *,
    shard: int,
    shard_id: int,
    version: int,
    rows: list[dict[str, Any]],
    chance: random.Random,
    is_lost: bool = False,
) -> Attempt:
    """Run a shard's task on an executor, up to its commit; raises `TaskLostError` somewhere in it if it ``is_lost``."""
    variables = _Variables(dict(executor.state(shard, version - 1, files)), chance.randint(1, 8) if is_lost else 0)
    processor._residents = executor.residents
    host = make()
    host.init(cast(Any, _Handle(variables)))
    told = host.handleInputRows((shard_id,), cast(Any, iter(rows)), None)
    answers = [row.asDict() for row in told]
    if is_lost:  # as late as can be: everything is done, and nothing of it is kept
        raise TaskLostError
    return Attempt(executor, files, shard, version, variables.rows, variables.changes, answers)
