"""Sums over select-project-group-by of one relation, or a UNION ALL of such."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Self

import msgspec

from runtime.plan.algebra import Column, Expr, Map
from runtime.plan.body import Body
from runtime.plan.notation import output_lines

__all__ = ["Branch", "Linear"]


class Branch(msgspec.Struct, frozen=True):
    """One SELECT of a linear view (several are a UNION ALL)."""

    map: int
    """The map it reads."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over the map's keys, sums and ``weight``."""
    bag: bool = False
    """True for a SELECT without aggregates: each group stands for ``weight`` equal rows."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """For a SELECT with aggregates and no GROUP BY: its row while no row is in the group."""
    having: Expr | None = None
    """Over the same as ``outputs``; a group for which it is not true has no row."""


class Linear(Body, frozen=True, tag="linear"):
    """SUM, COUNT, AVG over select-project-group-by of one relation, or a UNION ALL of such."""

    branches: tuple[Branch, ...]
    """At least one."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        branches = tuple(msgspec.structs.replace(branch, map=number(branch.map)) for branch in self.branches)
        return msgspec.structs.replace(self, branches=branches)

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int] | None:
        if all(maps[branch.map].keys and branch.empty is None for branch in self.branches):
            return dict.fromkeys(self.maps(), -1)
        return None

    def placement(self, maps: Sequence[Map]) -> str:
        return "all of it in one" if self.shard_keys(maps) is None else "spread by the keys of its maps"

    def cost(self) -> str:
        return "changed keys"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        lines = []
        for branch in self.branches:
            kind = "each of its rows gives" if branch.bag else "each group gives"
            lines.append(f"from map {branch.map}, {kind}:")
            lines += output_lines(columns, branch.outputs, branch.having, branch.empty)
        return lines
