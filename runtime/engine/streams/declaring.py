"""Declaration of derived streams: a SELECT is compiled for its errors, its columns and the relations that it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from runtime.compiler import NamedSelect, SqlError, StreamSelect
from runtime.compiler.script import UNLIMITED_NS
from runtime.engine.operators.plans.derived import DerivedQuery, StreamInput
from runtime.plan import EPOCH_TIME, Column, ColumnType, DerivedInput, DerivedStream, Program, Relation
from runtime.state import ARROW_TYPES

__all__ = ["explain_stream", "lateness_ticks", "query_inputs", "unit_ns", "with_streams"]

_TYPES: Final[Mapping[pa.DataType, ColumnType]] = {arrow: name for name, arrow in ARROW_TYPES.items()}  # type: ignore[misc]
_UNITS_NS: Final[Mapping[ColumnType, int]] = {"int64": 1, "timestamp": 1_000, "date": 86_400_000_000_000}
"""Unit in nanoseconds of each type that a time column may have."""
_MOST_NAMES: Final = 1_000
"""Greatest number of streams of a program, including dropped ones. The columns of a dropped stream are recorded,
because a new stream of the same name must have the same columns."""


def with_streams(
    program: Program,
    declared: Sequence[StreamSelect],
    inputs: Iterable[DerivedInput],
    *,
    taken: Collection[str] = (),
    missing: Mapping[str, str] | None = None,
) -> Program:
    """Return the program with the declared streams added; raise `SqlError` for the first that cannot be added.

    A declaration that equals a stream of the program in name, SELECT and clauses adds nothing.

    ``inputs`` are the relations that streams may read besides earlier streams, and ``taken`` are names that no stream
    may have. ``missing`` has the inputs that would never have rows, each with the reason for refusing a stream that
    reads it.
    """
    known = {each.relation.name: each for each in inputs}
    known |= {stream.name: DerivedInput(stream.relation, stream.time) for stream in program.streams}
    views = {view.name for view in program.views}
    streams = list(program.streams)
    dropped = {relation.name: relation for relation in program.dropped_streams}
    standing = {stream.name: _definition(stream) for stream in streams}
    for each in declared:
        clauses = each.clauses
        definition = each.select.sql, clauses.retain_rows, clauses.retain_ns, clauses.lateness_ns
        if standing.get(each.name) == definition:
            continue
        if each.name in known or each.name in views or each.name in taken or each.name == EPOCH_TIME.name:
            raise _error(each.select, f"expected a new name for the stream, was {each.name!r}, which is taken")
        home = max((stream.home for stream in streams), default=-1) + 1
        stream = _declared(each, known, home)
        for name in stream.reads:
            if missing is not None and name in missing:
                raise _error(each.select, missing[name])
        before = dropped.pop(each.name, None)
        if before is not None and before != stream.relation:
            columns = ", ".join(f"{column.name} {column.type}" for column in before.columns)
            raise _error(
                each.select,
                f"expected stream {each.name} with the columns that it had before it was dropped ({columns}), "
                "was others; give it another name",
            )
        streams.append(stream)
        standing[each.name] = definition
        known[each.name] = DerivedInput(stream.relation, stream.time)
    if len(streams) + len(dropped) > _MOST_NAMES:
        raise _error(
            declared[-1].select, f"expected at most {_MOST_NAMES} names of streams, was {len(streams) + len(dropped)}"
        )
    return msgspec.structs.replace(program, streams=tuple(streams), dropped_streams=tuple(dropped.values()))


def explain_stream(stream: DerivedStream) -> str:
    """Return a description of a derived stream: its inputs, its state, and the operators of its query.

    If this release refuses the SELECT, the description has the reason in place of the operators.
    """
    try:
        operators = DerivedQuery(
            NamedSelect(stream.name, stream.sql),
            query_inputs(stream.inputs),
            None,
            stream.name,
            lateness_ticks(stream.inputs, stream.lateness_ns),
        ).explain()
    except SqlError as error:
        operators = f"refused: {error}"
    columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
    inputs = ", ".join(
        f"table {each.relation.name}" if each.is_table else f"{each.relation.name} by {each.time}"
        for each in stream.inputs
    )
    limits = f"the newest {stream.retain_rows} rows"
    if stream.retain_ns < UNLIMITED_NS:
        limits += f" that are at most {stream.retain_ns} ns older than the newest"
    return "\n".join(
        [
            f"{stream.name}: derived stream ({columns})",
            f"  time: {stream.time}, lateness {stream.lateness_ns} ns",
            f"  reads: {inputs}",
            f"  keeps: {limits}",
            *(f"  {line}" for line in operators.splitlines()),
        ]
    )


def unit_ns(source: DerivedInput) -> int:
    """Return the unit of a relation's time column in nanoseconds."""
    kinds = {column.name: column.type for column in source.relation.columns}
    return _UNITS_NS[kinds[source.time]]


def lateness_ticks(inputs: Iterable[DerivedInput], lateness_ns: int) -> int:
    """Return a lateness in ticks of the finest unit that the times of these inputs have, rounded up."""
    unit = min((unit_ns(each) for each in inputs if each.time), default=1)
    return -(-lateness_ns // unit)


def query_inputs(inputs: Iterable[DerivedInput]) -> dict[str, StreamInput]:
    """Return relations as inputs of `DerivedQuery`."""
    return {each.relation.name: StreamInput(_schema(each.relation), each.time, each.is_table) for each in inputs}


def _schema(relation: Relation) -> pa.Schema:
    """Return a relation's columns as operators read them: scaled integers become decimals."""
    return pa.schema(
        [
            (column.name, pa.decimal128(38, column.scale) if column.scale else ARROW_TYPES[column.type])
            for column in relation.columns
        ]
    )


def _definition(stream: DerivedStream) -> tuple[str, int, int, int]:
    return stream.sql, stream.retain_rows, stream.retain_ns, stream.lateness_ns


def _declared(declared: StreamSelect, known: Mapping[str, DerivedInput], home: int) -> DerivedStream:
    select, clauses = declared.select, declared.clauses
    query = DerivedQuery(select, query_inputs(known.values()), None, select.name)
    columns = tuple(_column(select, field) for field in query.schema)
    if {column.name: column.type for column in columns}[query.time.lower()] not in _UNITS_NS:
        raise _error(select, f"expected a time of type {', '.join(_UNITS_NS)} in {query.time}, was another")
    return DerivedStream(
        name=select.name,
        sql=select.sql,
        columns=columns,
        time=query.time.lower(),
        inputs=tuple(known[name] for name in query.reads),
        retain_rows=clauses.retain_rows,
        retain_ns=clauses.retain_ns,
        lateness_ns=clauses.lateness_ns,
        home=home,
    )


def _column(select: NamedSelect, field: pa.Field) -> Column:
    scale = field.type.scale if pa.types.is_decimal(field.type) else 0
    kind = "int128" if scale else _TYPES.get(field.type)
    if kind is None or field.name == "weight":
        raise _error(
            select,
            f"expected columns of the types {', '.join(ARROW_TYPES)} with names other than weight, was {field.name} "
            f"of type {field.type}; a CAST gives it another type",
        )
    return Column(field.name.lower(), kind, nullable=True, scale=scale)


def _error(select: NamedSelect, reason: str) -> SqlError:
    return SqlError(reason, file=select.file, line=select.line, column=select.column)
