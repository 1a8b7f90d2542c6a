"""Sums over what conditions on aggregates select, read from ordered indexes at each version (see `factors`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compiler.program import Program, Selected, Term, View
from runtime.state import StringPool
from runtime.state.columnar.exactsums import Exact, narrowed, of_integers, product, summed
from runtime.views.factors import FactorReader, Indexes
from runtime.views.indexes import IndexSpec, Whole
from runtime.views.results import GroupResult
from runtime.views.stores import Saved

__all__ = ["SelectedState"]

Integers = npt.NDArray[np.int64]


class SelectedState:
    """The result of one view, found anew from the indexes at each version."""

    def __init__(self, view: View, body: Selected, program: Program, indexes: Indexes, pool: StringPool) -> None:
        """``indexes`` gives the set of indexes over a base map, which other views may read too."""
        nothing = 0 if program.mode == "dbtoaster" else None
        self._factors = [FactorReader(factor, program, indexes, nothing) for factor in body.factors]
        self._nothing = nothing
        self._is_grouped = any(reader.groups for reader in self._factors)
        self._scalars: list[tuple[Whole, str, list[str]]] = []
        for number in body.scalars:
            index = indexes(number).index(IndexSpec(()))
            assert isinstance(index, Whole)
            names = [f"m{number}.{s.name}" for s in program.maps[number].sums]
            self._scalars.append((index, f"m{number}.weight", names))
        nested = {nested.map for factor in body.factors for nested in factor.nested}
        self.maps = frozenset({factor.map for factor in body.factors} | nested | set(body.scalars))
        weight = Term(1, tuple(reader.sums[0] for reader in self._factors))
        self._terms = [(weight,), *(terms for _, terms in body.sums)]
        keys = [
            (f"{factor.alias}.{key.name}", key.type)
            for factor, reader in zip(body.factors, self._factors, strict=True)
            for key in reader.groups
        ]
        assert {name for name, _ in keys} == set(body.keys), f"expected keys {keys}, was {body.keys}"
        self._widths = [[2 if key.type == "int128" else 1 for key in reader.groups] for reader in self._factors]
        names = [name for name, _ in body.sums]
        self._result = GroupResult(view, body, keys, names, pool)

    def changes(self, *, begun: bool) -> pa.Table | None:
        """What the present state of the indexes changes in the view."""
        if not self._is_grouped:
            return self._result.set_row(self._alone(), begun=begun)
        return self._result.set_groups(*self._evaluated(), begun=begun)

    def resume(self) -> None:
        """All runs are applied."""

    def tables(self) -> dict[str, Saved]:
        """State of its own, by name."""
        return {"result": self._result.table}

    def _row(self) -> dict[str, Any]:
        """The scalars by name."""
        scalars: dict[str, Any] = {}
        for index, weight_name, names in self._scalars:
            weight, *totals = index.table.values
            scalars[weight_name] = weight
            for name, total in zip(names, totals, strict=True):
                scalars[name] = total if weight else self._nothing
        return scalars

    def _alone(self) -> list[int]:
        """The weight and sums where there are no groups."""
        scalars, named = self._row(), dict[str, int]()
        for reader in self._factors:
            sums = reader.read_alone(scalars)
            if sums[0] <= 0:
                return [0] * len(self._terms)
            named.update(zip(reader.sums, sums, strict=True))
        return [
            sum(math.prod([named[name] for name in term.columns], start=term.factor) for term in terms)
            for terms in self._terms
        ]

    def _evaluated(self) -> tuple[Integers, list[Exact]]:
        scalars = self._row()
        words, named = np.zeros((1, 0), np.int64), dict[str, Exact]()
        for reader, widths in zip(self._factors, self._widths, strict=True):
            if not widths:
                alone = reader.read_alone(scalars)
                if alone[0] <= 0:
                    return self._result.nothing
                named |= {n: np.repeat(of_integers([v]), len(words)) for n, v in zip(reader.sums, alone, strict=True)}
                continue
            groups, sums = reader.read(scalars)
            held = np.asarray(sums[0] > 0, np.bool_)
            groups, many = _nullable(groups[held], widths), len(words)
            count = len(groups)
            words = np.concatenate([np.repeat(words, count, axis=0), np.tile(groups, (many, 1))], axis=1)
            named = {name: np.repeat(value, count) for name, value in named.items()}
            named |= {name: np.tile(value[held], many) for name, value in zip(reader.sums, sums, strict=True)}
        return words, [_total(named, terms, len(words)) for terms in self._terms]


def _nullable(words: Integers, widths: Sequence[int]) -> Integers:
    """Words of keys that are not NULL, as those of nullable columns."""
    result = np.zeros((len(words), sum(widths) + len(widths)), np.int64)
    source = target = 0
    for width in widths:
        result[:, target + 1 : target + 1 + width] = words[:, source : source + width]
        source, target = source + width, target + 1 + width
    return result


def _total(named: Mapping[str, Exact], terms: Sequence[Term], rows: int) -> Exact:
    total: Exact | None = None
    for term in terms:
        value: Exact | None = None
        for name in term.columns:
            value = named[name] if value is None else product(value, named[name])
        if value is not None and term.factor == -1:
            value = -value
        elif value is None or term.factor != 1:
            factor = of_integers([term.factor] * rows)
            value = factor if value is None else product(value, factor)
        total = value if total is None else summed(total, value)
    return np.zeros(rows, np.int64) if total is None else narrowed(total)
