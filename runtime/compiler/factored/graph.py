"""Join graph: which columns of which relations are equal, and which are compared."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from runtime.compiler.factored.polynomial import local, owners
from runtime.compiler.factored.ranges import Condition, condition
from runtime.compiler.factored.tables import Tables, not_null
from runtime.compiler.lower import lower
from runtime.compiler.maps import named_key
from runtime.compiler.operands import Lowered, NotIncremental, as_condition, at_type
from runtime.compiler.types import Type, common_type
from runtime.plan import Call, Expr, Key

__all__ = ["JoinGraph"]


@dataclass(slots=True)
class _Class:
    """Expressions that are equal in every row of the join."""

    members: dict[str, Expr]
    type: Type


class JoinGraph:
    """Members, slots, and ranges of a join."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._classes: list[_Class] = []
        self.conditions: dict[frozenset[str], Condition] = {}
        """Ranges between two members."""
        for part in tables.push_down():
            self._condition(part)
        self.members: dict[str, dict[int, Key]] = {name: {} for name in tables.relations}
        """Keys of each relation by slot: columns that are equal between relations share one slot."""
        self._slots = 0
        self.equal = 0
        """Bound of the slots that members share."""
        for group in self._classes:
            for name, expr in group.members.items():
                self._add_key(name, self._slots, expr, group.type)
            self._slots += 1
        self.equal = self._slots
        for names, compared in self.conditions.items():
            for name in sorted(names):
                self.slot_of(name, compared.key(name), Type("int"))

    def slot_of(self, name: str, expr: Expr, kind: Type) -> int:
        """Return the slot of a member's key for this expression, allocated if it has none."""
        wanted = kind.column("key").type
        for slot, key in self.members[name].items():
            if (key.expr, key.type) == (expr, wanted):
                return slot
        self._add_key(name, self._slots, expr, kind)
        self._slots += 1
        return self._slots - 1

    def _add_key(self, name: str, slot: int, expr: Expr, kind: Type) -> None:
        keys = self.members[name]
        keys[slot] = named_key(expr, kind.column("key").type, [key.name for key in keys.values()])

    # --- conditions

    def _condition(self, node: exp.Expr) -> None:
        if node.find(exp.Query) is not None:
            raise NotIncremental("a subquery")
        if isinstance(node, exp.EQ):
            left, right = lower(node.left, self._tables.column), lower(node.right, self._tables.column)
            left_owners, right_owners = owners(left.expr), owners(right.expr)
            if len(left_owners) == len(right_owners) == 1 and left_owners != right_owners:
                self._equal(left, right)
                return
        test = as_condition(lower(node, self._tables.column))
        if len(owners(test)) > 2:
            raise NotIncremental(f"a condition on {len(owners(test))} relations at once")
        between = condition(test, self._tables)
        for name, key in zip(between.names, between.keys, strict=True):
            self._never_null(name, key)
        pair = frozenset(between.names)
        if pair in self.conditions:
            self.conditions[pair].also(between)
        else:
            self.conditions[pair] = between

    def _equal(self, left: Lowered, right: Lowered) -> None:
        target = common_type((left.type, right.type))
        if target is None or target.kind in ("null", "other"):
            raise NotIncremental("an equality that only DuckDB knows")
        sides = []
        for side in (left, right):
            (name,) = owners(side.expr)
            sides.append((name, local(at_type(side, target))))
            self._never_null(*sides[-1])
        joined = _Class({}, target.with_null(False))
        rest = []
        for group in self._classes:
            if any(group.members.get(name) == expr for name, expr in sides):
                self._join(joined, group.members, group.type)
            else:
                rest.append(group)
        for name, expr in sides:
            self._join(joined, {name: expr}, target)
        self._classes = [*rest, joined]

    def _join(self, into: _Class, members: dict[str, Expr], kind: Type) -> None:
        """Put expressions into a class; two of one relation become a condition on its rows."""
        both = common_type((into.type, kind))
        assert both is not None
        into.type = both.with_null(False)
        for name, expr in members.items():
            known = into.members.setdefault(name, expr)
            if known != expr:
                self._tables.wheres[name].append(Call("eq", (known, expr)))

    def _never_null(self, name: str, expr: Expr) -> None:
        wheres = self._tables.wheres[name]
        if self._tables.is_nullable(name, expr) and not_null(expr) not in wheres:
            wheres.append(not_null(expr))
