"""Construction of steps that take the output of other steps: checks of the inputs, times and order of the output."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.compiler.operands import Lowered
from runtime.engine.errors import PlanError
from runtime.engine.operators.aggregation import WindowAggregate, WindowAggregation, WindowSpan
from runtime.engine.operators.columns import matched, type_of
from runtime.engine.operators.counting import Limit, RowNumber
from runtime.engine.operators.eventtime import Deduplicate, InOrder, Previous, Sessions, Union, Windows
from runtime.engine.operators.joins.asof import AsofJoin
from runtime.engine.operators.joins.lookup import LookupJoin, LookupKind, TableIndex
from runtime.engine.operators.joins.merge import JoinKind, MergeJoin, join_schema
from runtime.engine.operators.plans.expressions import column_of, schema_of
from runtime.engine.operators.plans.steps import Place, Port, Step
from runtime.engine.operators.rowwise import Filter, Flatten, Project, Unnest, flattened
from runtime.plan import Call, Col, Expr

__all__ = [
    "aggregated",
    "asof_joined",
    "deduplicated",
    "filtered",
    "flat",
    "in_sessions",
    "in_time_order",
    "in_windows",
    "joined",
    "limited",
    "looked_up",
    "numbered",
    "projected",
    "united",
    "unnested",
    "with_previous",
]

On = Sequence[tuple[str, str]]


def filtered(step: Step, where: Expr, text: str) -> Step:
    """Return a step with the rows for which the condition is true."""
    schema = step.schema
    return Step("arrival", f"filter {text}", schema, (step,), lambda place: Filter(schema, where), times=step.times,
                is_ordered=step.is_ordered)  # fmt: skip


def projected(step: Step, outputs: Sequence[tuple[str, Lowered]], text: str) -> Step:
    """Return a step with expressions as columns."""
    schema = schema_of(outputs, step.schema)
    exprs = [value.expr for _, value in outputs]
    lags = dict(step.times)
    times = [(name, _lag(value.expr, lags)) for name, value in outputs]
    return Step("arrival", f"project {text}", schema, (step,), lambda place: Project(schema, exprs),
                times=tuple((name, lag) for name, lag in times if lag is not None),
                is_ordered=step.is_ordered)  # fmt: skip


def _lag(expr: Expr, lags: dict[str, int]) -> int | None:
    """Return the lag of a time column, or of COALESCE of a full join's times; None for any other expression."""
    if isinstance(expr, Col):
        return lags.get(expr.name)
    if isinstance(expr, Call) and expr.op == "coalesce":
        return lags.get(_either(*(part.name if isinstance(part, Col) else "" for part in expr.args)))
    return None


def _either(*names: str) -> str:
    """Return the name for the time of a full join: the value of whichever of these columns is not NULL."""
    return f"either of {', '.join(sorted(names))}"


def flat(step: Step) -> Step:
    """Return a step with a column per field of each struct; the step itself if there are no structs."""
    schema = step.schema
    if not any(pa.types.is_struct(field.type) for field in schema):
        return step
    return Step("arrival", "flatten structs", flattened(schema), (step,), lambda place: Flatten(schema),
                times=step.times, is_ordered=step.is_ordered)  # fmt: skip


def in_time_order(step: Step) -> Step:
    """Return a step with the rows in order of time; the step itself if it is ordered."""
    if step.is_ordered or step.time is None:
        return step
    schema = step.schema
    return Step("ordered", f"in order of {step.time[0]}", schema, (step,), lambda place: InOrder(schema),
                ports=(Port(*step.time),), times=_based(step.times, step.time[1]), is_ordered=True,
                state="rows until the watermark has passed them")  # fmt: skip


