"""From an entry of a map to a row of a view: outputs, HAVING, and the row of nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runtime.compiler.program import Column, Expr
from runtime.views.tuplewise.expressions import converted, expression
from runtime.views.tuplewise.source import Source, Value, tuple_of

__all__ = ["RowShape", "put_change", "put_row", "put_row_function"]

Constant = int | float | str | bool | None


class RowShape:
    """What a row of a view is made of."""

    __slots__ = ("columns", "empty", "having", "outputs")

    def __init__(
        self,
        columns: Sequence[Column],
        outputs: Sequence[Expr],
        having: Expr | None,
        empty: Sequence[Constant] | None,
    ) -> None:
        self.columns = columns
        self.outputs = outputs
        self.having = having
        self.empty = empty


def put_row(source: Source, shape: RowShape, values: Mapping[str, Value]) -> None:
    """Lines that return the row of a group that is there, None where HAVING is not true."""
    if shape.having is not None:
        having = expression(source, shape.having, values)
        with source.block(f"if not {having.text}:"):  # neither false nor NULL
            source.put("return None")
    outputs = []
    for output, column in zip(shape.outputs, shape.columns, strict=True):
        outputs.append(converted(source, expression(source, output, values), column.type).text)
    source.put(f"return ({', '.join(outputs)},)")


def put_row_function(source: Source, shape: RowShape, keys: Mapping[str, bool], sums: Sequence[str]) -> str:
    """A function of key and entry (None: not held) that gives a group's row, or None where it has none.

    ``keys`` are names and whether they may be NULL.
    """
    name = source.name("row")
    values = {key: Value(source.name("k"), nullable) for key, nullable in keys.items()}
    with source.block(f"def {name}(key, entry):"):
        with source.block("if entry is None or entry[0] <= 0:"):
            source.put(f"return {put_empty(source, shape)}")
        if keys:
            source.put(f"{tuple_of([value.text for value in values.values()])} = key")
        values |= {each: Value(source.name("s")) for each in ("weight", *sums)}
        source.put(f"({', '.join(values[each].text for each in ('weight', *sums))},) = entry")
        put_row(source, shape, values)
    return name


def put_empty(source: Source, shape: RowShape) -> str:
    """The row of no rows, or None."""
    if shape.empty is None:
        return "None"
    values = zip(shape.empty, shape.columns, strict=True)
    return source.hold("x", tuple(float(v) if c.type == "float64" and v is not None else v for v, c in values))


def put_change(source: Source, view: str, function: str, key: str, entries: tuple[str, str]) -> None:
    """Lines that report a group's old row as gone and its new one as come, if they differ."""
    before, after = (source.assign("r", f"{function}({key}, {entry})").text for entry in entries)
    with source.block(f"if {before} != {after}:"):
        with source.block(f"if {before} is not None:"):
            source.put(f"out.append(({view}, {before}, -1))")
        with source.block(f"if {after} is not None:"):
            source.put(f"out.append(({view}, {after}, 1))")
