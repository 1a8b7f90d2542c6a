"""Sums over the product of relations of which conditions on aggregates select a part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Self

import msgspec

from runtime.plan.algebra import Col, Column, Expr, Map, Term, columns_read, renamed, sum_of_terms
from runtime.plan.body import Body
from runtime.plan.notation import expression, output_lines

__all__ = ["Factor", "Nested", "Selected"]

_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}


class Nested(msgspec.Struct, frozen=True):
    """An aggregate over the part of a map on one side of a value of the ordered key; no keys but that one."""

    name: str
    """Binds ``name.sum`` and ``name.weight`` in conditions; a sum over no rows (weight 0) is NULL (0 in dbtoaster)."""
    map: int
    """Base map whose only key is ``ordered``."""
    ordered: str
    """That key."""
    compare: Literal["lt", "le", "gt", "ge"]
    """Keys of the map that count: ``key compare value``."""
    value: Expr
    """Over the factor's ordered key (``alias.key``), strictly growing in it: the key itself, or plus a constant."""


class Factor(msgspec.Struct, frozen=True):
    """A relation of a selected view: groups × an ordered key, restricted by conditions on that key."""

    alias: str
    """Binds ``alias.key``, ``alias.sum``, ``alias.weight``."""
    map: int
    """Base map; its keys are the group keys and ``ordered``."""
    ordered: str | None
    """The key that the conditions are about (None: no condition)."""
    nested: tuple[Nested, ...]
    """What the conditions read besides scalars."""
    conditions: tuple[Expr, ...]
    """Three-valued, over ``alias.ordered``, nested sums, and scalars ``mN.sum`` / ``mN.weight`` of keyless base maps
    N, in exact integers (NULL where there is nothing); a value of the ordered key is selected if all are true."""
    monotone: bool
    """Whether each condition is true in one interval of the key, if no weight or sum of a key of the nested maps is
    negative: where one of its nested sums is NULL (in mode sql: below or above all keys of the nested map) it is not
    true, and everywhere else, which is one interval too, it changes its truth at most once along the key."""


class Selected(Body, frozen=True, tag="selected"):
    """Sums over the product of relations of which conditions on aggregates select a part (as VWAP, MST and PSP do).

    Evaluated anew at each version from ordered indexes: per factor the range of its ordered key that is selected, then
    each group's sums in that range, then the product over the factors.
    """

    factors: tuple[Factor, ...]
    """At least one; joined by nothing but their product."""
    scalars: tuple[int, ...]
    """Keyless base maps that conditions read."""
    keys: tuple[str, ...]
    """Group keys ``alias.key``; every key of every factor that is not its ordered one."""
    sums: tuple[tuple[str, tuple[Term, ...]], ...]
    """Named sums over ``alias.sum`` and ``alias.weight``, one of each factor in every term."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over ``keys``, the names of ``sums``, and ``weight``."""
    having: Expr | None = None
    """As in `Joined`."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """As in `Joined`."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        """Conditions name scalars by the number of their map."""
        replace = msgspec.structs.replace
        scalars = {f"m{old}": f"m{number(old)}" for old in self.scalars}
        read = {name for factor in self.factors for expr in factor.conditions for name in columns_read(expr)}
        parts = {name: name.partition(".") for name in read}
        names: dict[str, Expr] = {name: Col(f"{scalars[map_]}.{rest}")
                                  for name, (map_, _, rest) in parts.items() if map_ in scalars}  # fmt: skip
        factors = []
        for factor in self.factors:
            nested = tuple(replace(each, map=number(each.map)) for each in factor.nested)
            conditions = tuple(renamed(condition, names) for condition in factor.conditions)
            factors.append(replace(factor, map=number(factor.map), nested=nested, conditions=conditions))
        return replace(self, factors=tuple(factors), scalars=tuple(map(number, self.scalars)))

    def cost(self) -> str:
        logarithm = " × log(distinct keys)" if any(factor.ordered for factor in self.factors) else ""
        scanned = [f.ordered for f in self.factors if f.ordered is not None and not f.monotone]
        each = f", and every distinct {' and '.join(scanned)}" if scanned else ""
        keys = "(changed keys + groups)" if self.keys else "changed keys"
        return f"{keys}{logarithm}{each}"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        lines = [f"m{number} = the one group of map {number}" for number in self.scalars]
        for factor in self.factors:
            lines += _factor(maps, factor)
        each = f" for each {', '.join(self.keys)}" if self.keys else ""
        lines.append(f"sums over the product{each}:")
        lines += [f"  {name} = {expression(sum_of_terms(parts))}" for name, parts in self.sums]
        return [*lines, "each group gives:", *output_lines(columns, self.outputs, self.having, self.empty)]


def _factor(maps: Sequence[Map], factor: Factor) -> list[str]:
    keys = ", ".join(key.name for key in maps[factor.map].keys)
    if factor.ordered is None:
        return [f"{factor.alias} = all of map {factor.map}[{keys}]"]
    how = "found by bisection" if factor.monotone else "every one looked at"
    lines = [f"{factor.alias} = map {factor.map}[{keys}] where {factor.ordered} ({how}) has"]
    lines += [f"  {expression(condition)}" for condition in factor.conditions]
    lines += [f"  with {_nested(nested)}" for nested in factor.nested]
    return lines


def _nested(nested: Nested) -> str:
    return (
        f"{nested.name} = Σ map {nested.map}[{nested.ordered} {_SIGNS[nested.compare]} {expression(nested.value, 5)}]"
    )