def in_windows(step: Step, time: str, start: str, slide: int, size: int) -> Step:
    """Return a step with the rows and the start of each window that contains them."""
    schema = step.schema
    made = Windows(schema, time, start, slide, size).schema
    text = f"tumbling windows of {size}" if slide == size else f"hopping windows of {size} every {slide}"
    return Step("arrival", f"{text} over {time}", made, (step,),
                lambda place: Windows(schema, time, start, slide, size), times=step.times,
                is_ordered=step.is_ordered)  # fmt: skip


def in_sessions(step: Step, time: str, start: str, keys: Sequence[str], gap: int) -> Step:
    """Return a step with the rows and the start of the session that contains them."""
    schema = step.schema
    lag = _checked_time(step, time)
    by = f" of {', '.join(keys)}" if keys else ""
    return Step("ordered", f"sessions{by} over {time}, ended by a gap of {gap}",
                schema.append(pa.field(start, schema.field(time).type, nullable=False)), (step,),
                lambda place: Sessions(schema, time, start, keys, gap, name=place.name, space=place.space),
                ports=(Port(time, lag),), times=_based(step.times, lag), is_ordered=True,
                state=Sessions.keeps)  # fmt: skip


def with_previous(step: Step, time: str, keys: Sequence[str], columns: On) -> Step:
    """Return a step with the rows, each with values of the previous row of its key.

    ``columns`` pairs each column with the name of its previous value.
    """
    lag = _checked_time(step, time)
    schema = step.schema
    made = [pa.field(new, schema.field(old).type, nullable=True) for old, new in columns]
    by = f" of {', '.join(keys)}" if keys else ""
    return Step("ordered", f"row before{by}: {', '.join(old for old, _ in columns)}", pa.schema([*schema, *made]),
                (step,), lambda place: Previous(schema, keys, columns, name=place.name, space=place.space),
                ports=(Port(time, lag),), times=_based(step.times, lag), is_ordered=True,
                state=Previous.keeps)  # fmt: skip


def deduplicated(step: Step, time: str, keys: Sequence[str], bound: str, span: int) -> Step:
    """Return a step with the first row of each key in order of ``time``.

    A key is deleted when event time is ``span`` past its value in the column ``bound``.
    """
    lag = _checked_time(step, time)
    schema = step.schema
    return Step("ordered", f"first row of each {', '.join(keys)}", schema, (step,),
                lambda place: Deduplicate(schema, keys, bound, span, name=place.name, space=place.space),
                ports=(Port(time, lag),), times=_based(step.times, lag), is_ordered=True,
                state=Deduplicate.keeps)  # fmt: skip


def aggregated(
    step: Step, time: str, keys: Sequence[str], aggregates: Sequence[WindowAggregate], span: WindowSpan, *, label: str
) -> Step:
    """Return a step with the groups of each window."""
    lag = _checked_time(step, time)
    schema = step.schema

    def make(place: Place) -> WindowAggregation:
        return WindowAggregation(schema, keys, aggregates, span, name=place.name, space=place.space)

    return Step("ordered", f"streaming aggregation{label}", WindowAggregation.schema_of(schema, keys, aggregates, span),
                (step,), make, ports=(Port(time, lag),),
                times=((span.end, 0), *(() if span.time else ((span.start, span.size),))), is_ordered=True,
                state=WindowAggregation.keeps)  # fmt: skip


