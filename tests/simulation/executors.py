"""Spark's executors: tasks of shards that end, fail or come too late, and the state files shared by all.

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
"""Number of versions after which changes are merged, as by Spark's maintenance."""
_Rows = dict[_Row, _Row]
_Changes = dict[_Row, _Row | None]


class TaskLostError(Exception):
    """The task ends in the middle of its work, like a task whose Python worker, executor or machine is lost."""


class StateFiles:
    """State of one shard on the volume; survives executors and the driver."""

    def __init__(self) -> None:
        self._changes: dict[int, _Changes] = {}
        self._snapshots: dict[int, _Rows] = {0: {}}

    def load(self, version: int) -> _Rows:
        """Return the state after ``version`` batches."""
        base = max(at for at in self._snapshots if at <= version)
        rows = dict(self._snapshots[base])
        for at in range(base + 1, version + 1):
            _apply(rows, self._changes[at])
        return rows

    def commit(self, version: int, changes: _Changes, whole: _Rows) -> None:
        """Write the changes of an attempt, in place of an earlier attempt's."""
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
    """One executor: shards in its Python workers, and its local copies of their states."""

    def __init__(self) -> None:
        self.residents: dict[Any, Any] = {}
        """Replaces `runtime.spark.processor`'s own."""
        self.held: dict[int, tuple[int, _Rows]] = {}
        """Shard → version and rows."""

    def state(self, shard: int, version: int, files: StateFiles) -> _Rows:
        """Return a shard's rows at a version; a local copy of that version is used without a look at the files."""
        held = self.held.pop(shard, None)
        return held[1] if held is not None and held[0] == version else files.load(version)


class _Variables:
    """State variables of a task: reads and writes rows until the task is lost."""

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
    """Value state of Spark."""

    def __init__(self, variables: _Variables) -> None:
        self._variables = variables

    def exists(self) -> bool:
        return self._variables.get(_HEAD) is not None

    def get(self) -> _Row | None:
        return self._variables.get(_HEAD)

    def update(self, row: _Row) -> None:
        self._variables.put(_HEAD, row)


class _Map:
    """Map state of Spark."""

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
    """Task that has done its work and has not committed it."""

    executor: Executor
    files: StateFiles
    shard: int
    version: int
    """Number of batches in the state that it has made."""
    rows: _Rows
    changes: _Changes
    answers: Answers

    def commit(self) -> None:
        """Write the state, even if another attempt has written it meanwhile."""
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
    """Run a shard's task on an executor, up to its commit; raise `TaskLostError` somewhere in it if it ``is_lost``."""
    variables = _Variables(dict(executor.state(shard, version - 1, files)), chance.randint(1, 8) if is_lost else 0)
    processor._residents = executor.residents
    host = make()
    host.init(cast(Any, _Handle(variables)))
    rows_out = host.handleInputRows((shard_id,), cast(Any, iter(rows)), None)
    answers = [row.asDict() for row in rows_out]
    if is_lost:  # as late as possible: all work is done and lost
        raise TaskLostError
    return Attempt(executor, files, shard, version, variables.rows, variables.changes, answers)
