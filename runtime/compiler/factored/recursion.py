"""The graph of a join, and its higher-order deltas: auxiliary maps, and how the delta of each relation changes them.

The delta of one relation binds the columns of that relation. The other relations of the join then fall into parts that
have no unbound column in common. Each part has its own look-up: a single relation in its base map, several relations in
an auxiliary map of their join. An auxiliary map is maintained in the same way. The recursion ends because the join of a
part is smaller than the join that contains the part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlglot import exp

from runtime.compiler.factored.polynomial import Monomial, Product, bounded, column_of, local, owners
from runtime.compiler.factored.ranges import RangeCondition, condition
from runtime.compiler.factored.tables import Tables, not_null
from runtime.compiler.lower import lower
from runtime.compiler.maps import Draft, named_key, unique
from runtime.compiler.operands import Lowered, NotIncremental, as_condition, at_type
from runtime.compiler.types import Type, common_type
from runtime.plan import Auxiliary, Call, Col, ColumnType, Expr, Key, Lookup, Statement, Term

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["JoinGraph", "Recursion"]


@dataclass(slots=True)
class _Class:
    """Expressions that are equal in every row of the join."""

    members: dict[str, Expr]
    """Relation → its expression in this class, over its own columns."""
    type: Type
    """Type in which the expressions are compared."""


class JoinGraph:
    """Graph of a join: its relations (members), the keys of each relation by slot, and the ranges between relations."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._classes: list[_Class] = []
        self.conditions: dict[frozenset[str], RangeCondition] = {}
        """Pair of members → ranges between them."""
        for part in tables.push_down():
            self._condition(part)
        self.members: dict[str, dict[int, Key]] = {name: {} for name in tables.relations}
        """Keys of each relation by slot: columns that are equal between relations share one slot."""
        self._slots = 0
        self.equal = 0
        """Number of the slots that members share by equality; these slots come first."""
        for group in self._classes:
            for name, expr in group.members.items():
                self._add_key(name, self._slots, expr, group.type)
            self._slots += 1
        self.equal = self._slots
        for names, compared in self.conditions.items():
            for name in sorted(names):
                self.slot_of(name, compared.key(name), Type("int"))

    def slot_of(self, name: str, expr: Expr, kind: Type) -> int:
        """Return the slot of a member's key for this expression; the key is added if it is missing."""
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
            raise NotIncremental("an equality that only DuckDB supports")
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
        """Add expressions to a class; for two expressions of one relation, add their equality as a condition."""
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


_MOST = 64
"""Greatest number of auxiliary maps; more of them would cost more than they save."""


@dataclass(slots=True, eq=False)
class _Join:
    """Auxiliary map under construction."""

    name: str
    """Name of the map."""
    covers: tuple[str, ...]
    """Members that it joins."""
    slots: tuple[int, ...]
    """Slots of its keys."""
    key_names: tuple[str, ...]
    """Names of its keys."""
    types: tuple[ColumnType, ...]
    """Types of its keys."""
    sums: dict[str, tuple[Monomial, ...]] = field(default_factory=dict)
    """Summands by the name of the sum."""

    def sum_of(self, product: Product) -> str:
        """Return the name of the sum of this product; the weight for the empty product."""
        if not product:
            return "weight"
        wanted = (Monomial(1, product),)
        for name, known in self.sums.items():
            if known == wanted:
                return name
        name = unique(f"sum_{len(self.sums) + 1}", [*self.key_names, *self.sums])
        self.sums[name] = wanted
        return name


@dataclass(frozen=True, slots=True)
class _Part:
    """Part of a join that one look-up of a statement covers."""

    covers: tuple[str, ...]
    """Members of the part."""
    lookup: Lookup
    """The look-up."""
    join: _Join | None
    """Auxiliary map that the look-up reads; None for a base map."""
    bound: dict[int, str]
    """Slot → column that the look-up binds."""


