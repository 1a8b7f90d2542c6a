"""Linear views: sums and counts over select-project-group-by of one relation, plain SELECTs, UNION ALL of such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.constants import empty_row
from runtime.compiler.lower import lower, lower_key
from runtime.compiler.maps import MapSet, all_of, column_keys, key_name, key_of
from runtime.compiler.operands import Candidate, Lowered, NotIncremental, as_condition, at_type
from runtime.compiler.shapes import group_keys, unique
from runtime.compiler.sums import Sums, accumulate, is_accumulated
from runtime.compiler.types import Type, common_type
from runtime.plan import Branch, Col, Expr, Key, Linear, Relation, Sum

__all__ = ["linear_view"]


@dataclass(slots=True)
class _Arm:
    """One SELECT on its way to a branch."""

    relation: Relation
    outputs: list[Lowered] = field(default_factory=list)
    having: Expr | None = None
    where: list[Expr] = field(default_factory=list)
    keys: list[Key] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)
    bag: bool = False
    has_empty_row: bool = False

    def sum_of(self, expr: Expr) -> Col:
        """The map's sum of this expression, the old one where there is one."""
        for known in self.sums:
            if known.expr == expr:
                return Col(known.name)
        self.sums.append(Sum(unique(f"sum_{len(self.sums) + 1}", [key.name for key in self.keys]), expr))
        return Col(self.sums[-1].name)


def linear_view(tree: exp.Query, relations: Mapping[str, Relation], maps: MapSet, *, zero: bool) -> Candidate:
    """The query as a linear view, its maps added; raises `NotIncremental` with the reason why it is none."""
    arms = [_arm(select, relations, zero=zero) for select in _selects(tree)]
    types = []
    for column in zip(*(arm.outputs for arm in arms), strict=True):
        kind = common_type([value.type for value in column])
        if kind is None or kind.kind == "other":
            raise NotIncremental("UNION ALL of columns of different types")
        types.append(kind)
    ready = [(arm, tuple(at_type(value, kind) for value, kind in zip(arm.outputs, types, strict=True))) for arm in arms]
    branches = []
    for arm, outputs in ready:
        number = maps.add(arm.relation.name, all_of(arm.where), arm.keys, arm.sums)
        sums = [known.name for known in arm.sums]
        empty = empty_row(outputs, arm.having, sums, zero=zero) if arm.has_empty_row else None
        branches.append(Branch(number, outputs, arm.bag, empty, arm.having))
    body = Linear(tuple(branches))
    return Candidate(body, tuple(types), "linear", _reason(body))


def _reason(body: Linear) -> str:
    what = "rows" if all(branch.bag for branch in body.branches) else "SUM, COUNT and AVG"
    many = f"UNION ALL of {len(body.branches)} SELECTs, each " if len(body.branches) > 1 else ""
    return f"{many}{what} over one relation"


def _selects(tree: exp.Expr) -> list[exp.Select]:
    """The arms of a UNION ALL, or the one SELECT."""
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
    for clause, reason in (("distinct", "DISTINCT"), ("qualify", "QUALIFY")):
        if select.args.get(clause):
            raise NotIncremental(reason)
    arm = _Arm(_relation(select, relations))
    where = select.args.get("where")
    if where is not None:
        arm.where.append(as_condition(lower(where.this, lambda node: _column(node, arm.relation))))
    group = select.args.get("group")
    having = select.args.get("having")
    if group is None and having is None and not any(part.find(exp.AggFunc) for part in select.expressions):
        _project(select, arm)
    else:
        _aggregate(select, group_keys(select), arm, zero=zero)
        arm.has_empty_row = group is None
    return arm


def _relation(select: exp.Select, relations: Mapping[str, Relation]) -> Relation:
    start, joins = select.args.get("from_"), select.args.get("joins") or []
    if start is None:
        raise NotIncremental("reads no relation")
    tables = [start.this, *(join.this for join in joins)]
    if any(not isinstance(table, exp.Table) for table in tables):
        raise NotIncremental("a subquery in FROM")
    if joins:
        raise NotIncremental(f"joins {'two' if len(tables) == 2 else len(tables)} relations")
    return relations[start.this.name.lower()]


def _column(node: exp.Expr, relation: Relation) -> Lowered | None:
    if not isinstance(node, exp.Column):
        return None
    for column in relation.columns:
        if column.name == node.name.lower():
            return Lowered(Col(column.name), Type.of(column))
    raise NotIncremental("an unknown column")


def _project(select: exp.Select, arm: _Arm) -> None:
    """A SELECT without aggregates: its map holds the rows it needs, with their number."""
    used: set[str] = set()

    def leaf(node: exp.Expr) -> Lowered | None:
        found = _column(node, arm.relation)
        if found is not None and isinstance(found.expr, Col):
            used.add(found.expr.name)
            return Lowered(Col(key_name(found.expr.name)), found.type)
        return None

    arm.bag = True
    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]
    arm.keys = list(column_keys(arm.relation, used))


def _aggregate(select: exp.Select, group: Sequence[exp.Expr], arm: _Arm, *, zero: bool) -> None:
    known: dict[str, Lowered] = {}
    for node in group:
        value = lower_key(node, lambda inner: _column(inner, arm.relation))
        plain = key_name(value.expr.name) if isinstance(value.expr, Col) else f"key_{len(arm.keys) + 1}"
        key = next((key for key in arm.keys if key == key_of(key.name, value.type, value.expr)), None)
        if key is None:
            key = key_of(unique(plain, [key.name for key in arm.keys]), value.type, value.expr)
            arm.keys.append(key)
        known[node.unnest().sql()] = Lowered(Col(key.name), value.type)

    def leaf(node: exp.Expr) -> Lowered | None:
        key = known.get(node.unnest().sql())
        if key is not None:
            return key
        if is_accumulated(node):
            return accumulate(node, lambda inner: _column(inner, arm.relation), into)
        if isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        return None

    into = _Sums(arm, may_be_empty=not group, zero=zero)
    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]
    having = select.args.get("having")
    arm.having = None if having is None else as_condition(lower(having.this, leaf))


class _Sums(Sums):
    """Sums of an arm's map."""

    def __init__(self, arm: _Arm, *, may_be_empty: bool, zero: bool) -> None:
        super().__init__(may_be_empty=may_be_empty, zero=zero)
        self._arm = arm

    def sum_of(self, expr: Expr | None) -> Expr:
        return Col("weight") if expr is None else self._arm.sum_of(expr)
