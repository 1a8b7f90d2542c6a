"""Steps that follow others: checks what goes together, and says what order and instances come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from runtime.compiler.operands import Lowered
from runtime.engine.operators.columns import matched, type_of
from runtime.engine.operators.counting import Limit, RowNumber
from runtime.engine.operators.errors import PlanError
from runtime.engine.operators.joins.asof import AsofJoin
from runtime.engine.operators.joins.lookup import Index, LookupJoin, LookupKind, UpdatableIndex
from runtime.engine.operators.joins.merge import JoinKind, MergeJoin, join_schema
from runtime.engine.operators.operator import MOST_ROWS
from runtime.engine.operators.plans.expressions import column_of, schema_of
from runtime.engine.operators.plans.steps import Step
from runtime.engine.operators.rowwise import Filter, Project, Union
from runtime.engine.operators.sorting import MOST_HELD, Sort
from runtime.engine.operators.unnest import Unnest
from runtime.plan import Col, Expr

__all__ = [
    "Bounds",
    "asof_joined",
    "filtered",
    "joined",
    "limited",
    "looked_up",
    "numbered",
    "projected",
    "sorted_by",
    "united",
    "unnested",
]

On = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a step may hold and give out at a time."""

    most_rows: int = MOST_ROWS
    """Rows of an output batch."""
    most_held: int = MOST_HELD
    """Rows that an operator holds."""


def filtered(step: Step, where: Expr, text: str, bounds: Bounds) -> Step:
    """The rows for which the condition is true."""
    schema = step.schema
    return Step("operator", f"filter {text}", schema, (step,),
                lambda place: Filter(schema, where, most_rows=bounds.most_rows),
                step.order, step.instances, step.spread)  # fmt: skip


def projected(step: Step, outputs: Sequence[tuple[str, Lowered]], text: str, bounds: Bounds) -> Step:
    """Expressions as columns."""
    schema = schema_of(outputs, step.schema)
    exprs = [value.expr for _, value in outputs]
    names: dict[str, str] = {}
    for name, value in outputs:
        if isinstance(value.expr, Col):
            names.setdefault(value.expr.name, name)
    order: list[str] = []
    for column in step.order:
        if column not in names:
            break
        order.append(names[column])
    spread = tuple(names[key] for key in step.spread) if all(key in names for key in step.spread) else ()
    return Step("operator", f"project {text}", schema, (step,),
                lambda place: Project(schema, exprs, most_rows=bounds.most_rows),
                tuple(order), step.instances, spread)  # fmt: skip


def sorted_by(step: Step, keys: Sequence[str], bounds: Bounds) -> Step:
    """Sorted by these columns, if it is not known to be."""
    for key in keys:
        _orderable(step.schema, key)
    keys = tuple(keys)
    if step.order[: len(keys)] == keys:
        return step
    schema = step.schema
    return Step("operator", f"sort by {', '.join(keys)}", schema, (step,),
                lambda place: Sort(schema, keys, most_rows=bounds.most_rows, most_held=bounds.most_held),
                keys, step.instances, step.spread, state="holds the rows of the epoch")  # fmt: skip


def joined(left: Step, right: Step, on: On, kind: JoinKind, bounds: Bounds) -> Step:
    """Sort-merge join; what is not sorted yet is sorted."""
    _check_on(left, right, on)
    if not on:
        raise PlanError(f"expected columns that must be equal for a {kind} join, was none")
    instances = _same_instances((left, right), "join")
    _check_spread(left, right, on, "join")
    mine, theirs = tuple(one for one, _ in on), tuple(other for _, other in on)
    schema = join_schema(kind, left.schema, right.schema)
    sides = (sorted_by(left, mine, bounds), sorted_by(right, theirs, bounds))
    text = ", ".join(f"{one} = {other}" for one, other in on)
    order = theirs if kind == "right" else () if kind == "full" else mine
    return Step(
        "operator", f"merge join {kind} on {text}", schema, sides,
        lambda place: MergeJoin(kind, left.schema, right.schema, mine, theirs, most_rows=bounds.most_rows,
                                most_held=bounds.most_held),
        order, instances, right.spread if kind == "right" else () if kind == "full" else left.spread,
        state="holds the rows of the input that is ahead",
    )  # fmt: skip


