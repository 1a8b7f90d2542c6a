"""Installed adaptor whose state uses all ten persisted types, and the same computation in plain Python."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from sortedcontainers import SortedDict, SortedSet

from runtime.formats import Schema as TupleSchema
from runtime.plan import Column, Relation
from runtime.relations import Adaptor, Offsets, Prepared, RowAdaptor, row_schema
from runtime.service.readers import AdaptorRequest
from runtime.state import (
    PersistedArray,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedQueue,
    PersistedSet,
    PersistedSortedDictionary,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
    Schema,
)

__all__ = ["COLUMNS", "StatefulAdaptor", "answers", "install"]

COLUMNS: Final = (
    "n",
    "total",
    "last_digit",
    "journal",
    "recent",
    "stack",
    "used_first",
    "members",
    "lowest",
    "counted",
    "level",
)
_READ: Final = Relation("read", (Column("n", "int64"), Column("x", "int64")))
_JOURNAL, _RECENT, _DEEPEST, _USED, _LOWEST, _LEVELS = 20, 16, 12, 8, 10, 30
Row = tuple[int, ...]


class _Plain:
    """The state in plain Python, and the row that each input row gives."""

    def __init__(self) -> None:
        self.total = 0
        self.digits = [0] * 10
        self.journal: Any = []
        self.recent: Any = deque()
        self.stack: Any = []
        self.used: Any = deque()
        self.distinct: Any = set()
        self.lowest: Any = SortedSet()
        self.counts: Any = {}
        self.levels: Any = SortedDict()

    enqueue: Callable[[Any, int], None] = staticmethod(deque.append)
    dequeue: Callable[[Any], int] = staticmethod(deque.popleft)
    push: Callable[[Any, int], None] = staticmethod(list.append)

    def row(self, n: int, x: int) -> Row:
        """Process a row; return the resulting row."""
        self.total += x
        self.digits[x % 10] += 1
        if x % 7 == 0:
            self.journal.append(x)
        if len(self.journal) > _JOURNAL:
            del self.journal[3:9]
        self.enqueue(self.recent, x)
        if len(self.recent) > _RECENT:
            self.dequeue(self.recent)
        if x % 3 and len(self.stack) < _DEEPEST:
            self.push(self.stack, x)
        elif len(self.stack):
            self.stack.pop()
        if x % 20 in self.used:
            self.used.remove(x % 20)
        self.used.appendleft(x % 20)
        if len(self.used) > _USED:
            self.used.pop()
        self.distinct.discard(x % 11)
        self.distinct.add(x % 500)
        self.lowest.add(x % 1000)
        if len(self.lowest) > _LOWEST:
            self.lowest.pop(n % _LOWEST)
        self.counts[x % 13] = self.counts.get(x % 13, 0) + 1
        if x % 31 == 0:
            self.counts.pop(n % 13, None)
        self.levels[x % 100] = n
        if len(self.levels) > _LEVELS:
            self.levels.popitem(0)
        return (
            n,
            self.total,
            self.digits[x % 10],
            sum(place * each for place, each in enumerate(self.journal)),
            sum(self.recent),
            sum(place * each for place, each in enumerate(self.stack)),
            sum(place * each for place, each in enumerate(self.used)),
            len(self.distinct),
            sum(self.lowest),
            self.counts.get(x % 13, -1) + 1000 * next(iter(self.counts), 0),
            self.levels.peekitem(-1)[1],
        )


class _Kept(_Plain):
    """The same state in the persisted objects of an adaptor."""

    enqueue = staticmethod(PersistedQueue.enqueue)
    dequeue = staticmethod(PersistedQueue.dequeue)
    push = staticmethod(PersistedStack.push)

    def __init__(self, request: AdaptorRequest) -> None:
        made, number = request.state.get_or_create, Schema(int)
        self._total = made(PersistedValue[int], "total", number, initial=0)
        self.digits = made(PersistedArray[int], "digits", number, length=10, initial=0)  # type: ignore[assignment]
        self.journal = made(PersistedList[int], "journal", number)
        self.recent = made(PersistedQueue[int], "recent", number)
        self.stack = made(PersistedStack[int], "stack", number)
        self.used = made(PersistedLinkedList[int], "used", number)
        self.distinct = made(PersistedSet[int], "distinct", number)
        self.lowest = made(PersistedSortedSet[int], "lowest", number)
        self.counts = made(PersistedDictionary[int, int], "counts", Schema(int, int))
        self.levels = made(PersistedSortedDictionary[int, int], "levels", Schema(int, int))

    @property
    def total(self) -> int:
        return self._total.value

    @total.setter
    def total(self, total: int) -> None:
        self._total.value = total


class StatefulAdaptor(Adaptor):
    """Rows of two numbers; fills a relation with `COLUMNS`. Option ``fails_at``: the n of a row at which it raises."""

    def __init__(self, request: AdaptorRequest) -> None:
        self._request = request
        self._rows = RowAdaptor(_READ, row_schema(_READ))
        self._fails_at = int(request.options.get("fails_at", "-1"))

    @property
    def schema(self) -> TupleSchema:
        return self._rows.schema

    @property
    def relations(self) -> tuple[Relation, ...]:
        return (self._request.relation,)

    def prepare(self, rows: pa.RecordBatch, row_ends: Offsets) -> Prepared:
        return self._rows.prepare(rows, row_ends)

    def apply(self, prepared: Prepared) -> Mapping[str, pa.RecordBatch]:
        kept = _Kept(self._request)
        made = []
        for n, x in zip(*(column.to_pylist() for column in prepared.rows.columns), strict=True):
            if n == self._fails_at:
                raise ArithmeticError(f"row {n}")
            made.append((*kept.row(n, x), 1))
        columns = zip(*made, strict=True) if made else [()] * (len(COLUMNS) + 1)
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return {self._request.relation.name: pa.record_batch(arrays, names=[*COLUMNS, "weight"])}


def answers(rows: Iterable[tuple[int, int]]) -> list[Row]:
    """Return the expected rows of the relation, in order, after these rows."""
    plain = _Plain()
    return [plain.row(n, x) for n, x in rows]


def install(folder: Path) -> Path:
    """Make a package of the adaptor in a folder, for processes that have it in their path; return the folder."""
    metadata = folder / "stateful_adaptor-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stateful-adaptor\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[deltabook.adaptors]\nstateful = {__name__}:StatefulAdaptor\n")
    return folder
