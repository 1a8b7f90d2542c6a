"""Subqueries in a condition that aggregate a relation: all its rows, or the rows on one side of the outer row's key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from sqlglot import exp

from runtime.compiler.factored.polynomial import bounded, local, owners
from runtime.compiler.factored.ranges import MIRRORED, Comparison, comparison
from runtime.compiler.factored.tables import Tables, not_null
from runtime.compiler.lower import lower
from runtime.compiler.maps import BaseMaps, Draft, named_key
from runtime.compiler.operands import Lowered, NotIncremental, as_condition
from runtime.compiler.sums import Sums, group_leaf
from runtime.plan import Call, Col, Expr, Relation, columns_read

__all__ = ["Correlated", "Subqueries"]

_INNER = "inner "
"""Name of a subquery's relation; the blank at its end distinguishes it from the aliases of a query."""
_Compare = Literal["lt", "le", "gt", "ge"]


@dataclass(slots=True)
class Correlated:
    """Nested aggregate over the keys of a map that are on one side of the key of the outer row."""

    name: str
    """Name: n1, n2, …"""
    draft: Draft
    """Map of the aggregate."""
    ordered: str
    """Name of the map's only key."""
    compare: _Compare
    """Comparison of the map's key with that of the outer row."""
    owner: str
    """Relation of the outer row."""
    key: Expr
    """Key of the outer row."""
    shift: int
    """Constant added to the key of the outer row before it is compared."""


class Subqueries:
    """Lowering of the subqueries of a view's conditions; a sum has a placeholder until its name is known."""

    def __init__(self, tables: Tables, relations: Mapping[str, Relation], base_maps: BaseMaps, *, zero: bool) -> None:
        self._tables = tables
        self._relations = relations
        self._base_maps = base_maps
        self._zero = zero
        self._known: dict[str, Lowered] = {}
        self.scalars: list[Draft] = []
        """Base maps without keys, of subqueries that aggregate all rows."""
        self.correlated: list[Correlated] = []
        """Nested aggregates."""
        self._placeholders: dict[str, tuple[Correlated | None, Draft, Expr | None]] = {}

    def finals(self) -> dict[str, Expr]:
        """Return the column of each placeholder, once the base maps are finished."""
        return {
            name: Col(f"{f'm{draft.number}' if nested is None else nested.name}.{draft.name_of(expr)}")
            for name, (nested, draft, expr) in self._placeholders.items()
        }

    def nested_in(self, expr: Expr) -> list[Correlated]:
        """Return the nested aggregates that a condition reads."""
        read = sorted(self._placeholders.keys() & set(columns_read(expr)))
        return [nested for name in read if (nested := self._placeholders[name][0]) is not None]

    def lower(self, node: exp.Expr) -> Lowered:
        """Return a subquery's value; equal subqueries share one value."""
        text = node.sql()
        if text not in self._known:
            self._known[text] = self._lower(node.unnest())
        return self._known[text]

    def _lower(self, select: exp.Expr) -> Lowered:
        if not isinstance(select, exp.Select) or len(select.expressions) != 1:
            raise NotIncremental("a subquery that is not an aggregate")
        inner = Tables(select, self._relations, name=_INNER)
        if len(inner.relations) > 1 or select.args.get("group") or select.args.get("having"):
            raise NotIncremental("a subquery with a join, GROUP BY or HAVING")
        compared = self._conditions(inner)
        if compared is not None:
            nested = self._correlated(compared, inner)
            return self._value(select, inner, nested.draft, nested)
        draft = self._base_maps.draft(inner.relations[_INNER], inner.wheres[_INNER], [])
        if draft not in self.scalars:
            self.scalars.append(draft)
        return self._value(select, inner, draft, None)

    def _conditions(self, inner: Tables) -> Comparison | None:
        """Add the conditions on inner rows alone to the inner relation; return the comparison with the outer row."""
        compared: Comparison | None = None
        for part in inner.conditions:
            if part.find(exp.Query) is not None:
                raise NotIncremental("a subquery in a subquery")
            test = as_condition(lower(part, lambda node: (inner if inner.has(node) else self._tables).column(node)))
            names = owners(test)
            if names <= {_INNER}:
                inner.wheres[_INNER].append(local(test))
                continue
            is_first = compared is None and len(names) == 2 and _INNER in names
            if not isinstance(test, Call) or test.op not in get_args(_Compare) or not is_first:
                raise NotIncremental("a subquery that depends on the outer row by anything but one <, <=, > or >=")
            compared = comparison(test)
        return compared

    def _correlated(self, compared: Comparison, inner: Tables) -> Correlated:
        if compared.slopes != (1, -1):
            raise NotIncremental("a subquery that compares anything but a column with a column of the outer row")
        at = compared.names.index(_INNER)
        own, outer, owner = compared.keys[at], compared.keys[1 - at], compared.names[1 - at]
        if not (inner.is_narrow(_INNER, own) and self._tables.is_narrow(owner, outer)):
            raise NotIncremental("a range of a value that is not an integer of 64 bits")
        if self._tables.is_nullable(owner, outer):
            raise NotIncremental("a condition on a column that may be NULL")
        if inner.is_nullable(_INNER, own):
            inner.wheres[_INNER].append(not_null(own))
        # `inner - outer < c` becomes `inner < outer + c`, and `outer - inner < c` becomes `inner > outer - c`.
        op, shift = (compared.op, compared.constant) if at == 0 else (MIRRORED[compared.op], -compared.constant)
        compare = cast(_Compare, op)
        key = named_key(own, "int64", [])
        draft = self._base_maps.draft(inner.relations[_INNER], inner.wheres[_INNER], [key])
        for known in self.correlated:
            same = (known.draft, known.compare, known.owner, known.key, known.shift)
            if same == (draft, compare, owner, outer, shift):
                return known
        name = f"n{len(self.correlated) + 1}"
        self.correlated.append(Correlated(name, draft, key.name, compare, owner, outer, bounded(shift)))
        return self.correlated[-1]

    def _value(self, select: exp.Select, inner: Tables, draft: Draft, nested: Correlated | None) -> Lowered:
        """Return the selected expression over the map's sums."""

        def placeholder(expr: Expr | None) -> Col:
            inside = None if expr is None else local(expr)
            if inside is not None:
                draft.summed.add(inside)
            name = f"?{len(self._placeholders)}"
            self._placeholders[name] = (nested, draft, inside)
            return Col(name)

        part = select.expressions[0].unalias()
        if part.find(exp.AggFunc) is None:
            raise NotIncremental("a subquery that is not an aggregate")
        return lower(part, group_leaf({}, inner.column, Sums(placeholder, may_be_empty=True, zero=self._zero)))