def asof_joined(
    left: Step,
    right: Step,
    on: tuple[str, str],
    by: On,
    bounds: Bounds,
    *,
    outer: bool,
    tolerance: int | timedelta | None,
    keep: bool,
) -> Step:
    """As-of join; what is not sorted yet is sorted."""
    _check_on(left, right, [on, *by])
    instances = _same_instances((left, right), "as-of join")
    _check_spread(left, right, by, "as-of join")
    schema = matched(left.schema, right.schema, left_optional=False, right_optional=outer)
    sides = (sorted_by(left, on[:1], bounds), sorted_by(right, on[1:], bounds))
    text = ", ".join(f"{one} = {other}" for one, other in by)
    label = f"as-of join {'left ' if outer else ''}on {on[0]} ≥ {on[1]}" + (f" by {text}" if by else "")
    label += "" if tolerance is None else f" within {tolerance}"
    state = "holds rows the right input has not passed, and the last right row of each key"
    return Step(
        "operator", label, schema, sides,
        lambda place: AsofJoin(left.schema, right.schema, on, by, outer=outer, tolerance=tolerance, keep=keep,
                               name=place.name, space=place.space, most_rows=bounds.most_rows,
                               most_held=bounds.most_held),
        sides[0].order, instances, left.spread, state=state + (", which it keeps" if keep else ""),
    )  # fmt: skip


def looked_up(
    step: Step,
    index: Index,
    keys: Sequence[str],
    kind: LookupKind,
    bounds: Bounds,
    *,
    updates: Step | None,
    batch_rows: int,
    most_in_flight: int,
) -> Step:
    """Index lookup join."""
    for key, other in zip(keys, index.keys, strict=False):
        _check_pair(step.schema, key, index.schema, other)
    if updates is not None and not isinstance(index, UpdatableIndex):
        raise PlanError(f"expected an index that can be changed, was {type(index).__name__}")
    schema = step.schema

    def make(place: object = None) -> LookupJoin:
        return LookupJoin(schema, index, keys, kind, updates=updates is not None, batch_rows=batch_rows,
                          most_in_flight=most_in_flight, most_rows=bounds.most_rows)  # fmt: skip

    inputs = (step,) if updates is None else (step, updates)
    if _same_instances(inputs, "look-up") > 1 and updates is not None:
        raise PlanError("expected one instance of a look-up that changes its index, was several")
    text = ", ".join(f"{one} = {other}" for one, other in zip(keys, index.keys, strict=False))
    state = "holds rows whose look-ups are in flight" + (", keeps its index" if updates is not None else "")
    return Step("operator", f"index lookup join {kind} on {text}", make().schema, inputs, make, step.order,
                step.instances, step.spread, state=state)  # fmt: skip


def unnested(step: Step, lists: Sequence[str], bounds: Bounds, *, outer: bool, ordinality: str) -> Step:
    """A row for each element."""
    if not lists:
        raise PlanError("expected a list to unnest, was none")
    fields = list(step.schema)
    for place, field in enumerate(fields):
        if field.name in lists:
            if not pa.types.is_list(field.type):
                raise PlanError(f"expected a list in column {field.name}, was {field.type}")
            fields[place] = pa.field(field.name, field.type.value_type)
    for name in lists:
        column_of(step.schema, name)
    if ordinality:
        fields.append(pa.field(ordinality, pa.int64(), outer))
    schema = pa.schema(fields)
    label = f"unnest {'outer ' if outer else ''}{', '.join(lists)}" + (f" numbered {ordinality}" if ordinality else "")
    return Step(
        "operator", label, schema, (step,),
        lambda place: Unnest(schema, lists, outer=outer, ordinality=bool(ordinality), most_rows=bounds.most_rows),
        _until(step.order, lists), step.instances, step.spread,
    )  # fmt: skip


