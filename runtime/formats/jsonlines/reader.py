"""Reader of whole lines of JSON to columns: Arrow's reader, and checks of the values that it wrongly accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from runtime.formats.errors import SchemaError
from runtime.formats.schema import Field

__all__ = ["JsonReader", "Reading", "Refusal", "Wrong", "path_of", "tree_of"]

_DOT: Final = re.compile(r"(?<!\\)\.")
_LONGEST_DECIMAL: Final = 38


class Wrong(msgspec.Struct, frozen=True, eq=False):
    """Values of one field that were read but are not of its type."""

    field: Field
    """Field of the values."""
    rows: Any
    """Boolean array, one per row."""
    reason: str
    """Fault of all of them."""


class Reading(msgspec.Struct, frozen=True, eq=False):
    """Lines as columns."""

    rows: Any
    """`pyarrow.RecordBatch`, one row per line, a column per field."""
    wrong: tuple[Wrong, ...] = ()
    """Values that must not be used."""


class Refusal(msgspec.Struct, frozen=True):
    """Reason for which lines could not be read: at least one of them is bad."""

    reason: str
    """Message of the reader."""
    line: int = -1
    """Index of the line, -1 if unknown; a hint only."""
    path: tuple[str, ...] = ()
    """Keys that lead to the value, if known."""


def path_of(field: Field) -> tuple[str, ...]:
    """Return the keys that lead to a field's value; a dot after a backslash belongs to its key.

    >>> path_of(Field("x", "int64", path=r"order.price\\.usd"))
    ('order', 'price.usd')
    """
    return tuple(key.replace("\\.", ".") for key in _DOT.split(field.path or field.name))


class JsonReader:
    """Reader of lines for a set of fields. If one line is refused, all lines of the call are.

    In addition to Arrow's own rules, a line is refused if it has more than one object, or a decimal that does not fit
    its type's precision. Dates are read as texts and converted afterwards, because Arrow would read numbers of days.
    """

    def __init__(self, fields: Iterable[Field], *, unexpected: str = "ignore") -> None:
        """Prepare the reader. ``unexpected`` is the policy for keys of no field, ``ignore`` or ``error``."""
        self.fields = tuple(fields)
        self._schema = pa.schema([pa.field(f.name, f.parser.arrow_type, f.nullable) for f in self.fields])
        types = [field.parser.arrow_type for field in self.fields]
        tree = tree_of(self.fields)
        self._places = [place for _, place in sorted(_places(tree))]
        self._converted = [(i, type_) for i, type_ in enumerate(types) if _read_as(type_) != type_]
        self._validated = [i for i, type_ in enumerate(types) if _holds(type_, pa.types.is_decimal)]
        self._floats = [i for i, type_ in enumerate(types) if _holds(type_, pa.types.is_floating)]
        self._checked = [(i, check) for i, f in enumerate(self.fields) if (check := f.parser.column_check)]
        self._options = pajson.ParseOptions(
            explicit_schema=pa.schema(self._arrow_fields(tree)),
            unexpected_field_behavior=unexpected,
            newlines_in_values=False,
        )

    def _arrow_fields(self, tree: dict[str, Any]) -> list[Any]:
        """Return the request to Arrow's reader for a part of the tree."""
        return [
            pa.field(
                key,
                pa.struct(self._arrow_fields(node))
                if isinstance(node, dict)
                else _read_as(self.fields[node].parser.arrow_type),
            )
            for key, node in tree.items()
        ]

    def read(self, text: Any, lines: int) -> Reading | Refusal:
        """Read ``lines`` lines, each of which begins with ``{`` and ends with ``}``."""
        options = pajson.ReadOptions(use_threads=False, block_size=len(text) + 1)
        try:
            table = pajson.read_json(pa.BufferReader(text), read_options=options, parse_options=self._options)
            if table.num_rows != lines:
                return Refusal("more than one value in a line")
            return self._reading(table.combine_chunks().to_batches()[0])
        except pa.ArrowInvalid as error:
            return _refusal(str(error))

    def _reading(self, batch: Any) -> Reading:
        """Return the fields' columns out of the nested ones; raise `pyarrow.ArrowInvalid` for a misfit."""
        columns = [
            batch.column(place[0]) if len(place) == 1 else pc.struct_field(batch.column(place[0]), place[1:])
            for place in self._places
        ]
        for i, arrow_type in self._converted:
            columns[i] = columns[i].cast(arrow_type)
        for i in self._validated:
            columns[i].validate(full=True)
        wrong = [
            Wrong(field, _to_numpy(column.is_null()), "missing or null")
            for field, column in zip(self.fields, columns, strict=True)
            if not field.nullable and column.null_count
        ]
        wrong += [
            Wrong(self.fields[i], ~_to_numpy(finite), "not a finite number")
            for i in self._floats
            if (finite := _finite(columns[i])) is not None
        ]
        wrong += [
            Wrong(self.fields[i], ~_to_numpy(pc.fill_null(good, True)), f"not a value of {self.fields[i].type}")
            for i, check in self._checked
            if pc.all(good := check(columns[i]), min_count=0).as_py() is False
        ]
        if not columns:
            return Reading(pa.RecordBatch.from_struct_array(batch.to_struct_array()))
        return Reading(pa.RecordBatch.from_arrays(columns, schema=self._schema), tuple(wrong))


