"""Operators on rows as wholes: DISTINCT, EXCEPT, INTERSECT; NULLs are equal here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.compiler.program import SetNode
from runtime.state import KeyedTable
from runtime.state.columnar.arrangement import CountedTable, groups_of
from runtime.views.flow.batch import Batch, Field, RowCodec
from runtime.views.flow.operators import Context, Operator, typed, wider

__all__ = ["Distinct", "SetOperation"]

Integers = npt.NDArray[np.int64]


class Distinct(Operator):
    """Every row once, as long as its weight is positive."""

    def __init__(self, fields: Sequence[Field], context: Context) -> None:
        self.fields = tuple(fields)
        self._codec = RowCodec([type_ for _, type_ in fields], context.pool)
        self._rows = CountedTable(self._codec.width, ["weight"])

    def tables(self) -> dict[str, KeyedTable]:
        return {"rows": self._rows}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        if changes[0] is None:
            return None
        rows, weight = self._codec.consolidate(changes[0])
        _, old, new = self._rows.add(rows, weight[None, :])
        return _emitted(self._codec, rows, (new[0] > 0).astype(np.int64) - (old[0] > 0))


_MULTIPLICITY: Final[dict[str, Callable[[Integers, Integers], Integers]]] = {
    "except": lambda left, right: ((left > 0) & (right <= 0)).astype(np.int64),
    "except_all": lambda left, right: np.maximum(np.maximum(left, 0) - np.maximum(right, 0), 0),
    "intersect": lambda left, right: ((left > 0) & (right > 0)).astype(np.int64),
    "intersect_all": lambda left, right: np.maximum(np.minimum(left, right), 0),
}


class SetOperation(Operator):
    """A row's weight is a function of its weights on both sides."""

    def __init__(self, node: SetNode, left: Sequence[Field], right: Sequence[Field], context: Context) -> None:
        self.fields = tuple(wider(mine, theirs) for mine, theirs in zip(left, right, strict=True))
        self._multiplicity = _MULTIPLICITY[node.kind]
        self._codec = RowCodec([type_ for _, type_ in self.fields], context.pool)
        self._rows = CountedTable(self._codec.width, ["left", "right"])

    def tables(self) -> dict[str, KeyedTable]:
        return {"rows": self._rows}

    def step(self, changes: Sequence[Batch | None], *, first: bool) -> Batch | None:
        parts, weights = [], []
        for side, change in enumerate(changes):
            if change is not None:
                rows, weight = self._codec.consolidate(typed(change, self.fields))
                parts.append(rows)
                weights.append(np.stack([weight if place == side else np.zeros_like(weight) for place in range(2)]))
        if not parts:
            return None
        rows, deltas = np.concatenate(parts), np.concatenate(weights, axis=1)
        if len(parts) > 1:
            order, start = groups_of(rows)
            rows = rows[order[start]]
            deltas = np.add.reduceat(deltas[:, order], start, axis=1) if len(start) else deltas
        _, old, new = self._rows.add(rows, deltas)
        return _emitted(self._codec, rows, self._multiplicity(*new) - self._multiplicity(*old))


def _emitted(codec: RowCodec, rows: Integers, weight: Integers) -> Batch | None:
    changed = weight != 0
    return Batch(codec.unpack(rows[changed]), weight[changed], distinct=True) if changed.any() else None