class Recursion:
    """Maker of the auxiliary maps of one join."""

    def __init__(self, graph: JoinGraph, drafts: dict[str, Draft]) -> None:
        self._graph = graph
        self._drafts = drafts
        self._order = list(drafts)
        self._joins: dict[tuple[tuple[str, ...], tuple[int, ...]], _Join] = {}

    def auxiliaries(
        self, slots: Sequence[int], names: Sequence[str], sums: dict[str, tuple[Monomial, ...]]
    ) -> tuple[Auxiliary, ...]:
        """Return all auxiliary maps, the maps of smaller joins first.

        The last map is the result: its keys are ``slots``, with these ``names``, and its sums are ``sums``.
        """
        result = self._new(tuple(self._order), tuple(slots), tuple(names), unique("result", self._order))
        result.sums = sums
        done: list[Auxiliary] = []
        open_: list[_Join] = [result]
        while open_:
            open_.sort(key=lambda join: len(join.covers))
            join = open_.pop()
            known = len(self._joins)
            statements = tuple(self._statement(join, trigger) for trigger in join.covers)
            open_ += list(self._joins.values())[known:]
            keys = tuple(zip(join.key_names, join.types, strict=True))
            done.append(Auxiliary(join.name, join.covers, keys, tuple(join.sums), statements))
        done.reverse()
        numbers = {auxiliary.name: number for number, auxiliary in enumerate(done)}

        def numbered(lookup: Lookup) -> Lookup:
            return replace(lookup, source=numbers[lookup.name]) if lookup.auxiliary else lookup

        return tuple(auxiliary.with_lookups(numbered) for auxiliary in done)

    def _new(self, covers: tuple[str, ...], slots: tuple[int, ...], names: tuple[str, ...], name: str) -> _Join:
        if len(self._joins) >= _MOST:
            raise NotIncremental(f"a join that would need more than {_MOST} auxiliary maps")
        types = tuple(self._key_type(slot) for slot in slots)
        self._joins[covers, slots] = _Join(name, covers, slots, names, types)
        return self._joins[covers, slots]

    def _join(self, covers: tuple[str, ...], slots: tuple[int, ...]) -> _Join:
        known = self._joins.get((covers, slots))
        if known is not None:
            return known
        names: list[str] = []
        for slot in slots:
            holder = next(self._graph.members[name] for name in covers if slot in self._graph.members[name])
            names.append(unique(holder[slot].name, names))
        taken = [*self._order, *(join.name for join in self._joins.values())]
        return self._new(covers, slots, tuple(names), unique("_".join(covers), taken))

    def _key_type(self, slot: int) -> ColumnType:
        return next(member[slot].type for member in self._graph.members.values() if slot in member)

    # --- statements

    def _statement(self, join: _Join, trigger: str) -> Statement:
        keys = self._graph.members[trigger]
        bound = {slot: column_of(trigger, key.name).name for slot, key in keys.items()}
        parts = [self._part(join, trigger, covers, bound) for covers in self._parts(join.covers, trigger)]
        for part in parts:
            bound |= part.bound
        sums = tuple(self._terms(parts, trigger, monomials) for monomials in join.sums.values())
        (weight,) = self._terms(parts, trigger, (Monomial(1, ()),))
        lookups = tuple(part.lookup for part in parts)
        return Statement(trigger, lookups, None, tuple(bound[slot] for slot in join.slots), weight, sums)

    def _parts(self, covers: Iterable[str], trigger: str) -> list[tuple[str, ...]]:
        """Return the other members of the join, in parts that are connected only through columns of the trigger."""
        bound = self._graph.members[trigger].keys()
        parts: list[list[str]] = []
        for name in covers:
            if name == trigger:
                continue
            near = [part for part in parts if any(self._connected(name, other, bound) for other in part)]
            parts = [part for part in parts if part not in near] + [[*(each for part in near for each in part), name]]
        return [tuple(sorted(part, key=self._order.index)) for part in parts]

    def _connected(self, left: str, right: str, bound: Iterable[int]) -> bool:
        shared = self._graph.members[left].keys() & self._graph.members[right].keys()
        return bool(shared - set(bound)) or frozenset((left, right)) in self._graph.conditions

    def _part(self, join: _Join, trigger: str, covers: tuple[str, ...], bound: dict[int, str]) -> _Part:
        slots = {slot for name in covers for slot in self._graph.members[name]}
        on = sorted(slot for slot in slots & bound.keys() if slot < self._graph.equal)
        out = sorted(slot for slot in slots.intersection(join.slots) - bound.keys())
        ranges = [frozenset((trigger, name)) for name in covers if frozenset((trigger, name)) in self._graph.conditions]
        if len(covers) == 1:
            return self._base(trigger, covers[0], on, out, bound)
        if ranges:
            raise NotIncremental("a range between a relation and a join of others")
        source = self._join(covers, tuple(sorted((*on, *out))))
        names = dict(zip(source.slots, source.key_names, strict=True))
        binds = tuple(names[slot] for slot in source.slots if slot not in on) if out else ()
        pairs = tuple((names[slot], bound[slot]) for slot in on)
        lookup = Lookup(source.name, -1, True, pairs, binds)
        return _Part(covers, lookup, source, {slot: f"{source.name}.{names[slot]}" for slot in out})

    def _base(self, trigger: str, name: str, on: list[int], out: list[int], bound: dict[int, str]) -> _Part:
        keys = self._graph.members[name]
        pairs = tuple((keys[slot].name, bound[slot]) for slot in on)
        condition = self._graph.conditions.get(frozenset((trigger, name)))
        free = [slot for slot in keys if slot not in on]
        if condition is None:
            binds = tuple(keys[slot].name for slot in free) if out else ()
            lookup = Lookup(name, self._drafts[name].number, False, pairs, binds)
            return _Part((name,), lookup, None, {slot: column_of(name, keys[slot].name).name for slot in out})
        ordered = next((slot for slot in free if keys[slot].expr == condition.key(name)), None)
        if out or ordered is None or free != [ordered]:
            raise NotIncremental("a range of one column of a relation that is also joined or grouped by another")
        own = next(key for key in self._graph.members[trigger].values() if key.expr == condition.key(trigger))
        ranges = condition.ranges(name, Col(column_of(trigger, own.name).name))
        number = self._drafts[name].number
        return _Part((name,), Lookup(name, number, False, pairs, (), keys[ordered].name, ranges), None, {})

    def _terms(self, parts: list[_Part], trigger: str, monomials: tuple[Monomial, ...]) -> tuple[Term, ...]:
        totals: dict[tuple[str, ...], int] = {}
        for monomial in monomials:
            columns = [self._factor(trigger, monomial.product)]
            for part in parts:
                if part.join is None:
                    columns.append(self._factor(part.covers[0], monomial.product))
                else:
                    inner = tuple(factor for factor in monomial.product if factor[0] in part.covers)
                    columns.append(f"{part.join.name}.{part.join.sum_of(inner)}")
            key = tuple(columns)
            totals[key] = totals.get(key, 0) + monomial.coefficient
        terms = tuple(Term(bounded(factor), key) for key, factor in totals.items() if factor)
        return terms or (Term(0, ()),)  # for example for SUM(a - a)

    def _factor(self, name: str, product: Product) -> str:
        expr = dict(product).get(name)
        return column_of(name, self._drafts[name].name_of(expr)).name
