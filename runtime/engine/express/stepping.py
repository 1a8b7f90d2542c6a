"""How a version is made of deltas: by the tuple-wise kernel where they are few, by the shard where they are many.

```
few rows ──▶ QuickViews ──▶ told at once          the shard is behind by these rows
many rows, end of the epoch ──▶ shard (all that it is behind) ──▶ told: what was not told before
```

The shard is what is saved, so at the end of every epoch it has taken everything, and what it says is compared with what
was told: the kernel is checked against it, an epoch at a time, and dropped where the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import pyarrow as pa
from twisted.logger import Logger

from runtime.compiler import Program
from runtime.engine.express.filling import Filling, with_open_epoch
from runtime.engine.express.quick import Quickness, QuickViews, rows_worth
from runtime.engine.express.state import ExpressState
from runtime.epochs import EpochLogError
from runtime.views import Step, deliveries_of
from runtime.views.linear import change_schema, consolidate
from runtime.views.tuplewise import UnsupportedError

__all__ = ["Stepping"]

Tables = Mapping[str, Sequence[pa.RecordBatch]]
Tell = Callable[[Step, "Collection[str] | None"], None]
"""What has changed, and in which views if not all of them are at the version yet."""

_NOTHING: Final = Program((), (), ())
_MOST_TABLES: Final = 256
"""So many changes of a view that were told are added up, so that an epoch holds few of them whatever its length."""


class Stepping:
    """Belongs to who owns the state."""

    _log = Logger()

    def __init__(self, state: ExpressState, filling: Filling, quickness: Quickness) -> None:
        self._state, self._filling, self._quickness = state, filling, quickness
        self._quick: QuickViews | None = None
        self._is_possible = True
        self._most_rows = self._worth()
        """Rows of a version that are taken one by one."""
        self._calm = 0
        self._busiest = 0
        self._crowded = 0
        """Epochs until it is looked at again whether relations hold too many rows."""
        self._held_rows = 0
        """That the kernel has taken and that have not left."""
        self._behind: dict[str, list[pa.RecordBatch]] = {}
        self._told: dict[str, list[pa.Table]] = {}

    @property
    def is_quick(self) -> bool:
        """Whether few rows are taken one by one."""
        return self._quick is not None

    def begin(self, held: Mapping[str, pa.Table]) -> None:
        """The shard is another one, at the version at which relations hold this."""
        self._behind, self._told = {}, {}
        self._is_possible, self._calm, self._crowded = True, 0, 0
        self._most_rows = self._worth()
        self._begin_quick(held)

    def changed(self) -> None:
        """The shard has other views, and is not behind."""
        self._quick, self._is_possible, self._most_rows = None, True, self._worth()
        self._calm, self._crowded = self._quickness.calm_epochs, 0

    def take(self, tables: Tables, tell: Tell) -> None:
        """Make a version of deltas."""
        rows = sum(batch.num_rows for batches in tables.values() for batch in batches)
        self._busiest = max(self._busiest, rows)
        if self._quick is not None and rows <= self._most_rows:
            step = self._quickly(self._quick, tables)
            if step is not None:
                tell(step, None)
                return
        self._quick = None
        if self._behind:
            self._add_behind(tables)
            tell(self._caught_up(), None)
            return
        told = Step({}, {})

        def on_first(step: Step, views: Collection[str]) -> None:
            nonlocal told
            told = step
            tell(step, views)

        step = self._shard_step(tables, on_first)
        rest = Step(
            {name: table for name, table in step.changes.items() if name not in told.changes},
            {name: why for name, why in step.failed.items() if name not in told.failed},
        )
        tell(rest, None)

    def settle(self, epoch: int, deltas: Tables, tell: Tell) -> None:
        """The end of an epoch, whose deltas are given: the shard takes what it is behind."""
        if self._behind:
            rest = self._caught_up()
            if rest.changes or rest.failed:
                self._quick = None
                if rest.changes:
                    self._is_possible = False
                    names = ", ".join(sorted(rest.changes))
                    self._log.error("single rows gave other rows of {names} than the whole epoch", names=names)
                tell(rest, None)
        self._consider(epoch, deltas)

    def _quickly(self, quick: QuickViews, tables: Tables) -> Step | None:
        try:
            changes = quick.step(tables)
        except Exception as error:  # noqa: BLE001 - whatever it is, the shard says it of the view that it concerns
            self._log.info("single rows are taken by the shard again: {error}", error=error)
            return None
        self._add_behind(tables)
        for name, table in changes.items():
            told = self._told.setdefault(name, [])
            told.append(table)
            if len(told) >= _MOST_TABLES:
                told[:] = [consolidate(pa.concat_tables(told), table.schema)]
        self._held_rows += sum(_weights(batch) for batches in tables.values() for batch in batches)
        if self._held_rows > self._quickness.most_held_rows:
            self._quick = None
        return Step(changes, {})

    def _add_behind(self, tables: Tables) -> None:
        for name, batches in tables.items():
            self._behind.setdefault(name, []).extend(batches)

    def _caught_up(self) -> Step:
        """Let the shard take what it is behind; what of it was not told, or told otherwise."""
        behind, told = self._behind, self._told
        self._behind, self._told = {}, {}
        step = self._shard_step(behind, None)
        rest: dict[str, pa.Table] = {}
        for view in self._state.program.views:
            name = view.name
            tables = [_negated(table) for table in told.get(name, ())]
            tables += [step.changes[name]] if name in step.changes else []
            if tables and name not in self._state.failed:
                table = consolidate(pa.concat_tables(tables), change_schema(view.columns))
                if table.num_rows:
                    rest[name] = table
        return Step(rest, step.failed)

    def _shard_step(self, tables: Tables, on_first: Callable[[Step, Collection[str]], None] | None) -> Step:
        whole = {name: pa.Table.from_batches(batches) for name, batches in tables.items()}
        found = deliveries_of(self._state.program, whole, 1, few=True)
        return self._state.shard.step([(one.part, one.payload) for one in found], on_first=on_first)

    def _consider(self, epoch: int, deltas: Tables) -> None:
        """Begin the kernel again once it is calm, from what the log holds up to the epoch that closes."""
        busiest, self._busiest = self._busiest, 0
        if self._quick is not None or not self._is_possible or self._state.failed or not self._state.program.views:
            return
        self._calm = self._calm + 1 if busiest * 4 <= self._most_rows else 0
        self._crowded = max(0, self._crowded - 1)
        if self._calm < self._quickness.calm_epochs or self._crowded:
            return
        self._calm = 0
        if self._filling.epochs_since_snapshot(epoch) > self._quickness.most_epochs:
            return
        try:
            filled = self._filling.read(_NOTHING, self._state.program, epoch - 1)
        except (EpochLogError, OSError) as error:  # the shard needs nothing of it
            self._crowded = self._quickness.crowded_epochs
            self._log.warn("rows are not taken one by one: {error}", error=error)
            return
        self._begin_quick(with_open_epoch(filled, deltas))

    def _worth(self) -> int:
        return min(self._quickness.most_rows, rows_worth(self._state.program))

    def _begin_quick(self, held: Mapping[str, pa.Table]) -> None:
        self._quick = None
        program = self._state.program
        wide = any(column.type == "int128" for relation in program.relations for column in relation.columns)
        if wide or not self._most_rows:
            self._is_possible = False
            return
        self._held_rows = sum(table.num_rows for table in held.values())
        if self._held_rows > self._quickness.most_held_rows:
            self._crowded = self._quickness.crowded_epochs
            return
        try:
            self._quick = QuickViews(program, held)
        except UnsupportedError:
            self._is_possible = False


def _weights(batch: pa.RecordBatch) -> int:
    """Rows that have come, less those that have gone."""
    return int(pa.compute.sum(batch.column(batch.num_columns - 1)).as_py() or 0)


def _negated(table: pa.Table) -> pa.Table:
    weight = pa.compute.negate(table.column(table.num_columns - 1))
    return table.set_column(table.num_columns - 1, table.schema.field(table.num_columns - 1), weight)