def tree_of(fields: Iterable[Field]) -> dict[str, Any]:
    """Return the positions of the fields by their keys, objects as dictionaries; raise `SchemaError` if two collide."""
    tree: dict[str, Any] = {}
    for position, field in enumerate(fields):
        *parents, last = path_of(field)
        node = tree
        for key in parents:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise SchemaError(f"expected paths that do not lead through each other, was {field.path!r}")
        if last in node:
            raise SchemaError(f"expected one field for each path, was {field.path or field.name!r} again")
        node[last] = position
    return tree


def _places(tree: dict[str, Any], place: tuple[int, ...] = ()) -> Iterator[tuple[int, list[int]]]:
    """Yield each field with its position at each level of the read columns."""
    for i, node in enumerate(tree.values()):
        if isinstance(node, dict):
            yield from _places(node, (*place, i))
        else:
            yield node, [*place, i]


def _read_as(arrow_type: Any) -> Any:
    """Return the type to request from Arrow's reader: it reads no dates from texts, and long decimals overflow."""
    if pa.types.is_date(arrow_type):
        return pa.string()
    if pa.types.is_decimal128(arrow_type) and arrow_type.precision + arrow_type.scale > _LONGEST_DECIMAL:
        return pa.decimal256(arrow_type.precision, arrow_type.scale)
    if pa.types.is_list(arrow_type):
        return pa.list_(_read_as(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        members = [arrow_type.field(i) for i in range(arrow_type.num_fields)]
        return pa.struct([pa.field(member.name, _read_as(member.type)) for member in members])
    return arrow_type


def _holds(arrow_type: Any, wanted: Any) -> bool:
    """Return True if a type, or a type nested in it, is one of these."""
    if pa.types.is_nested(arrow_type):
        return any(_holds(arrow_type.field(i).type, wanted) for i in range(arrow_type.num_fields))
    return bool(wanted(arrow_type))


def _finite(column: Any) -> Any:
    """Return which values are finite, or None if all are; the reader reads a number that is too large as infinite."""
    if pa.types.is_nested(column.type):
        if not _all_finite(column):
            raise pa.ArrowInvalid("not a finite number")
        return None
    finite = pc.is_finite(column)
    return None if pc.all(finite, min_count=0).as_py() else pc.fill_null(finite, True)


def _all_finite(column: Any) -> bool:
    if pa.types.is_nested(column.type):
        children = [column.flatten()] if pa.types.is_list(column.type) else column.flatten()
        return all(_all_finite(child) for child in children if _holds(child.type, pa.types.is_floating))
    return pc.all(pc.is_finite(column), min_count=0).as_py() is not False


def _refusal(message: str) -> Refusal:
    line, path = re.search(r" in row (\d+)$", message), re.search(r"Column\(/(.*?)\)", message)
    reason = message.removeprefix("JSON parse error: ").partition(" in row ")[0]
    if path and reason == f"{path[0]} was specified twice":
        reason = f"the key {path[1].rpartition('/')[2]} occurs twice"
    return Refusal(reason, int(line[1]) if line else -1, tuple(path[1].split("/")) if path else ())


def _to_numpy(mask: Any) -> Any:
    return mask.to_numpy(zero_copy_only=False).astype(np.bool_)
