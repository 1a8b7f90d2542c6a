"""Any other SQL, recomputed by DuckDB over maintained maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self

import msgspec

from runtime.plan.algebra import Column, Map
from runtime.plan.body import Body

__all__ = ["Input", "Reevaluated"]


class Input(msgspec.Struct, frozen=True):
    """A table of a re-evaluated query: a map's keys as columns, each group standing for ``weight`` equal rows."""

    table: str
    """Name of the table in the query."""
    map: int
    """The map that fills it."""


class Reevaluated(Body, frozen=True, tag="reevaluated"):
    """Any other SQL: recomputed by DuckDB over maintained maps; the change is the difference to the last result."""

    inputs: tuple[Input, ...]
    """Its tables."""
    query: str
    """DuckDB SQL over them, integers widened; yields the view's columns in order."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        inputs = tuple(msgspec.structs.replace(each, map=number(each.map)) for each in self.inputs)
        return msgspec.structs.replace(self, inputs=inputs)

    def cost(self) -> str:
        return "the whole state"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        tables = [f"  {each.table} = the rows of map {each.map}" for each in self.inputs]
        return ["tables:", *tables, "query, per epoch:", *(f"  {line}" for line in self.query.splitlines())]
