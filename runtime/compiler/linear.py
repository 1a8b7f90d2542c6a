"""Linear views: sums and counts over groups of a relation's rows, SELECTs without aggregates, UNION ALL of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.constants import empty_row
from runtime.compiler.lower import Leaf, columns_leaf, lower, lower_key
from runtime.compiler.maps import MapSet, column_keys, key_name, key_of, unique
from runtime.compiler.operands import Candidate, Lowered, NotIncremental, alike, as_condition
from runtime.compiler.parse import group_keys
from runtime.compiler.sums import Sums, group_leaf
from runtime.compiler.types import types_of
from runtime.plan import Branch, Col, Expr, Key, Linear, Relation, Sum

__all__ = ["linear_view"]


@dataclass(slots=True)
class _Arm:
    """SELECT that becomes a branch."""

    relation: Relation
    """Relation that it reads."""
    where: Expr | None
    """Condition on the rows."""
    outputs: list[Lowered] = field(default_factory=list)
    """Selected expressions, over the keys and sums of the map."""
    having: Expr | None = None
    """Condition on the groups."""
    keys: list[Key] = field(default_factory=list)
    """Keys of the map."""
    sums: list[Sum] = field(default_factory=list)
    """Sums of the map."""
    bag: bool = False
    """True for a SELECT without aggregates."""
    has_empty_row: bool = False
    """True for a SELECT with aggregates and without GROUP BY, which returns a row even if it reads no rows."""

    def sum_of(self, expr: Expr | None) -> Col:
        """Return the map's sum of this expression, or the weight for None; add the sum if it is missing."""
        if expr is None:
            return Col("weight")
        for known in self.sums:
            if known.expr == expr:
                return Col(known.name)
        self.sums.append(Sum(unique(f"sum_{len(self.sums) + 1}", [key.name for key in self.keys]), expr))
        return Col(self.sums[-1].name)


def linear_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """Return the query as a linear view, and add its maps; raise `NotIncremental` with the reason if impossible."""
    arms = [_arm(select, relations, zero=zero) for select in _selects(tree)]
    columns = [alike(values, "UNION ALL of columns") for values in zip(*(arm.outputs for arm in arms), strict=True)]
    branches = []
    for place, arm in enumerate(arms):
        outputs = tuple(parts[place] for _, parts in columns)
        number = maps.add(arm.relation.name, arm.where, arm.keys, arm.sums)
        sums = [known.name for known in arm.sums]
        empty = empty_row(outputs, arm.having, sums, zero=zero) if arm.has_empty_row else None
        branches.append(Branch(number, outputs, arm.bag, empty, arm.having))
    body = Linear(tuple(branches))
    return Candidate(body, tuple(kind for kind, _ in columns), "linear", _reason(body))


def _reason(body: Linear) -> str:
    what = "rows" if all(branch.bag for branch in body.branches) else "SUM, COUNT and AVG"
    many = f"UNION ALL of {len(body.branches)} SELECTs, each " if len(body.branches) > 1 else ""
    return f"{many}{what} over one relation"


def _selects(tree: exp.Expr) -> list[exp.Select]:
    """Return the arms of a UNION ALL, or the one SELECT."""
    tree = tree.unnest()
    if tree.args.get("with_"):
        raise NotIncremental("WITH")
    if tree.args.get("limit") or tree.args.get("offset"):
        raise NotIncremental("LIMIT")
    if isinstance(tree, exp.Union):
        if tree.args.get("distinct"):
            raise NotIncremental("UNION without ALL")
        return [*_selects(tree.left), *_selects(tree.right)]
    if not isinstance(tree, exp.Select):
        raise NotIncremental(tree.key.upper())
    return [tree]


def _arm(select: exp.Select, relations: Mapping[str, Relation], *, zero: bool) -> _Arm:
    for clause, reason in (("distinct", "DISTINCT"), ("qualify", "QUALIFY"), ("joins", "a join")):
        if select.args.get(clause):
            raise NotIncremental(reason)
    start, where = select.args.get("from_"), select.args.get("where")
    if start is None or not isinstance(start.this, exp.Table):
        raise NotIncremental("reads no relation, or a subquery in FROM")
    relation = relations[start.this.name.lower()]
    columns = columns_leaf(types_of(relation))
    arm = _Arm(relation, None if where is None else as_condition(lower(where.this, columns)))
    group, having = select.args.get("group"), select.args.get("having")
    if group is None and having is None and not any(part.find(exp.AggFunc) for part in select.expressions):
        _project(select, arm, columns)
    else:
        _aggregate(select, arm, columns, zero=zero)
        arm.has_empty_row = group is None
    return arm


def _project(select: exp.Select, arm: _Arm, columns: Leaf) -> None:
    """Lower a SELECT without aggregates: the keys of the map are the columns that the SELECT reads."""
    used: set[str] = set()

    def leaf(node: exp.Expr) -> Lowered | None:
        column = columns(node)
        if column is not None and isinstance(column.expr, Col):
            used.add(column.expr.name)
            return Lowered(Col(key_name(column.expr.name)), column.type)
        return None

    arm.bag = True
    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]
    arm.keys = list(column_keys(arm.relation, used))


def _aggregate(select: exp.Select, arm: _Arm, columns: Leaf, *, zero: bool) -> None:
    group, having = group_keys(select), select.args.get("having")
    known: dict[str, Lowered] = {}
    for node in group:
        value = lower_key(node, columns)
        plain = key_name(value.expr.name) if isinstance(value.expr, Col) else f"key_{len(arm.keys) + 1}"
        key = next((key for key in arm.keys if key == key_of(key.name, value.type, value.expr)), None)
        if key is None:
            key = key_of(unique(plain, [key.name for key in arm.keys]), value.type, value.expr)
            arm.keys.append(key)
        known[node.unnest().sql()] = Lowered(Col(key.name), value.type)
    leaf = group_leaf(known, columns, Sums(arm.sum_of, may_be_empty=not group, zero=zero))
    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]
    arm.having = None if having is None else as_condition(lower(having.this, leaf))
