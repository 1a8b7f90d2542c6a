"""Stateless operators of a flow (selection, projection, union), and sets: DISTINCT, EXCEPT and INTERSECT.

**Selection, projection, union** (`SelectedRows`, `UnionRows`)

Algebra: selection, projection and union of multisets are linear, so they are applied to a change as they are to a
multiset (Budiu, Chajed, McSherry, Ryzhyk, Tannen: *DBSP*, 2023, section 4). The consumer's kernel computes them for
each row while it reads the input.

**Sets** (`lower_distinct`, `lower_set`)

Algebra: a row's weight in the result is a function of its weights in the inputs, so that the change is the function of
the new weights less the function of the old weights (Griffin, Libkin: *Incremental Maintenance of Views with
Duplicates*, SIGMOD 1995). A negative weight counts as 0.

State: a table of rows that remembers their weights before the step; a record is a row's words and its weight in each
input. So each row is emitted at most once in a step, however often it changes within the step.

Code: one kernel. Its first loop adds up the rows of the inputs, one input after the other; ``s[0]`` is the row at which
a stopped kernel resumes. Its second loop emits the touched rows; room for all of them is made before this loop begins.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

import msgspec

from runtime.native.library import hashing
from runtime.plan import (
    Col,
    Column,
    ColumnType,
    DistinctNode,
    Expr,
    Lit,
    ScanNode,
    SelectNode,
    SetNode,
    UnionNode,
    columns_read,
)
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, load_fields
from runtime.views.errors import ViewError
from runtime.views.feeds import ColumnBatch, Row, Rows
from runtime.views.nodes.flow import BatchRows, FlowContext, open_touched
from runtime.views.nodes.totals import RecordTable, put_locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from runtime.views.strings import Strings

__all__ = [
    "SelectedRows",
    "UnionRows",
    "consolidated",
    "lower_distinct",
    "lower_scan",
    "lower_select",
    "lower_set",
    "lower_union",
    "wider",
]


_ZERO: Final = {"int128": "wide(0)", "float64": "0.0"}
"""Source of 0 in the types in which it is not ``0``."""


class SelectedRows(Rows):
    """Rows of an input for which a condition is true, with computed columns."""

    def __init__(
        self,
        rows: Rows,
        where: Expr | None,
        columns: Sequence[Column],
        outputs: Sequence[Expr],
        strings: Strings,
    ) -> None:
        self._input = rows
        self._where = where
        self._outputs = {column.name: expr for column, expr in zip(columns, outputs, strict=True)}
        self.fields = _fields_of(rows.fields, columns, outputs, strings)
        self.batches = rows.batches
        passed = {expr.name for expr in outputs if isinstance(expr, Col)}
        self.is_distinct = rows.is_distinct and passed.issuperset(field.name for field in rows.fields)
        self.filters = where is not None or rows.filters

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        exprs = [self._outputs[name] for name in names]
        used = {name for expr in [self._where, *exprs] if expr is not None for name in columns_read(expr)}
        needed = [field.name for field in self._input.fields if field.name in used]
        emitter = Emitter(k)
        with self._input.row(k, needed, number) as row:
            test = None if self._where is None else f"if {emitter.truth(self._where, row.values)}:"
            with nullcontext() if test is None else k.block(test):
                values = {}
                for name, expr in zip(names, exprs, strict=True):
                    values[name] = emitter.column(expr, row.values, self.field(name).type)
                yield Row(values, row.weight)

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        sources = []
        for name in names:
            expr = self._outputs[name]
            if self._where is not None or not isinstance(expr, Col):
                return None
            if self._input.field(expr.name).type != self.field(name).type:
                return None
            sources.append(expr.name)
        return self._input.stored(sources)


def _fields_of(
    fields: Sequence[Field], columns: Sequence[Column], outputs: Sequence[Expr], strings: Strings
) -> tuple[Field, ...]:
    """Return the columns as fields; a trial run of their expressions shows which may be NULL."""
    trial = KernelSource("trial", strings)
    trial.begin()
    bound = {field.name: Value("0", field.type, "False" if field.nullable else None) for field in fields}
    results = []
    for column, expr in zip(columns, outputs, strict=True):
        value = Emitter(trial).cast(Emitter(trial).value(expr, bound), column.type)
        results.append(Field(column.name, column.type, value.null is not None))
    return tuple(results)


class UnionRows(Rows):
    """Rows of several inputs, one after the other; columns match by position and have the names of the first input."""

    def __init__(self, inputs: Sequence[Rows]) -> None:
        self._inputs = tuple(inputs)
        fields = inputs[0].fields
        for other in inputs[1:]:
            fields = tuple(wider(mine, theirs) for mine, theirs in zip(fields, other.fields, strict=True))
        self.fields = fields
        self.batches = tuple(batch for rows in inputs for batch in rows.batches)
        self.filters = any(rows.filters for rows in inputs)

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        places = [place for place, field in enumerate(self.fields) if field.name in names]
        merged = _Merged(places, [_variable(k, self.fields[place]) for place in places], k.name("w"))
        if self.filters:
            merged.is_there = k.assign("b", "False")
        with ExitStack() as nesting:
            for rows in self._inputs[:-1]:
                limit = k.assign("r", " + ".join(f"{k.cells(batch, 0)}[{batch.ROWS}]" for batch in rows.batches))
                with k.block(f"if {number} < {limit}:"):
                    _put_input(k, rows, merged, number)
                nesting.enter_context(k.block("else:"))
                number = k.assign("e", f"{number} - {limit}")
            _put_input(k, self._inputs[-1], merged, number)
        with nullcontext() if merged.is_there is None else k.block(f"if {merged.is_there}:"):
            values = {self.fields[place].name: value for place, value in zip(places, merged.values, strict=True)}
            yield Row(values, merged.weight)


class _Merged(msgspec.Struct):
    """Variables that hold a row of any of the inputs."""

    places: list[int]
    """Places of the requested columns."""
    values: list[Value]
    """One variable for each requested column."""
    weight: str
    """The variable of the weight."""
    is_there: str | None = None
    """Variable that is true if the row satisfies the conditions of its input; None if there are no conditions."""


def _variable(k: KernelSource, field: Field) -> Value:
    bits = 126 if field.type == "int128" else 63
    return Value(k.name("v"), field.type, k.name("n") if field.nullable else None, bits, is_word=True)


def _put_input(k: KernelSource, rows: Rows, merged: _Merged, number: str) -> None:
    """Write the lines that copy the row with this number to the variables."""
    names = [rows.fields[place].name for place in merged.places]
    with rows.row(k, names, number) as row:
        k.put(f"{merged.weight} = {row.weight}")
        for name, target in zip(names, merged.values, strict=True):
            assert target.type is not None
            value = Emitter(k).cast(row.values[name], target.type)
            text = f"1 if {value.text} else 0" if target.type == "bool" else value.text
            if target.null is not None:
                k.put(f"{target.null} = {_flag(value)}")
                if value.null is not None and not value.is_word:
                    zero = _ZERO.get(target.type, "0")
                    text = f"{zero} if {target.null} else ({text})"
            k.put(f"{target.text} = {text}")
        if merged.is_there is not None:
            k.put(f"{merged.is_there} = True")


def _flag(value: Value) -> str:
    if value.null is None:
        return "0"
    return value.null if value.is_word else f"1 if {value.null} else 0"


def wider(left: Field, right: Field) -> Field:
    """Return the left column in a type that can represent the values of both columns; nullable if either is.

    Raise `ViewError` unless they have one type or are both integers.
    """
    types: set[ColumnType] = {left.type, right.type}
    if len(types) > 1 and types != {"int64", "int128"}:
        raise ViewError(f"expected columns of one type, was {left.name} {left.type} and {right.name} {right.type}")
    return Field(left.name, left.type if len(types) == 1 else "int128", left.nullable or right.nullable)


def lower_scan(node: ScanNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Return the rows of a map."""
    return ctx.builder.feed(ctx.builder.part_of(ctx.view, node.map))