def joined(left: Step, right: Step, on: On, kind: JoinKind) -> Step:
    """Return a sort-merge join on equal columns; raise `PlanError` unless these include the times of both sides."""
    _check_on(left, right, on)
    lags = dict(left.times), dict(right.times)
    times = next((pair for pair in on if pair[0] in lags[0] and pair[1] in lags[1]), None)
    if times is None:
        raise PlanError("expected the times of both sides to be equal in ON, as in one.t = other.t: rows of a stream "
                        "that may match at any time would have to be kept for ever; for the last row before another "
                        "write ASOF JOIN")  # fmt: skip
    rest = [pair for pair in on if pair != times]
    mine, theirs = ([each[side] for each in (times, *rest)] for side in (0, 1))
    ports = (Port(mine[0], lags[0][mine[0]], tuple(mine[1:])), Port(theirs[0], lags[1][theirs[0]], tuple(theirs[1:])))
    left_times, right_times = (_based(side.times, port.lag) for side, port in zip((left, right), ports, strict=True))
    made = {"left": left_times, "semi": left_times, "anti": left_times, "right": right_times,
            "inner": (*left_times, *right_times), "full": ((_either(*times), 0),)}[kind]  # fmt: skip
    schema = join_schema(kind, left.schema, right.schema)
    text = ", ".join(f"{left_name} = {right_name}" for left_name, right_name in (times, *rest))
    return Step("complete", f"merge join {kind} on {text}", schema, (left, right),
                lambda place: MergeJoin(kind, left.schema, right.schema, mine, theirs), ports=ports, times=made,
                is_ordered=True, state="rows until both inputs have passed them")  # fmt: skip


def asof_joined(left: Step, right: Step, on: tuple[str, str], by: On, *, outer: bool, tolerance: int | None) -> Step:
    """Return an as-of join; raise `PlanError` for times of different types."""
    _check_on(left, right, [on, *by])
    ports = (Port(on[0], _checked_time(left, on[0])), Port(on[1], _checked_time(right, on[1])))
    if left.schema.field(on[0]).type != right.schema.field(on[1]).type:
        raise PlanError(f"expected times of one type, were {left.schema.field(on[0]).type} and "
                        f"{right.schema.field(on[1]).type}")  # fmt: skip
    schema = matched(left.schema, right.schema, left_optional=False, right_optional=outer)
    text = ", ".join(f"{left_name} = {right_name}" for left_name, right_name in by)
    label = f"as-of join {'left ' if outer else ''}on {on[0]} ≥ {on[1]}" + (f" by {text}" if by else "")
    label += "" if tolerance is None else f" within {tolerance}"
    return Step(
        "complete", label, schema, (left, right),
        lambda place: AsofJoin(left.schema, right.schema, on, by, outer=outer, tolerance=tolerance, name=place.name,
                               space=place.space),
        ports=ports, times=_based(left.times, ports[0].lag), is_ordered=True,
        state=f"rows until both inputs have passed them, {AsofJoin.keeps}",
    )  # fmt: skip


def looked_up(step: Step, table: Step, on: On, kind: LookupKind) -> Step:
    """Return a lookup join with a table."""
    _check_on(step, table, on)
    mine, theirs = [left_name for left_name, _ in on], [right_name for _, right_name in on]
    schema = step.schema
    both = matched(schema, table.schema, left_optional=False, right_optional=kind == "left")

    def make(place: Place) -> LookupJoin:
        index = TableIndex(table.schema, theirs, name=place.name, space=place.space)
        return LookupJoin(schema, index, mine, kind)

    text = ", ".join(f"{left_name} = {right_name}" for left_name, right_name in on)
    return Step("barrier", f"lookup join {kind} on {text}", schema if kind in ("semi", "anti") else both,
                (step, table), make, times=step.times, is_ordered=step.is_ordered, state=LookupJoin.keeps)  # fmt: skip


def unnested(step: Step, lists: Sequence[str], *, outer: bool, ordinality: str) -> Step:
    """Return a step with a row for each element of the lists; raise `PlanError` without lists, or for other columns."""
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
    made = Step("arrival", label, schema, (step,),
                lambda place: Unnest(schema, lists, outer=outer, ordinality=bool(ordinality)), times=step.times,
                is_ordered=step.is_ordered)  # fmt: skip
    return flat(made)


