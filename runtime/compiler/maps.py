"""The maps of a program: each stands there once, however many views read it."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.compiler.types import Type
from runtime.plan import Call, Col, Column, Expr, Key, Lit, Map, Relation, Sum

__all__ = ["MapSet", "all_of", "column_keys", "key_name"]

WEIGHT = "weight"


class MapSet:
    """Maps in the order of their first use."""

    def __init__(self) -> None:
        self._ids: dict[Map, int] = {}
        self.maps: list[Map] = []

    def add(self, relation: str, where: Expr | None, keys: Sequence[Key], sums: Sequence[Sum] = ()) -> int:
        """The id of the map with these parts, the old one where there is one; the order of keys does not matter."""
        ordered = tuple(sorted(keys, key=lambda key: key.name))
        same = Map(0, relation, where, ordered, tuple(sums))
        if same not in self._ids:
            self._ids[same] = len(self.maps)
            self.maps.append(Map(len(self.maps), relation, where, ordered, tuple(sums)))
        return self._ids[same]

    def mark(self) -> int:
        """How many maps there are, for `undo`."""
        return len(self.maps)

    def undo(self, mark: int) -> None:
        """Forget the maps added since `mark`."""
        del self.maps[mark:]
        self._ids = {map_: number for map_, number in self._ids.items() if number < mark}


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """The conjunction, or None of no conditions."""
    result: Expr | None = None
    for condition in conditions:
        result = condition if result is None else Call("and", (result, condition))
    return result


def key_name(column: str) -> str:
    """What the key for a column is called: the column's name, unless every map has something of that name."""
    return f"{column}_" if column.rstrip("_") == WEIGHT else column


def column_keys(relation: Relation, names: set[str]) -> tuple[Key, ...]:
    """Keys for these columns; of none a constant, as a table needs a column."""
    columns = [column for column in relation.columns if column.name in names]
    if not columns:
        return (Key("one", "int64", Lit(1)),)
    return tuple(Key(key_name(column.name), column.type, Col(column.name)) for column in columns)


def key_of(name: str, kind: Type, expr: Expr) -> Key:
    """A key with an inferred type."""
    column: Column = kind.column(name)
    return Key(name, column.type, expr)