def lower_select(node: SelectNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Return the rows that a selection passes on."""
    return SelectedRows(inputs[0], node.where, node.columns, node.outputs, ctx.strings)


def lower_union(node: UnionNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Return the rows of all inputs."""
    return inputs[0] if len(inputs) == 1 else UnionRows(inputs)


_INPUT: Final = "number of the input"
"""Column with the number of a row's input; no name of a plan has spaces."""
_MULTIPLICITY: Final = {
    "distinct": "1 if {0} > 0 else 0",
    "except": "1 if {0} > 0 and {1} <= 0 else 0",
    "except_all": "max(max({0}, 0) - max({1}, 0), 0)",
    "intersect": "1 if {0} > 0 and {1} > 0 else 0",
    "intersect_all": "max(min({0}, {1}), 0)",
    "sum": "{0}",
}
"""Functions from a row's weights in the inputs to its weight in the result, by kind of set."""


def lower_distinct(node: DistinctNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add a DISTINCT to the graph; return its rows."""
    table = ctx.structure("rows", lambda: RecordTable(inputs[0].fields, 1, is_result=True))
    return _lowered("distinct", table, inputs[0], ctx)


def lower_set(node: SetNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add an EXCEPT or INTERSECT to the graph; return its rows."""
    both = []
    for number, rows in enumerate(inputs):
        columns = [*(Column(f.name, f.type, f.nullable) for f in rows.fields), Column(_INPUT, "int64")]
        outputs: list[Expr] = [*(Col(f.name) for f in rows.fields), Lit(number)]
        both.append(SelectedRows(rows, None, columns, outputs, ctx.strings))
    rows = UnionRows(both)
    table = ctx.structure("rows", lambda: RecordTable(rows.fields[:-1], 2, is_result=True))
    return _lowered(node.kind, table, rows, ctx)


def consolidated(rows: Rows, ctx: FlowContext) -> Rows:
    """Add to the graph a kernel that adds up equal rows of a step, without state between steps; return its rows."""
    return _lowered("sum", RecordTable(rows.fields, 1, is_result=True), rows, ctx)


def _lowered(kind: str, table: RecordTable, rows: Rows, ctx: FlowContext) -> Rows:
    """Add the kernel of an operator; return its rows. With two inputs a last column has the number of the input."""
    inputs, fields, batch = table.value_words, table.keys, ctx.batch(table.keys)
    k = ctx.kernel("adds up equal rows" if kind == "sum" else f"emits the change of {kind.replace('_', ' ')} rows")
    k.use("hashing", "touch")
    k.begin()
    cells, old = k.cells(table, hashing.CELLS), k.cells(table, hashing.OLD)
    with rows.open(k, stays_at_end=True) as row:
        slot = put_locate(k, table, [row.values[field.name] for field in fields])
        k.put(f"touch({k.table(table)}, {slot})")
        place = f"{slot} * {table.stride} + {table.key_words}"
        if inputs > 1:
            place += f" + {row.values[_INPUT].text}"
        k.put(f"{cells}[{place}] += {row.weight}")
    with open_touched(k, table, batch) as place:
        now = [k.assign("x", f"{cells}[{place} + {table.key_words + number}]") for number in range(inputs)]
        was = [k.assign("x", f"{old}[{inputs} * i + {number}]") for number in range(inputs)]
        multiplicity = _MULTIPLICITY[kind]
        change = k.assign("x", f"({multiplicity.format(*now)}) - ({multiplicity.format(*was)})")
        with k.block(f"if {change} != 0:"):
            batch.put_append(k, load_fields(k, fields, cells, place), change)
        if kind == "sum":
            k.put(f"{cells}[{place} + {table.key_words}] = 0")
    k.put("return -1 if bad else 0")
    ctx.add(k, rows)
    return BatchRows(batch, is_distinct=True)
