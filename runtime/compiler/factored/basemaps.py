"""The base maps of one view on their way: those that agree in all but their sums are one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.compiler.maps import MapSet, all_of, key_name
from runtime.compiler.shapes import unique
from runtime.plan import Col, ColumnType, Expr, Key, Lit, Relation, Sum

__all__ = ["BaseMaps", "Draft", "named_key"]


@dataclass(slots=True, eq=False)
class Draft:
    """A base map whose sums are not all known yet."""

    relation: Relation
    """What it sums over."""
    where: Expr | None
    """Which rows."""
    keys: tuple[Key, ...]
    """In the order of their names."""
    copy: int
    """Equal maps that must not be one are numbered."""
    summed: set[Expr] = field(default_factory=set)
    """What is summed."""
    number: int = -1
    """Its id, once it is in the program."""

    def name_of(self, expr: Expr | None) -> str:
        """The name of a sum, or (None) of the weight."""
        if expr is None:
            return "weight"
        return next(total.name for total in self.sums if total.expr == expr)

    @property
    def sums(self) -> list[Sum]:
        """In a fixed order, so that views share them; no name is a key's."""
        taken = [key.name for key in self.keys]
        ordered = sorted(self.summed, key=repr)
        return [Sum(unique(f"sum_{place}", taken), expr) for place, expr in enumerate(ordered, 1)]


class BaseMaps:
    """Drafts of one view."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []

    def draft(self, relation: Relation, where: Sequence[Expr], keys: Sequence[Key], *, copy: int = 0) -> Draft:
        """The draft with these parts, the old one where there is one."""
        ordered = tuple(sorted(keys, key=lambda key: key.name))
        condition = all_of([*where, *[Lit(True)] * copy])
        for known in self._drafts:
            if (known.relation, known.where, known.keys, known.copy) == (relation, condition, ordered, copy):
                return known
        self._drafts.append(Draft(relation, condition, ordered, copy))
        return self._drafts[-1]

    def finish(self, maps: MapSet) -> None:
        """Puts all of them into the program."""
        for draft in self._drafts:
            draft.number = maps.add(draft.relation.name, draft.where, draft.keys, draft.sums)


def named_key(expr: Expr, kind: ColumnType, taken: Sequence[str]) -> Key:
    """A key for an expression over a relation's columns: a column's is called as the column is."""
    base = key_name(expr.name) if isinstance(expr, Col) else "key_1"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}" if isinstance(expr, Col) else f"key_{number}"
    return Key(name, kind, expr)
