"""Derived queries: each is a SELECT over event time, which returns each row once, in order, when watermarks pass it.

>>> import pyarrow as pa
>>> from runtime.compiler.script import NamedSelect
>>> trades = StreamInput(pa.schema([("t", pa.int64()), ("symbol", pa.string()), ("price", pa.int64())]), "t")
>>> sql = "SELECT symbol, window_start AS t, MAX(price) AS high FROM trades GROUP BY symbol, TUMBLE(t, 60)"
>>> bars = DerivedQuery(NamedSelect("bars", sql), {"trades": trades}, None, "bars")
>>> bars.add("trades", pa.record_batch({"t": [3, 61, 7], "symbol": ["A", "A", "A"], "price": [10, 9, 12]}))
>>> [batch.to_pylist() for batch in bars.close({"trades": 70})]
[[{'symbol': 'A', 't': 0, 'high': 12}]]
>>> bars.watermark()
60
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import pyarrow as pa
from sqlglot import exp

from runtime.compiler.limits import deep_recursion
from runtime.compiler.parse import Query, check_query
from runtime.compiler.script import NamedSelect
from runtime.engine.errors import PlanError
from runtime.engine.operators.columns import as_schema, canonical, ticks_of
from runtime.engine.operators.eventtime import Sequencer
from runtime.engine.operators.operator import (
    ENDED,
    MOST_HELD,
    Batches,
    HeldTooMuchError,
    Operator,
    OperatorError,
    OtherPlanError,
)
from runtime.engine.operators.plans import building
from runtime.engine.operators.plans.expressions import StreamDialect, column_of
from runtime.engine.operators.plans.sql import plan_query
from runtime.engine.operators.plans.sqlscope import HIDDEN
from runtime.engine.operators.plans.steps import Place, Step, earlier, fingerprint, in_order
from runtime.state import MemoryStore, ObjectSpace, PersistedDictionary, PersistedValue, Schema

__all__ = [
    "DerivedQuery",
    "StreamInput",
]

_MOST_LATE = 10_000
"""Greatest number of late rows kept for `DerivedQuery.take_late`; further ones are only counted."""


class StreamInput(msgspec.Struct, frozen=True):
    """Relation that a derived query may read."""

    schema: pa.Schema
    """Schema of the rows, without weight."""
    time: str = ""
    """Name of the time column: int64 (nanoseconds), timestamp or date; empty for a table."""
    is_table: bool = False
    """True for a table: its rows are looked up and may be deleted, and `DerivedQuery.add` takes them with a last column
    ``weight``."""


class DerivedQuery:
    """SELECT over streams and tables, computed in order of event time. Owned by one thread at a time.

    Its rows depend on the rows of each stream, their order and the watermarks alone, not on where epochs are cut. Only
    lookups in a table depend on the epochs: they read the table as of the end of an epoch. All state is in the object
    space, under names that begin with the query's name; the owner of the space commits this state after `close`. A
    query created over a restored space resumes after that commit.
    """

    def __init__(  # noqa: PLR0917 (the parts of a stream's declaration; the last two are mostly passed by name)
        self,
        select: NamedSelect,
        inputs: Mapping[str, StreamInput],
        space: ObjectSpace | None,
        name: str,
        lateness: int = 0,
        most_held: int = MOST_HELD,
    ) -> None:
        """Plan the query, and restore its state from the space; without a space the state is in memory.

        ``lateness`` is the time by which watermarks are held back, in the unit of the times; ``most_held`` is the
        greatest total number of rows, keys and groups that may be held.

        Raises `SqlError` with the position of a refused part of the query, and `OtherPlanError` if the space has state
        of another plan.
        """
        space = ObjectSpace(MemoryStore()) if space is None else space
        inputs = {relation.lower(): each for relation, each in inputs.items()}
        with deep_recursion():
            query = Query(select, dialect=StreamDialect)
            check_query(query, {}, is_stream=True)
            used = _names_in(query)
            scans = {relation: _scan(query, relation, each) for relation, each in inputs.items() if relation in used}
            others = {relation: Step("stream", relation, pa.schema([])) for relation in inputs if relation not in used}
            step = plan_query(query, {**others, **{relation: _read(scan, used) for relation, scan in scans.items()}})
        if step.time is None or step.time[0] not in step.schema.names:
            raise query.error("expected the time of the rows in SELECT, as it is in an input or as window_end: a "
                              "stream needs one; add it as t")  # fmt: skip
        self.schema = step.schema
        """Schema of the output."""
        self.time, self._lag = step.time
        """Name of the output's time column."""
        steps = list(in_order(step))
        read = [each.label for each in steps if each.kind in ("stream", "table")]
        self.reads: tuple[str, ...] = tuple(dict.fromkeys(read))
        """Names of the relations that the query reads."""
        self.late = 0
        """Number of late rows since the last `take_late`."""
        self._late_rows: list[tuple[str, pa.RecordBatch]] = []
        self._late_held = 0
        self._inputs = {relation: _Input(each, scans[relation]) for relation, each in inputs.items()
                        if relation in self.reads}  # fmt: skip
        self._lateness = lateness
        self.most_held = most_held
        """Greatest total number of rows, keys and groups that may be held."""
        self._name = name
        self._step = step
        self._check_plan(space)
        try:
            self._nodes = _nodes(steps, Place(name, space))
        except PlanError as error:
            raise query.error(str(error)) from None
        self._holders = [node for node in self._nodes if node.may_hold]
        self._output: list[pa.RecordBatch] = []
        self._watermark = -(2**63)
        self._has_ended = False
        kept = space.get_or_create(PersistedDictionary, f"{name}/watermarks", Schema(int, str))
        self._kept: PersistedDictionary[str, int] = kept
        for relation, watermark in kept.items():
            if relation in self._inputs and watermark != ENDED:  # earlier releases saved this value for an ended input
                self._inputs[relation].watermark = watermark

    def _check_plan(self, space: ObjectSpace) -> None:
        """Save the properties of the plan on which its state depends; raise `OtherPlanError` for state of another plan.

        State of a release that did not save these properties is accepted.
        """
        plan = fingerprint(self._step)
        kept = space.get_or_create(PersistedValue, f"{self._name}/plan", Schema(list[str]), initial=plan)
        before = kept.value
        if before != plan:
            pairs = itertools.zip_longest(before, plan, fillvalue="nothing")
            number, (stored, expected) = next((n, pair) for n, pair in enumerate(pairs) if pair[0] != pair[1])
            raise OtherPlanError(
                f"expected the state of operator {number} of {self._name} to be that of: {expected}; was that of: "
                f"{stored}, from another release: drop the stream and create it again"
            )

    def add(self, relation: str, rows: pa.RecordBatch) -> None:
        """Add rows of an input: inserted rows of a stream, or deltas of a table.

        Raise `OperatorError` if the query does not read the input.
        """
        known = self._inputs.get(relation.lower())
        if known is None:
            raise OperatorError(f"expected rows of {', '.join(self.reads)}, was {relation}")
        if not rows.num_rows:
            return
        rows = as_schema(rows, known.schema)
        if not known.input.is_table:
            rows = self._without_late(relation.lower(), known, rows)
        for node in self._nodes:
            if node.step.label == relation.lower() and node.step.kind in ("stream", "table"):
                self._given(node, iter((rows,)))
        self._check_room()

    def close(self, watermarks: Mapping[str, int], ended: Collection[str] = ()) -> list[pa.RecordBatch]:
        """Close an epoch at its barrier; return the rows that are complete now, in order of time.

        No row waits for an input that has ended. The end does not change the watermark of the input, so that rows which
        are appended to it later are not late. Raises `HeldTooMuchError` if more than ``most_held`` rows, keys and
        groups are held.
        """
        for relation, watermark in watermarks.items():
            known = self._inputs.get(relation.lower())
            if known is not None and (known.watermark is None or watermark > known.watermark):
                known.watermark = watermark
                self._kept[relation.lower()] = watermark
        over = {relation.lower() for relation in ended}
        for relation, known in self._inputs.items():
            known.has_ended = relation in over
        for node in self._nodes:
            self._advance(node)
        last = self._nodes[-1]
        self._has_ended = last.watermark == ENDED
        if last.watermark is not None and not self._has_ended:
            self._watermark = max(self._watermark, earlier(last.watermark, self._lag))
        self._check_room()
        made, self._output = self._output, []
        return made

    def watermark(self) -> int:
        """Return the time before which the query yields no further row, as of the last `close`.

        The time is -2^63 if it is unknown, and 2^63 - 1 if the inputs have ended.
        """
        return ENDED if self._has_ended else self._watermark

    def take_late(self) -> list[tuple[str, pa.RecordBatch]]:
        """Return the relations and rows that were late since the last call, and set `late`, the number of rows, to 0.

        At most the first 10,000 rows are returned.
        """
        rows, self._late_rows = self._late_rows, []
        self.late = self._late_held = 0
        return rows

    def explain(self) -> str:
        """Return the operators, from the last to the first, and the state of each."""
        return drawn(self._step)

    def held_rows(self) -> int:
        """Return the number of rows, keys and groups that are held."""
        return sum(node.held_rows() for node in self._holders)

    def state_rows(self) -> int:
        """Return the number of `held_rows` that do not wait for output: rows of tables, and the state of each key."""
        operators = [node.operator for node in self._holders if node.operator is not None]
        return sum(operator.held_rows() for operator in operators if operator.holds_state)

    def _check_room(self) -> None:
        rows = self.held_rows()
        if rows > self.most_held:
            node = max(self._holders, key=lambda node: node.held_rows())
            raise HeldTooMuchError(f"expected at most {self.most_held} rows held by {self._name}, was {rows}, most of "
                                   f"them in: {node.step.label}; an input may be behind, or a key may have too many "
                                   f"values")  # fmt: skip

    def _without_late(self, relation: str, known: _Input, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows that are not late, and set the late ones aside; a row without a time is late."""
        column = rows.column(known.input.time)
        is_late = np.zeros(rows.num_rows, np.bool_)
        if known.watermark is not None:
            is_late = ticks_of(column) < known.watermark - self._lateness
        if column.null_count:
            is_late |= column.is_null().to_numpy(zero_copy_only=False)
        if is_late.any():
            late = rows.filter(pa.array(is_late))
            self.late += late.num_rows
            kept = late.slice(0, max(0, _MOST_LATE - self._late_held))
            if kept.num_rows:
                self._late_held += kept.num_rows
                self._late_rows.append((relation, kept))
            rows = rows.filter(pa.array(~is_late))
        # The time is never NULL in the schema of the scan, nor in these rows: a row without a time is late.
        return pa.RecordBatch.from_arrays(rows.columns, schema=known.scan)

    # Graph of operators

    def _given(self, node: _Node, batches: Batches) -> None:
        """Pass the output of a node on to its consumers, or to the output of the query."""
        for batch in batches:
            if not batch.num_rows:
                continue
            if node is self._nodes[-1]:
                self._output.append(batch)
            for consumer, port in node.consumers:
                self._taken(consumer, port, batch)

    def _taken(self, node: _Node, port: int, batch: pa.RecordBatch) -> None:
        """Pass rows to a node at one of its ports."""
        if node.sequencers:
            if not node.is_useless(port):
                node.sequencers[port].push(batch)
        elif node.step.kind == "barrier" and port == 0:
            node.waiting.append(batch)
        else:
            self._given(node, node.operator_.add_input(batch, port))

    def _advance(self, node: _Node) -> None:
        """Advance a node to the watermarks of its inputs, which must have been advanced before it."""
        step = node.step
        if step.kind in ("stream", "table"):
            known = self._inputs[step.label]
            lag = self._lateness
            node.watermark = None if known.watermark is None else known.watermark - lag
            if step.kind == "table" or known.has_ended:
                node.watermark = ENDED
            return
        if step.kind == "barrier":
            batches, node.waiting = node.waiting, []
            for batch in batches:
                self._given(node, node.operator_.add_input(batch))
        node.input_watermarks = [each.watermark for each in node.inputs]
        if not node.sequencers:
            known_ones = [each for each in node.input_watermarks if each is not None]
            node.watermark = min(known_ones) if len(known_ones) == len(node.inputs) else None
            return
        bounds = [None if watermark is None else earlier(watermark, port.lag)
                  for watermark, port in zip(node.input_watermarks, step.ports, strict=True)]  # fmt: skip
        if any(bound is None for bound in bounds):
            node.watermark = None
            return
        bound = min(bound for bound in bounds if bound is not None)
        for sequencer in [each for port, each in enumerate(node.sequencers) if node.is_useless(port)]:
            sequencer.drop()
        for port, sequencer in enumerate(node.sequencers):
            rows = sequencer.release(bound, inclusive=step.kind == "ordered")
            if rows.num_rows:
                self._given(node, node.operator_.add_input(rows, port))
        self._given(node, node.operator_.advance(bound))
        node.watermark = node.operator_.watermark(bound)


@dataclass(slots=True)
class _Input:
    """Relation that the query reads."""

    input: StreamInput
    """Declaration of the relation."""
    step: Step
    """Step that scans the relation."""
    schema: pa.Schema = field(init=False)
    """Schema of the rows that are added."""
    scan: pa.Schema = field(init=False)
    """Schema of the rows that are scanned."""
    watermark: int | None = None
    """Watermark at the last barrier; None before the first watermark."""
    has_ended: bool = False
    """True if no further row was expected at the last barrier."""

    def __post_init__(self) -> None:
        self.scan = self.step.schema
        self.schema = canonical(self.input.schema)
        if self.input.is_table:
            self.schema = self.schema.append(pa.field("weight", pa.int64()))


@dataclass(slots=True, eq=False)
class _Node:
    """Step of the running plan."""

    step: Step
    """Step of the plan."""
    inputs: list[_Node]
    """Nodes that feed the node's ports."""
    operator: Operator | None
    """Operator of the step; None for an input."""
    sequencers: list[Sequencer]
    """One sequencer for each port, if the operator takes rows in order."""
    consumers: list[tuple[_Node, int]] = field(default_factory=list)
    """Nodes that take the output, each with a port."""
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    """Rows of a step of kind "barrier" that wait for the next barrier."""
    watermark: int | None = None
    """Watermark of the output; None while it is unknown."""
    input_watermarks: list[int | None] = field(default_factory=list)
    """Watermarks of the inputs, as of the last barrier."""

    @property
    def operator_(self) -> Operator:
        """Operator of a node that has one."""
        assert self.operator is not None
        return self.operator

    @property
    def may_hold(self) -> bool:
        """True if `held_rows` may return a number other than 0."""
        operator_holds = self.operator is not None and type(self.operator).held_rows is not Operator.held_rows
        return bool(self.sequencers) or self.step.kind == "barrier" or operator_holds

    def is_useless(self, port: int) -> bool:
        """Return True if rows of this port cannot match any more: every other input has ended and holds no row."""
        if not (self.operator_.drops and self.operator_.drops[port]):
            return False
        others = [other for other in range(len(self.sequencers)) if other != port]
        return all(self.input_watermarks and self.input_watermarks[other] == ENDED and not self.sequencers[other].rows
                   for other in others)  # fmt: skip

    def held_rows(self) -> int:
        """Return the number of rows and groups that the node holds."""
        rows = sum(each.rows for each in self.sequencers) + sum(int(batch.num_rows) for batch in self.waiting)
        return rows + (self.operator.held_rows() if self.operator is not None else 0)


def _nodes(steps: Sequence[Step], place: Place) -> list[_Node]:
    """Return the nodes of the running plan, each after the nodes that feed it."""
    made: dict[int, _Node] = {}
    for number, step in enumerate(steps):
        at = Place(f"{place.name}/{number}", place.space)
        operator = None if step.make is None else step.make(at)
        sequencers = [
            Sequencer(
                step.inputs[port_number].schema, port.time, f"{at.name}/{port_number}", place.space, keys=port.keys
            )
            for port_number, port in enumerate(step.ports)
        ]
        node = made[id(step)] = _Node(step, [made[id(each)] for each in step.inputs], operator, sequencers)
        for port_number, source in enumerate(node.inputs):
            source.consumers.append((node, port_number))
    return list(made.values())


def _scan(query: Query, relation: str, given: StreamInput) -> Step:
    """Return the step with the rows of a relation as they come from outside."""
    try:
        schema = canonical(given.schema)
        if given.is_table:
            return Step("table", relation, schema)
        time = column_of(schema, given.time)
    except PlanError as error:
        raise query.error(f"expected to read {relation}: {error}") from None
    if time.type.kind not in ("int", "timestamp", "date") or time.type.wide:
        raise query.error(f"expected an int64, a timestamp or a date as the time of {relation}, was {time.type}")
    place = schema.get_field_index(given.time)
    schema = schema.set(place, schema.field(place).with_nullable(False))
    return Step("stream", relation, schema, times=((given.time, 0),))


def _read(scan: Step, used: frozenset[str]) -> Step:
    """Return the step with the columns that a query reads of a relation, structs split into their fields."""
    if scan.kind == "table":
        return scan
    step = building.flat(scan)
    if "*" in used:
        return step
    times = dict(scan.times)
    names = [name for name in step.schema.names if name in times or not used.isdisjoint(name.lower().split("."))]
    if len(names) == len(step.schema):
        return step
    return building.projected(step, [(name, column_of(step.schema, name)) for name in names], ", ".join(names))


def _names_in(query: Query) -> frozenset[str]:
    """Return the names of relations and columns in a query, in lower case.

    The names include ``*`` if the query has a star outside of COUNT(*).
    """
    tables = {node.name.lower() for node in query.tree.find_all(exp.Table)}
    if any(node.alias_column_names for node in query.tree.find_all(exp.Table)):
        return frozenset((*tables, "*"))  # an alias with column names refers to columns by position
    aliases = {node.name.lower() for node in query.tree.find_all(exp.TableAlias)}
    return frozenset(tables).union(_names(query.tree, tables | aliases))


def _names(tree: exp.Expr, tables: set[str]) -> Iterator[str]:
    for node in tree.walk():
        if isinstance(node, exp.Column):
            parts = [part.name.lower() for part in node.parts]
            yield from parts[1:] if len(parts) > 1 and parts[0] in tables else parts
        elif isinstance(node, exp.Join):
            yield from (part.name.lower() for part in node.args.get("using") or [])
        elif isinstance(node, exp.Dot) or (isinstance(node, exp.Literal) and node.is_string):  # the field of a struct
            yield node.name.lower()
        elif isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            yield "*"


def drawn(last: Step) -> str:
    """Return the text of the plan that ends with this step: a line for each operator, and one for the state of each."""
    return "\n".join(_lines(last, "", set()))


def _lines(step: Step, indent: str, done: set[int]) -> Iterator[str]:
    title = f"{step.kind} {step.label}" if step.kind in ("stream", "table") else step.label.replace(f'"{HIDDEN}".', "")
    if id(step) in done and step.inputs:
        yield f"{indent}{title}, as above"
        return
    done.add(id(step))
    yield f"{indent}{title} → {_columns(step.schema)}"
    if step.state:
        yield f"{indent}│ keeps {step.state}"
    inner = indent + ("  " if len(step.inputs) > 1 else "")
    for each in step.inputs:
        yield from _lines(each, inner, done)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {_type(field.type)}" for field in schema)


def _type(kind: pa.DataType) -> str:
    return f"integer with {kind.scale} decimals" if pa.types.is_decimal(kind) and kind.scale else (
        "int128" if pa.types.is_decimal(kind) else str(kind)
    )  # fmt: skip
