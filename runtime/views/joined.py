"""Sums over joins, kept by higher-order deltas: what a delta of one occurrence does is looked up, never searched for.

A step goes through the occurrences in their order. Each statement of an occurrence reads the indexes as they are (those
of earlier occurrences are new, those of later ones old), and only then is the delta added to the indexes of its own
map: so every pair of changes is counted once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.program import Auxiliary, Joined, Program, Statement, View
from runtime.state import StringPool
from runtime.state.columnar.exactsums import Exact, summed
from runtime.views.deltas import Delta, KeyVector, added_up, aggregated, nullable_words
from runtime.views.evaluate import mask
from runtime.views.frames import Frame
from runtime.views.results import GroupResult
from runtime.views.stores import IndexSet, Saved, read, spec_of

__all__ = ["JoinedState"]

Integers = npt.NDArray[np.int64]


class JoinedState:
    """The auxiliary maps and the result of one view."""

    def __init__(
        self, view: View, body: Joined, program: Program, indexes: Callable[[int], IndexSet], pool: StringPool
    ) -> None:
        """``indexes`` gives the set of indexes over a base map, which other views may read too."""
        self._body = body
        self._pool = pool
        self._aliases: dict[int, list[str]] = {}
        self._base: dict[int, IndexSet] = {}
        for occurrence in body.occurrences:
            self._aliases.setdefault(occurrence.map, []).append(occurrence.alias)
            self._base[occurrence.map] = indexes(occurrence.map)
        self._sums = {number: [s.name for s in program.maps[number].sums] for number in self._base}
        *inner, result = body.auxiliaries
        self._inner = [IndexSet(dict(auxiliary.keys), auxiliary.sums) for auxiliary in inner]
        self._result = GroupResult(view, body, result.keys, result.sums, pool)
        self._pending: list[tuple[Integers, list[Exact]]] = []
        for auxiliary in body.auxiliaries:
            for statement in auxiliary.statements:
                for lookup in statement.lookups:
                    self._indexes_of(lookup.source, auxiliary=lookup.auxiliary).index(spec_of(lookup))

    @property
    def maps(self) -> frozenset[int]:
        """The base maps it reads."""
        return frozenset(self._base)

    def turns(self, map_: int) -> int:
        """How often the map occurs: `react` is called once for each, in order."""
        return len(self._aliases.get(map_, ()))

    def react(self, map_: int, turn: int, delta: Delta) -> None:
        """Take in a delta of one occurrence; the first comes before the delta is added to the map's indexes."""
        alias = self._aliases[map_][turn]
        found = []
        for number, auxiliary in enumerate(self._body.auxiliaries):
            for statement in auxiliary.statements:
                if statement.occurrence == alias:
                    frame = self._execute(statement, alias, self._sums[map_], delta)
                    if frame is not None and frame.rows:
                        found.append((number, auxiliary, statement, frame))
        for number, auxiliary, statement, frame in found:
            self._apply(number, auxiliary, statement, frame)

    def build(self, deltas: Mapping[int, Delta]) -> None:
        """Take in all that the base maps hold, as a first version; their own indexes are not touched."""
        shared, self._base = self._base, {number: indexes.like() for number, indexes in self._base.items()}
        try:
            for number, delta in sorted(deltas.items()):
                for turn in range(self.turns(number)):
                    self.react(number, turn, delta)
                    if turn == 0:
                        self._base[number].add(delta)
        finally:
            self._base = shared

    def changes(self, *, begun: bool) -> pa.Table | None:
        """What the reactions since the last call change in the view."""
        pending, self._pending = self._pending, []
        words, sums = pending[0] if pending else self._result.nothing
        if len(pending) > 1:
            if all(np.array_equal(words, other) for other, _ in pending[1:]):
                for _, others in pending[1:]:
                    sums = [summed(value, other) for value, other in zip(sums, others, strict=True)]
            else:
                words = np.concatenate([part[0] for part in pending])
                sums = [np.concatenate([part[1][i] for part in pending]) for i in range(len(sums))]
                words, sums = aggregated(words, sums)
        return self._result.add(words, sums, begun=begun)

    def tables(self) -> dict[str, Saved]:
        """State of its own, by name."""
        named: dict[str, Saved] = {"result": self._result.table}
        for number, indexes in enumerate(self._inner):
            named |= {f"aux{number}/{spec.code}": index.table for spec, index in indexes.indexes.items()}
        return named

    def resume(self) -> None:
        """All runs are applied."""

    @property
    def _last(self) -> Auxiliary:
        return self._body.auxiliaries[-1]

    def _indexes_of(self, source: int, *, auxiliary: bool) -> IndexSet:
        return self._inner[source] if auxiliary else self._base[source]

    def _execute(self, statement: Statement, alias: str, sums: list[str], delta: Delta) -> Frame | None:
        frame = Frame(alias, delta, sums)
        for lookup in statement.lookups:
            if not frame.rows:
                return None
            read(frame, lookup, self._indexes_of(lookup.source, auxiliary=lookup.auxiliary))
        if statement.where is not None and frame.rows:
            chosen = mask(statement.where, frame.arrow(self._pool), frame.rows)
            if chosen is not None:
                frame.take(pc.fill_null(chosen, False).to_numpy(zero_copy_only=False))
        return frame

    def _apply(self, number: int, auxiliary: Auxiliary, statement: Statement, frame: Frame) -> None:
        vectors = [frame.keys[name] for name in statement.keys]
        found = [frame.total((statement.weight,)), *map(frame.total, statement.sums)]
        rows, sums = added_up(_columns(vectors), frame.rows, [v for v, _ in found], [most for _, most in found])
        if rows is not None:
            vectors = [vector.take(rows) for vector in vectors]
        words = nullable_words(vectors, len(sums[0]))
        if auxiliary is self._last:
            self._pending.append((words, sums))
        else:
            self._inner[number].add(Delta(_vectors(auxiliary, words), sums))


def _columns(vectors: Sequence[KeyVector]) -> list[Integers]:
    """Columns in whose order the rows of nullable words are."""
    columns: list[Integers] = []
    for vector in vectors:
        if vector.nulls is not None:
            columns.append(vector.nulls.astype(np.int64))
        columns += list(vector.words.T)
    return columns


def _vectors(auxiliary: Auxiliary, words: Integers) -> dict[str, KeyVector]:
    vectors: dict[str, KeyVector] = {}
    place = 0
    for name, kind in auxiliary.keys:
        width = 2 if kind == "int128" else 1
        nulls = words[:, place] != 0
        part = np.ascontiguousarray(words[:, place + 1 : place + 1 + width])
        vectors[name] = KeyVector(kind, part, nulls if nulls.any() else None)
        place += 1 + width
    return vectors