def united(steps: Sequence[Step]) -> Step:
    """Return UNION ALL in order of time; columns are matched by their position.

    Raise `PlanError` for parts of different columns, or without a time column.
    """
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
    shared = [[lags.get(step.schema.names[place]) for step in steps for lags in [dict(step.times)]]
              for place in range(len(schema))]  # fmt: skip
    places = [place for place, lags in enumerate(shared) if None not in lags]
    if not places:
        raise PlanError("expected a column that is the time of the rows in every part of a union, was none")
    place = next((each for each in places if schema.names[each] == "t"), places[0])
    times = [step.schema.names[place] for step in steps]
    ports = tuple(Port(time, dict(step.times)[time]) for time, step in zip(times, steps, strict=True))
    return Step("complete", f"union of {len(steps)} in order of {schema.names[place]}", schema, tuple(steps),
                lambda place: Union(schema, times), ports=ports, times=((schema.names[place], 0),), is_ordered=True,
                state="rows until all inputs have passed them")  # fmt: skip


def limited(step: Step, count: int, offset: int) -> Step:
    """Return a step with ``count`` rows, in time order, after the first ``offset`` rows.

    Raise `PlanError` if one of the numbers is negative.
    """
    if count < 0 or offset < 0:
        raise PlanError(f"expected a limit and an offset from 0, were {count} and {offset}")
    time, lag = _expected_time(step, "LIMIT")
    schema = step.schema
    label = f"limit {count}" + (f" offset {offset}" if offset else "")
    return Step("ordered", label, schema, (step,),
                lambda place: Limit(schema, count, offset, name=place.name, space=place.space),
                ports=(Port(time, lag),), times=_based(step.times, lag), is_ordered=True,
                state=Limit.keeps)  # fmt: skip


def numbered(step: Step, name: str) -> Step:
    """Return a step with the rows and their number in order of time; raise `PlanError` if a column has the name."""
    if name in step.schema.names:
        raise PlanError(f"expected a name that is free for the row number, was {name}")
    time, lag = _expected_time(step, "ROW_NUMBER() OVER ()")
    schema = step.schema.append(pa.field(name, pa.int64(), nullable=False))
    return Step("ordered", f"row number {name}", schema, (step,),
                lambda place: RowNumber(schema, name=place.name, space=place.space), ports=(Port(time, lag),),
                times=_based(step.times, lag), is_ordered=True, state=RowNumber.keeps)  # fmt: skip


def _based(times: Sequence[tuple[str, int]], lag: int) -> tuple[tuple[str, int], ...]:
    """Return the times of a step relative to the watermark of the column with this lag."""
    return tuple((name, own - lag) for name, own in times)


def _expected_time(step: Step, what: str) -> tuple[str, int]:
    if step.time is None:
        raise PlanError(f"expected rows with an event time before {what}, was none of {', '.join(step.schema.names)}")
    return step.time


def _checked_time(step: Step, time: str) -> int:
    """Return the lag of a column that must be an event time; raise `PlanError` if it is not an event time."""
    lags = dict(step.times)
    if time not in lags:
        known = ", ".join(name for name in lags if name in step.schema.names) or "none"
        raise PlanError(f"expected an event time, was {time}; the event times here: {known}")
    return lags[time]


def _orderable(schema: pa.Schema, name: str) -> pa.Field:
    field = schema.field(str(column_of(schema, name).expr.name))  # type: ignore[union-attr]
    if pa.types.is_nested(field.type):
        raise PlanError(f"expected a column with an order as a key, was {name}, a {field.type}")
    return field


def _check_on(left: Step, right: Step, on: On) -> None:
    for left_name, right_name in on:
        mine, theirs = _orderable(left.schema, left_name), _orderable(right.schema, right_name)
        same = mine.type.equals(theirs.type)
        if not same:  # integers of either width match if their scales are equal
            kinds = (type_of(mine), type_of(theirs))
            same = {kind.kind for kind in kinds} == {"int"} and len({kind.scale for kind in kinds}) == 1
        if not same:
            raise PlanError(
                f"expected columns of one type to be equal, were {left_name}, {mine.type}, and "
                f"{right_name}, {theirs.type}"
            )
