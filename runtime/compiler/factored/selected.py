"""Sums over those rows of a product of relations that conditions on aggregates select."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.factored.polynomial import Monomial, column_of, local, owners
from runtime.compiler.factored.ranges import is_monotone, line
from runtime.compiler.factored.subqueries import Correlated, Subqueries
from runtime.compiler.factored.tables import Tables, Totals, keys_of
from runtime.compiler.lower import lower
from runtime.compiler.maps import BaseMaps, Draft, MapSet, named_key
from runtime.compiler.operands import Candidate, Lowered, NotIncremental, as_condition
from runtime.plan import Call, Col, Expr, Factor, Key, Lit, Nested, Relation, Selected, Term, columns_read, renamed

__all__ = ["selected_view"]


@dataclass(slots=True)
class _Restricted:
    """Relation, and the conditions on its ordered key."""

    name: str
    """Name of the relation."""
    keys: list[Key] = field(default_factory=list)
    """Keys of its base map: the group keys, and then the ordered key."""
    key: Expr | None = None
    """Expression of the ordered key; None if there is no condition."""
    ordered: str | None = None
    """Name of the ordered key, once it is among the keys."""
    conditions: list[Expr] = field(default_factory=list)
    """Conditions on the ordered key."""


def selected_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """Return the query as a `Selected` body, and add its maps; raise `NotIncremental` with the reason if impossible."""
    tables = Tables(tree, relations)
    if not any(part.find(exp.Query) for part in tables.conditions):
        raise NotIncremental("no condition on aggregates")
    base_maps = BaseMaps()
    subqueries = Subqueries(tables, relations, base_maps, zero=zero)
    factors = {name: _Restricted(name) for name in tables.relations}
    free: list[Expr] = []
    for part in tables.push_down():
        if part.find(exp.Query) is None:
            raise NotIncremental("a join besides conditions on aggregates")
        free += _condition(part, tables, subqueries, factors)
    if free:  # conditions that read no relation fit any factor; a factor without an ordered key gets a constant key
        factor = next((factor for factor in factors.values() if factor.key is not None), next(iter(factors.values())))
        factor.key = factor.key or Lit(0)
        factor.conditions += free
    keys: dict[str, Lowered] = {}
    for sql, value in keys_of(tables):
        if value.type.nullable:  # an ordered index holds no group whose key is NULL
            raise NotIncremental("GROUP BY of a value that may be NULL, with a condition on aggregates")
        keys[sql] = Lowered(_group(value, factors), value.type)
    totals = Totals(tables, keys, lambda number: f"sum_{number}", zero=zero)
    drafts: dict[str, Draft] = {}
    for name, factor in factors.items():
        if factor.key is not None:  # the ordered key is a key of its own, even if it is a group key too
            factor.keys.append(named_key(factor.key, "int64", [known.name for known in factor.keys]))
            factor.ordered = factor.keys[-1].name
        drafts[name] = base_maps.draft(tables.relations[name], tables.wheres[name], factor.keys)
    totals.require(drafts)
    base_maps.finish(maps)
    finals = subqueries.finals()
    body = Selected(
        tuple(_factor(factor, drafts[name], subqueries.correlated, finals) for name, factor in factors.items()),
        tuple(sorted({draft.number for draft in subqueries.scalars})),
        tuple(column_of(factor.name, key.name).name
              for factor in factors.values() for key in factor.keys if key.name != factor.ordered),
        tuple((name, tuple(_term(monomial, drafts) for monomial in monomials))
              for name, monomials in totals.sums.items()),
        totals.outputs,
        totals.having,
        totals.empty,
    )  # fmt: skip
    return Candidate(body, totals.types, "ordered", _reason(body))


def _condition(node: exp.Expr, tables: Tables, subqueries: Subqueries, factors: dict[str, _Restricted]) -> list[Expr]:
    """Add a condition to the only relation that it reads; return its conjuncts if it reads no relation."""

    def leaf(inner: exp.Expr) -> Lowered | None:
        return subqueries.lower(inner) if isinstance(inner, exp.Query) else tables.column(inner)

    test = as_condition(lower(node, leaf))
    nested = subqueries.nested_in(test)
    direct = [name for name in columns_read(test) if not name.startswith("?")]
    names = {name.partition(".")[0] for name in direct} | {inner.owner for inner in nested}
    if len(names) > 1:
        raise NotIncremental("a condition on aggregates and on several relations")
    if not names:
        return _conjuncts(test)
    factor = factors[names.pop()]
    keys = {inner.key for inner in nested} | {Col(name.partition(".")[2]) for name in direct}
    if factor.key is not None:
        keys.add(factor.key)
    if len(keys) != 1:
        raise NotIncremental("conditions on several columns of one relation")
    factor.key = keys.pop()
    if not tables.is_narrow(factor.name, factor.key) or tables.is_nullable(factor.name, factor.key):
        raise NotIncremental("a condition on a column that is not an integer or may be NULL")
    factor.conditions += _conjuncts(test)
    return []


def _conjuncts(expr: Expr) -> list[Expr]:
    if isinstance(expr, Call) and expr.op == "and":
        return [part for arg in expr.args for part in _conjuncts(arg)]
    return [_plain(expr)]


def _plain(expr: Expr) -> Expr:
    """Return an expression without factors of 1, which the conversion of scales adds."""
    if not isinstance(expr, Call):
        return expr
    args = tuple(_plain(arg) for arg in expr.args)
    if expr.op == "mul" and Lit(1) in args:
        return next((arg for arg in args if arg != Lit(1)), args[0])
    return Call(expr.op, args)


def _group(value: Lowered, factors: dict[str, _Restricted]) -> Col:
    """Return the key for a GROUP BY expression."""
    names = owners(value.expr)
    if len(names) != 1:
        raise NotIncremental("GROUP BY something that is not of one relation")
    factor = factors[names.pop()]
    expr, kind = local(value.expr), value.type.column("key").type
    for key in factor.keys:
        if (key.expr, key.type) == (expr, kind):
            return column_of(factor.name, key.name)
    factor.keys.append(named_key(expr, kind, [key.name for key in factor.keys]))
    return column_of(factor.name, factor.keys[-1].name)


def _factor(factor: _Restricted, draft: Draft, correlated: list[Correlated], finals: dict[str, Expr]) -> Factor:
    nested: list[Nested] = []
    final = dict(finals)
    directions: dict[str, int] = {}
    if factor.ordered is not None:
        own = column_of(factor.name, factor.ordered)
        directions[own.name] = 1
        if isinstance(factor.key, Col):
            final[column_of(factor.name, factor.key.name).name] = own
        for inner in correlated:
            if inner.owner != factor.name:
                continue
            nested.append(
                Nested(inner.name, inner.draft.number, inner.ordered, inner.compare, line(1, own, inner.shift))
            )
            way = 1 if inner.compare in ("lt", "le") else -1
            names = ["weight", *(total.name for total in inner.draft.sums)]
            directions |= {column_of(inner.name, name).name: way for name in names}
    conditions = tuple(renamed(test, final) for test in factor.conditions)
    monotone = all(is_monotone(test, directions) for test in conditions)
    return Factor(factor.name, draft.number, factor.ordered, tuple(nested), conditions, monotone)


def _term(monomial: Monomial, drafts: Mapping[str, Draft]) -> Term:
    product = dict(monomial.product)
    columns = tuple(column_of(name, draft.name_of(product.get(name))).name for name, draft in drafts.items())
    return Term(monomial.coefficient, columns)


def _reason(body: Selected) -> str:
    keys = ", ".join(sorted({factor.ordered.rstrip("_") for factor in body.factors if factor.ordered is not None}))
    what = "one relation" if len(body.factors) == 1 else f"the product of {len(body.factors)} relations"
    by = "sums of all keys on one side" if any(factor.nested for factor in body.factors) else "totals"
    return f"sums over {what}, selected by {keys} compared with {by}"
