"""Index lookup join: every row is looked up in an index by its key, several batches of look-ups at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal, Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.engine.operators.columns import as_schema, concat, matched, take
from runtime.engine.operators.errors import OperatorError, PlanError
from runtime.engine.operators.operator import MOST_ROWS, Batches, Operator, pieces

__all__ = ["Found", "Index", "LookupJoin", "Pending", "UpdatableIndex"]

Integers = npt.NDArray[np.int64]
LookupKind = Literal["inner", "left", "semi", "anti"]

_KINDS: Final = ("inner", "left", "semi", "anti")


class Found(msgspec.Struct, frozen=True):
    """The answer to one batch of look-ups."""

    rows: Integers
    """For each match the row of the request that it belongs to, ascending."""
    matches: pa.RecordBatch
    """The matches, with the columns of `Index.schema`."""


class Pending(Protocol):
    """A batch of look-ups under way, as `concurrent.futures.Future` is one."""

    def done(self) -> bool:
        """Whether the answer is there."""

    def result(self) -> Found:
        """The answer; waits for it if need be."""


class Index(ABC):
    """What is looked up in: a table of this process or a service elsewhere."""

    schema: pa.Schema
    """The columns of a match."""
    keys: tuple[str, ...]
    """Which of them are the key."""

    @abstractmethod
    def look_up(self, keys: Sequence[pa.Array]) -> Pending:
        """Begin to look up a batch of keys, a column each and none with NULL; must not block.

        The answer is of the index as it is at the call, or later where that is documented.
        """


class UpdatableIndex(Index):
    """An index that a plan may keep up to date."""

    @abstractmethod
    def update(self, batch: pa.RecordBatch) -> None:
        """Take over changes: columns of `schema`, and ``weight``: 1 puts a row, -1 takes its key away, in order."""


class LookupJoin(Operator):
    """Joins the rows of port 0 with their matches in an index, in the order in which they came.

    Look-ups are asynchronous: up to ``most_in_flight`` requests are under way, each of at least ``batch_rows`` rows (or
    what there is at a barrier). Only with so many under way, and at a barrier, does a call wait for the first of them.
    An answer that comes later is given out by the next call. A NULL in the key matches nothing.

    With an updatable index, port 1 takes its changes. They are visible to look-ups that begin after them; between two
    barriers nothing else is said about which those are, unless one caller feeds both ports in a fixed order.
    """

    def __init__(
        self,
        schema: pa.Schema,
        index: Index,
        keys: Sequence[str],
        kind: LookupKind = "inner",
        *,
        updates: bool = False,
        batch_rows: int = 1,
        most_in_flight: int = 8,
        most_rows: int = MOST_ROWS,
    ) -> None:
        if kind not in _KINDS:
            raise PlanError(f"expected a look-up of {', '.join(_KINDS)}, was {kind}")
        if len(keys) != len(index.keys):
            raise PlanError(f"expected a column for each of the index's keys {', '.join(index.keys)}, was {keys}")
        values = pa.schema([field for field in index.schema if field.name not in index.keys])
        both = matched(schema, values, left_optional=False, right_optional=kind == "left")
        super().__init__(schema if kind in ("semi", "anti") else both)
        self.ports = 2 if updates else 1
        self.most_rows = most_rows
        self._values = tuple(values.names)
        self._input = schema
        self._index = index
        self._keys = tuple(keys)
        self._kind = kind
        self._batch_rows = batch_rows
        self._most_in_flight = most_in_flight
        self._waiting: list[pa.RecordBatch] = []
        self._in_flight: deque[tuple[pa.RecordBatch, Integers, Pending]] = deque()

    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        if port == 1:
            if not isinstance(self._index, UpdatableIndex):
                raise OperatorError(f"expected an index that can be changed, was {type(self._index).__name__}")
            self._ask()  # what came before the change does not see it
            self._index.update(batch)
            return
        if batch.num_rows:
            self._waiting.append(batch)
        if sum(each.num_rows for each in self._waiting) >= self._batch_rows:
            self._ask()
        while self._in_flight and (len(self._in_flight) > self._most_in_flight or self._in_flight[0][2].done()):
            yield from self._answered()

    def drain_input(self, port: int = 0) -> Batches:
        if port == 1:
            return
        self._ask()
        while self._in_flight:
            yield from self._answered()

    def start_drain(self) -> Batches:
        return self.drain_input()

    def end_of_input(self, port: int = 0) -> Batches:
        return self.drain_input(port)

    def held_rows(self) -> int:
        held = [*self._waiting, *(batch for batch, _, _ in self._in_flight)]
        return sum(int(batch.num_rows) for batch in held)

    def _ask(self) -> None:
        if not self._waiting:
            return
        batch = concat(self._waiting, self._input)
        self._waiting = []
        columns = [batch.column(key) for key in self._keys]
        rows = np.arange(batch.num_rows)
        for column in columns:
            if column.null_count:
                rows = rows[column.take(pa.array(rows)).is_valid().to_numpy(zero_copy_only=False)]
        if len(rows) < batch.num_rows:
            columns = take(columns, rows)
        self._in_flight.append((batch, rows, self._index.look_up(columns)))

    def _answered(self) -> Batches:
        """The output of the first request; waits for it."""
        batch, rows, pending = self._in_flight.popleft()
        found = pending.result()
        owners = rows[found.rows]
        if self._kind in ("semi", "anti"):
            hit = np.zeros(batch.num_rows, np.bool_)
            hit[owners] = True
            yield from pieces(batch.filter(pa.array(hit == (self._kind == "semi"))), self.most_rows)
            return
        matches = np.arange(len(owners))
        if self._kind == "left":
            counts = np.bincount(owners, minlength=batch.num_rows)
            alone = np.flatnonzero(counts == 0)
            places = np.searchsorted(owners, alone)
            owners, matches = np.insert(owners, places, alone), np.insert(matches, places, -1)
        for begin in range(0, len(owners), self.most_rows):
            window = slice(begin, begin + self.most_rows)
            others = take([found.matches.column(name) for name in self._values], matches[window])
            made = pa.RecordBatch.from_arrays(take(batch.columns, owners[window]) + others, schema=self.schema)
            yield as_schema(made, self.schema)
