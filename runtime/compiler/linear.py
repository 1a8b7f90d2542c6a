"""Linear views: SUM, COUNT and AVG over select-project-group-by of one relation, plain SELECTs, UNION ALL of such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from runtime.compiler.candidate import Candidate
from runtime.compiler.lower import Lowered, NotIncremental, at_type, lower
from runtime.compiler.maps import MapSet, all_of, column_keys, key_name, key_of
from runtime.compiler.program import Branch, Call, Col, Expr, Key, Linear, Lit, Relation, Sum
from runtime.compiler.types import INT, Type, common_type

__all__ = ["linear_view"]

Value = int | float | str | bool | None


@dataclass(slots=True)
class _Arm:
    """One SELECT on its way to a branch."""

    relation: Relation
    outputs: list[Lowered] = field(default_factory=list)
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
        self.sums.append(Sum(f"sum_{len(self.sums) + 1}", expr))
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
        nothing: dict[str, Value] = {known.name: 0 if zero else None for known in arm.sums}
        empty = tuple(_evaluate(output, {**nothing, "weight": 0}) for output in outputs) if arm.has_empty_row else None
        branches.append(Branch(number, outputs, arm.bag, empty))
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
    for clause, reason in (("distinct", "DISTINCT"), ("having", "HAVING"), ("qualify", "QUALIFY")):
        if select.args.get(clause):
            raise NotIncremental(reason)
    arm = _Arm(_relation(select, relations))
    where = select.args.get("where")
    if where is not None:
        arm.where.append(lower(where.this, lambda node: _column(node, arm.relation)).expr)
    group = select.args.get("group")
    if group is None and not any(part.find(exp.AggFunc) for part in select.expressions):
        _project(select, arm)
    else:
        _aggregate(select, [] if group is None else _group(select, group), arm, zero=zero)
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
        if isinstance(node, exp.Div):
            return _quotient(lower(node.left, leaf), lower(node.right, leaf))
        found = _column(node, arm.relation)
        if found is not None and isinstance(found.expr, Col):
            used.add(found.expr.name)
            return Lowered(Col(key_name(found.expr.name)), found.type)
        return None

    arm.bag = True
    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]
    arm.keys = list(column_keys(arm.relation, used))


def _group(select: exp.Select, group: exp.Group) -> list[exp.Expr]:
    if group.args.get("all"):
        return [part.unalias() for part in select.expressions if part.find(exp.AggFunc) is None]
    return list(group.expressions)


def _aggregate(select: exp.Select, group: Sequence[exp.Expr], arm: _Arm, *, zero: bool) -> None:
    known: dict[str, Lowered] = {}
    for node in group:
        value = lower(node, lambda inner: _column(inner, arm.relation))
        if value.type.kind in ("null", "other"):
            raise NotIncremental("GROUP BY a constant NULL")
        plain = key_name(value.expr.name) if isinstance(value.expr, Col) else f"key_{len(arm.keys) + 1}"
        key = key_of(plain, value.type, value.expr)
        if key not in arm.keys:
            arm.keys.append(key)
        known[node.unnest().sql()] = Lowered(Col(plain), value.type)

    def leaf(node: exp.Expr) -> Lowered | None:
        key = known.get(node.unnest().sql())
        if key is not None:
            return key
        if isinstance(node, exp.Column):
            raise NotIncremental("a column that is neither grouped nor summed")
        if isinstance(node, exp.Div):
            return _quotient(lower(node.left, leaf), lower(node.right, leaf))
        if isinstance(node, exp.Count):
            return _count(node, arm)
        if isinstance(node, (exp.Sum, exp.Avg)):
            return _sum(node, arm, may_be_empty=not group, zero=zero)
        if isinstance(node, (exp.Min, exp.Max)):
            raise NotIncremental("MIN/MAX is not a sum")
        return None

    arm.outputs = [lower(part.unalias(), leaf) for part in select.expressions]


def _count(node: exp.Count, arm: _Arm) -> Lowered:
    if isinstance(node.this, exp.Distinct):
        raise NotIncremental("COUNT(DISTINCT) is not a sum")
    counted = None if node.this is None or isinstance(node.this, exp.Star) else node.this
    if counted is not None and lower(counted, lambda inner: _column(inner, arm.relation)).type.nullable:
        raise NotIncremental("COUNT of what may be NULL")
    return Lowered(Col("weight"), INT)


def _sum(node: exp.Sum | exp.Avg, arm: _Arm, *, may_be_empty: bool, zero: bool) -> Lowered:
    name = node.key.upper()
    if isinstance(node.this, exp.Distinct):
        raise NotIncremental(f"{name}(DISTINCT) is not a sum")
    if node.this.find(exp.AggFunc) is not None:
        raise NotIncremental("nested aggregate")
    value = lower(node.this, lambda inner: _column(inner, arm.relation))
    if value.type.kind != "int":
        raise NotIncremental(f"{value.type} {name}: floats cannot be taken back exactly")
    if value.type.nullable:
        raise NotIncremental(f"{name} of what may be NULL")
    total = Lowered(arm.sum_of(value.expr), Type("int", value.type.scale, True, may_be_empty and not zero))
    if isinstance(node, exp.Sum):
        return total
    return _quotient(total, Lowered(Col("weight"), INT), never_zero=not may_be_empty)


def _quotient(left: Lowered, right: Lowered, *, never_zero: bool = False) -> Lowered:
    """Real division of an output: NULL where the divisor is 0."""
    target = common_type((left.type, right.type))
    if target is None or not target.is_numeric:
        raise NotIncremental("arithmetic that only DuckDB knows")
    divided = Call("div", (at_type(left, target), at_type(right, target)))
    return Lowered(divided, Type("float64", nullable=not never_zero or target.nullable))


def _evaluate(expr: Expr, row: Mapping[str, Value]) -> Value:
    """An output's value for the row of an empty group; only constants, 0 and NULL come in."""
    if isinstance(expr, Col):
        return row[expr.name]
    if isinstance(expr, Lit):
        return expr.value
    left, *others = [_evaluate(arg, row) for arg in expr.args]
    right = others[0] if others else 0
    if expr.op in ("and", "or", "not"):
        return _logic(expr.op, left, right)
    if left is None or right is None:
        return None
    assert isinstance(left, (int, float))
    assert isinstance(right, (int, float))
    return _operate(expr.op, left, right)


def _logic(op: str, left: Value, right: Value) -> Value:
    if op == "not":
        return None if left is None else not left
    decisive = op == "or"
    if left is decisive or right is decisive:
        return decisive
    return None if left is None or right is None else not decisive


def _operate(op: str, left: int | float, right: int | float) -> Value:
    if op in ("div", "floordiv", "mod") and right == 0:
        return None
    table: dict[str, Value] = {
        "add": left + right, "sub": left - right, "mul": left * right, "neg": -left, "eq": left == right,
        "ne": left != right, "lt": left < right, "le": left <= right, "gt": left > right, "ge": left >= right,
    }  # fmt: skip
    if op in table:
        return table[op]
    if op == "div":
        return left / right
    whole = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return whole if op == "floordiv" else left - whole * right
