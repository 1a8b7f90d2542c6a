"""Maps of a program, which views share, and drafts of the maps of one view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from runtime.compiler.types import Type
from runtime.plan import Call, Col, Column, ColumnType, Expr, Key, Lit, Map, Relation, Sum

__all__ = ["BaseMaps", "Draft", "MapSet", "all_of", "column_keys", "key_name", "key_of", "named_key", "unique"]

WEIGHT = "weight"


class MapSet:
    """Maps in the order of their first use."""

    def __init__(self) -> None:
        self._ids: dict[Map, int] = {}
        self.maps: list[Map] = []

    def add(self, relation: str, where: Expr | None, keys: Sequence[Key], sums: Sequence[Sum] = ()) -> int:
        """Return the id of the map with these parts; add the map if it is missing. The order of keys has no effect."""
        ordered = tuple(sorted(keys, key=lambda key: key.name))
        same = Map(0, relation, where, ordered, tuple(sums))
        if same not in self._ids:
            self._ids[same] = len(self.maps)
            self.maps.append(Map(len(self.maps), relation, where, ordered, tuple(sums)))
        return self._ids[same]

    def mark(self) -> int:
        """Return the number of maps, for `undo`."""
        return len(self.maps)

    def undo(self, mark: int) -> None:
        """Remove the maps added since `mark`."""
        del self.maps[mark:]
        self._ids = {map_: number for map_, number in self._ids.items() if number < mark}


def all_of(conditions: Sequence[Expr | None]) -> Expr | None:
    """Return the conjunction of the conditions that are not None; None if there are none."""
    result: Expr | None = None
    for condition in conditions:
        if condition is not None:
            result = condition if result is None else Call("and", (result, condition))
    return result


def unique(name: str, taken: list[str]) -> str:
    """Return the name, numbered if it is taken."""
    candidate, number = name, 0
    while candidate in taken:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def key_name(column: str) -> str:
    """Return the name of a column's key: the column's name, unless that is ``weight``, a name that every map has."""
    return f"{column}_" if column.rstrip("_") == WEIGHT else column


def column_keys(relation: Relation, names: set[str]) -> tuple[Key, ...]:
    """Return keys for these columns; without columns one constant key, because a table must have a column."""
    columns = [column for column in relation.columns if column.name in names]
    if not columns:
        return (Key("one", "int64", Lit(1)),)
    return tuple(Key(key_name(column.name), column.type, Col(column.name)) for column in columns)


def key_of(name: str, kind: Type, expr: Expr) -> Key:
    """Return a key with an inferred type."""
    column: Column = kind.column(name)
    return Key(name, column.type, expr)


@dataclass(slots=True, eq=False)
class Draft:
    """Base map whose sums are not all known yet."""

    relation: Relation
    """Relation that it sums over."""
    where: Expr | None
    """Condition on its rows."""
    keys: tuple[Key, ...]
    """Keys in the order of their names."""
    copy: int
    """Number that distinguishes equal maps that must not be shared; 0 for the first."""
    summed: set[Expr] = field(default_factory=set)
    """Summed expressions."""
    number: int = -1
    """Id of the map, once it is in the program."""

    def name_of(self, expr: Expr | None) -> str:
        """Return the name of the sum of an expression; for None, the name of the weight."""
        if expr is None:
            return "weight"
        return next(total.name for total in self.sums if total.expr == expr)

    @property
    def sums(self) -> list[Sum]:
        """Sums in a fixed order, so that views can share the map; no sum has the name of a key."""
        taken = [key.name for key in self.keys]
        ordered = sorted(self.summed, key=repr)
        return [Sum(unique(f"sum_{place}", taken), expr) for place, expr in enumerate(ordered, 1)]


class BaseMaps:
    """Drafts of one view."""

    def __init__(self) -> None:
        self._drafts: list[Draft] = []

    def draft(self, relation: Relation, where: Sequence[Expr], keys: Sequence[Key], *, copy: int = 0) -> Draft:
        """Return the draft with these parts; add it if it is missing."""
        ordered = tuple(sorted(keys, key=lambda key: key.name))
        condition = all_of([*where, *[Lit(True)] * copy])
        for known in self._drafts:
            if (known.relation, known.where, known.keys, known.copy) == (relation, condition, ordered, copy):
                return known
        self._drafts.append(Draft(relation, condition, ordered, copy))
        return self._drafts[-1]

    def finish(self, maps: MapSet) -> None:
        """Add all drafts to the program, and set their numbers."""
        for draft in self._drafts:
            draft.number = maps.add(draft.relation.name, draft.where, draft.keys, draft.sums)


def named_key(expr: Expr, kind: ColumnType, taken: Sequence[str]) -> Key:
    """Return a key for an expression over a relation's columns; the key of a column has the column's name."""
    base = key_name(expr.name) if isinstance(expr, Col) else "key_1"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}" if isinstance(expr, Col) else f"key_{number}"
    return Key(name, kind, expr)