def united(steps: Sequence[Step], bounds: Bounds) -> Step:
    """UNION ALL, columns by their place."""
    first = steps[0].schema
    fields = list(first)
    for step in steps[1:]:
        if len(step.schema) != len(first):
            raise PlanError(f"expected {len(first)} columns in every part of a union, was {len(step.schema)}")
        for place, (field, other) in enumerate(zip(first, step.schema, strict=True)):
            if not field.type.equals(other.type):
                raise PlanError(f"expected {field.type} in column {field.name} of every part of a union, was "
                                f"{other.type}")  # fmt: skip
            fields[place] = fields[place].with_nullable(fields[place].nullable or other.nullable)
    schema = pa.schema(fields)
    return Step("operator", f"union of {len(steps)}", schema, tuple(steps),
                lambda place: Union(schema, len(steps), most_rows=bounds.most_rows),
                instances=_same_instances(steps, "union"), spread=_shared_spread(steps, schema))  # fmt: skip


def limited(step: Step, count: int, offset: int, bounds: Bounds) -> Step:
    """The first rows, of one instance: a limit of several would have to count together."""
    _check_single(step, "limit")
    if count < 0 or offset < 0:
        raise PlanError(f"expected a limit and an offset from 0, were {count} and {offset}")
    schema = step.schema
    label = f"limit {count}" + (f" offset {offset}" if offset else "")
    return Step("operator", label, schema, (step,),
                lambda place: Limit(schema, count, offset, name=place.name, space=place.space,
                                    most_rows=bounds.most_rows),
                step.order, state="keeps how many rows it has seen")  # fmt: skip


def numbered(step: Step, name: str, bounds: Bounds) -> Step:
    """The rows with their number."""
    _check_single(step, "row number")
    if name in step.schema.names:
        raise PlanError(f"expected a name that is free for the row number, was {name}")
    schema = step.schema.append(pa.field(name, pa.int64(), nullable=False))
    return Step("operator", f"row number {name}", schema, (step,),
                lambda place: RowNumber(schema, name=place.name, space=place.space, most_rows=bounds.most_rows),
                step.order or (name,), state="keeps how many rows it has numbered")  # fmt: skip


def _check_single(step: Step, what: str) -> None:
    if step.instances > 1:
        raise PlanError(f"expected one instance before a {what}, was {step.instances}: gather them first")


def _same_instances(steps: Sequence[Step], what: str) -> int:
    counts = {step.instances for step in steps}
    if len(counts) > 1:
        raise PlanError(f"expected as many instances on all sides of a {what}, were {sorted(counts)}")
    return counts.pop()


def _check_spread(left: Step, right: Step, on: On, what: str) -> None:
    """Rows that may belong together must meet in one instance."""
    if left.instances == 1:
        return
    others = dict(on)
    if not left.spread or tuple(others.get(key) for key in left.spread) != right.spread:
        raise PlanError(f"expected both sides of a {what} spread by columns that are equal in it, were spread by "
                        f"{', '.join(left.spread) or 'none'} and {', '.join(right.spread) or 'none'}")  # fmt: skip


def _shared_spread(steps: Sequence[Step], schema: pa.Schema) -> tuple[str, ...]:
    places = {tuple(step.schema.get_field_index(key) for key in step.spread) for step in steps}
    return tuple(schema.names[place] for place in places.pop()) if len(places) == 1 else ()


def _until(order: tuple[str, ...], gone: Sequence[str]) -> tuple[str, ...]:
    """The first columns of an order, up to one that is no more."""
    for place, column in enumerate(order):
        if column in gone:
            return order[:place]
    return order


def _orderable(schema: pa.Schema, name: str) -> pa.Field:
    field = schema.field(str(column_of(schema, name).expr.name))  # type: ignore[union-attr]
    if pa.types.is_list(field.type):
        raise PlanError(f"expected a column with an order as a key, was {name}, a {field.type}")
    return field


def _check_on(left: Step, right: Step, on: On) -> None:
    for one, other in on:
        _check_pair(left.schema, one, right.schema, other)


def _check_pair(left: pa.Schema, one: str, right: pa.Schema, other: str) -> None:
    mine, theirs = _orderable(left, one), _orderable(right, other)
    same = mine.type.equals(theirs.type)
    if not same:  # integers of either width, if their scales meet
        kinds = (type_of(mine), type_of(theirs))
        same = {kind.kind for kind in kinds} == {"int"} and len({kind.scale for kind in kinds}) == 1
    if not same:
        raise PlanError(
            f"expected columns of one type to be equal, were {one}, {mine.type}, and {other}, {theirs.type}"
        )
