"""Inputs of nodes: the rows that changed in one step, as the kernel of a node reads them (`Rows`).

The deltas of a map (`Feed`) come in one of two forms. If the shard gets the deltas of relations, a node's kernel
computes the map's deltas from the changed rows of the map's relation (`MapFeed`). If the shard gets payloads, as on
Spark, the map's deltas have been added up by key already (`ColumnFeed`). A node's kernel is written once for both:
`Rows.open` writes the loop over the rows, and binds the keys, the weight and the weighted sums of each row to
variables. Changes of operators are `Rows`, too; see `nodes.flow`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.plain import NAN_WORD
from runtime.native.structures import Batch
from runtime.plan import Col, Map, Relation
from runtime.state import words_of_decimals
from runtime.views.arrow_columns import ColumnBinding
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, load_value, store_value
from runtime.views.errors import ViewError
from runtime.views.strings import Strings
from runtime.views.tuples import Column, RowReader, columns_of, row_reader, row_writer

__all__ = ["ColumnBatch", "ColumnFeed", "Feed", "LoadedColumns", "MapFeed", "Row", "Rows", "key_fields", "stop"]

Words = npt.NDArray[np.int64]


class ColumnBatch(Batch):
    """A batch of rows by column: for each field an array of values, and one of NULL flags if the field is nullable.

    The arrays belong to the batch or to another owner, such as an Arrow table (`fill_arrow`). `append` adds rows only
    to arrays of the batch.
    """

    def __init__(self, fields: Sequence[Field], room: int = 64) -> None:
        """Make an empty batch with room for this many rows."""
        self.fields = tuple(fields)
        widths: list[int] = []
        self._places: dict[str, int] = {}
        for field in fields:
            self._places[field.name] = 2 + len(widths)
            widths += [field.value_words, *([1] if field.nullable else [])]
        super().__init__(widths, room)
        self.read: set[str] = set()
        """Names of fields that some kernel reads."""
        self._own = [self.array(place) for place in range(1, 2 + len(widths))]
        self._is_own = True
        self._write = row_writer(())
        self._written = -1
        self.binding: ColumnBinding | None = None
        """Binding of the columns of Arrow tables to the arrays; None until every node of the graph is compiled."""

    def place(self, name: str) -> int:
        """Return the number of the array with a field's values; the next array has the field's NULL flags."""
        return self._places[name]

    def word_place(self, field: Field) -> int | None:
        """Return the number of a field's array if it has one word a row and no NULL flags; else None."""
        return None if field.words > 1 else self._places[field.name]

    def _value_cells(self, k: KernelSource, field: Field, row: str) -> tuple[str, str, str]:
        """Return, as kernel source, a field's cells, the place of a row's value in them, and the cell of its NULL flag.

        The cell of the flag is empty if the field is not nullable.
        """
        place = self._places[field.name]
        flag = f"{k.cells(self, place + 1)}[{row}]" if field.nullable else ""
        return k.cells(self, place), f"2 * {row}" if field.type == "int128" else row, flag

    def load_column(self, k: KernelSource, field: Field, row: str) -> Value:
        """Write the lines that read a field of a row."""
        self.read.add(field.name)
        cells, place, flag = self._value_cells(k, field, row)
        return load_value(k, field, cells, place, k.assign("n", flag) if flag else None)

    def store(self, k: KernelSource, field: Field, value: Value, row: str) -> None:
        """Write the lines that store a value, of the field's type, in a row; for NULL they store 0 and the flag."""
        store_value(k, field, value, self._value_cells(k, field, row))

    def put_room(self, k: KernelSource, count: str, stops: Callable[[int], None]) -> None:
        """Write the lines that check that there is room for ``count`` more rows.

        ``stops`` writes the lines that end the kernel if there is no room; its argument is the kernel's status. The
        batch is then grown, and the kernel called again.
        """
        status, meta = k.need(lambda: self.grow(2 * self.room + 2)), k.cells(self, 0)
        with k.block(f"if {meta}[{self.ROWS}] + {count} > {meta}[{self.ROOM}]:"):
            stops(status)

    def put_append(self, k: KernelSource, values: Sequence[Value], weight: str) -> None:
        """Write the lines that append a row, which must have room; the values are of the types of the fields."""
        meta = k.cells(self, 0)
        number = k.assign("o", f"{meta}[{self.ROWS}]")
        for field, value in zip(self.fields, values, strict=True):
            self.store(k, field, value, number)
        k.put(f"{k.cells(self, 1)}[{number}] = {weight}", f"{meta}[{self.ROWS}] = {number} + 1")

    def fill_arrow(self, table: pa.Table | pa.RecordBatch, strings: Strings) -> None:
        """Set the batch's rows to those of a table, whose last column is the weight; plain columns are not copied.

        Only fields that some kernel reads are needed; others may be missing.
        """
        self._is_own = False
        rows = table if isinstance(table, pa.RecordBatch) else self._joined(table)
        rest = None if self.binding is None else self.binding.bind(rows)
        if rest is None:
            rest = tuple(self.read_fields())
            self.put(1, _int64(rows.column(rows.num_columns - 1)))
        for field in rest:
            place = self._places[field.name]
            for offset, words in enumerate(words_of_column(field, _first_column(rows, field.name), strings)):
                self.put(place + offset, words)
        self.views[0][0] = self.views[0][1] = rows.num_rows

    def _joined(self, table: pa.Table) -> pa.RecordBatch:
        """Return a table as one record batch; if it has several chunks, without the columns that no kernel reads."""
        batches = table.to_batches()
        if len(batches) > 1:
            names = [name for name in table.schema.names[:-1] if name in self.read]
            chosen = [table.schema.get_all_field_indices(name)[0] for name in dict.fromkeys(names)]
            batches = table.select([*chosen, table.num_columns - 1]).combine_chunks().to_batches()
        if len(batches) > 1:  # an Arrow array has at most 2 GiB of strings
            raise ViewError(f"expected at most 2 GiB of strings in a step, was {table.nbytes} bytes of rows")
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    def read_fields(self) -> dict[Field, int]:
        """Return a dict from each field that some kernel reads to the number of its array."""
        return {field: self._places[field.name] for field in self.fields if field.name in self.read}

    def read_columns(self) -> list[tuple[int, int]]:
        """Return the arrays that some kernel reads, including the weights: (number, words of a row)."""
        columns = [(1, 1)]
        for field, place in self.read_fields().items():
            columns += [(place, field.value_words), *([(place + 1, 1)] if field.nullable else [])]
        return columns

    @cached_property
    def reader(self) -> RowReader:
        """Function that reads the batch's rows as tuples of Python values."""
        return row_reader(columns_of(self.fields))

    def lend(self) -> None:
        """Mark the arrays as those of another owner; the next `append` first restores the batch's own, empty arrays."""
        self._is_own = False

    def forget(self) -> None:
        """Drop the rows, and release the table that contains them."""
        if not self._is_own:
            self._put_own()
        self.views[0][0] = 0
        if self.binding is not None:
            self.binding.release()

    def append(self, row: Sequence[Any], weight: int, strings: Strings) -> None:
        """Append a row of Python values; raise `ViewError` for a value that its column cannot hold."""
        if not self._is_own or self._written != len(self.read):
            self._take_back()
        views = self.views
        meta = views[0]
        at = meta[0]
        if at == meta[1]:
            self.grow(2 * at)
            self._own = [self.array(place) for place in range(1, 2 + len(self.widths))]
        try:
            self._write(views, at, row, strings.number)
        except _MISFITS as error:
            raise self._misfit(at, row, strings, error) from None
        views[1][at] = weight
        meta[0] = at + 1

    def reserve(self, room: int) -> None:
        """Restore the batch's own arrays, with room for this many rows, so that another kernel can append to them."""
        if not self._is_own:
            self._put_own()
        self.grow(room)
        self._own = [self.array(place) for place in range(1, 2 + len(self.widths))]

    def _take_back(self) -> None:
        if not self._is_own:
            self._put_own()
        self._written = len(self.read)
        self._write = row_writer(self._row_columns())

    def _put_own(self) -> None:
        for place, array in enumerate(self._own, 1):
            self.put(place, array)
        self._is_own = True
        self.views[0][0], self.views[0][1] = 0, len(self._own[0])

    def _row_columns(self) -> tuple[Column, ...]:
        columns = zip(self.fields, columns_of(self.fields), strict=True)
        return tuple(column for field, column in columns if field.name in self.read)

    def _misfit(self, at: int, row: Sequence[Any], strings: Strings, error: Exception) -> ViewError:
        for column in self._row_columns():
            try:
                row_writer((column,))(self.views, at, row, strings.number)
            except _MISFITS:
                kind, _, number, _ = column
                name, value = self.fields[number].name, row[number] if number < len(row) else "missing"
                return ViewError(f"expected a {kind} in column {name}, was {value!r}: {error}")
        return ViewError(f"expected a row, was {row!r}: {error}")


_MISFITS: Final = (TypeError, ValueError, OverflowError, AttributeError, IndexError)
"""Errors for a value that its column cannot hold."""


def _first_column(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return the first column of this name; the last column, which is the weight, may have the same name."""
    return rows.column(rows.schema.get_all_field_indices(name)[0])


def words_of_column(field: Field, column: pa.ChunkedArray | pa.Array, strings: Strings) -> list[Words]:
    """Return a column's words, and its NULL flags if the field is nullable; otherwise raise `ViewError` for a NULL."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    flags: list[Words] = []
    if field.nullable:
        if array.null_count:
            flags = [np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.int64)]
        else:
            flags = [np.zeros(len(array), np.int64)]
    elif array.null_count:
        raise ViewError(f"expected no NULL in column {field.name}, was {array.null_count}")
    if field.type == "string":
        return [strings.encode(array), *flags]
    if field.type == "int128":
        return [_wide_words(array), *flags]
    if field.type == "float64":
        values = np.asarray(array.fill_null(0.0).to_numpy(zero_copy_only=False)) + 0.0  # -0.0 becomes 0.0
        words = values.view(np.int64)
        words[np.isnan(values)] = NAN_WORD
        return [words, *flags]
    if field.type == "date":
        array = array.cast(pa.int32())
    elif field.type == "timestamp":
        array = array.cast(pa.timestamp("us")).cast(pa.int64())
    return [_int64(array), *flags]


def _int64(array: pa.Array | pa.ChunkedArray) -> Words:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if array.null_count:
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    if pa.types.is_int64(array.type):
        return np.frombuffer(array.buffers()[1], np.int64, len(array), 8 * array.offset) if len(array) else _NONE
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)


_NONE = np.zeros(0, np.int64)


def _wide_words(array: pa.Array) -> Words:
    if pa.types.is_integer(array.type):
        low = _int64(array)
        words = np.empty((len(low), 2), np.int64)
        words[:, 0], words[:, 1] = low, low >> 63
        return words.reshape(-1)
    words = words_of_decimals(array)
    if array.null_count:
        words = words.copy()
        words[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.ascontiguousarray(words).reshape(-1)


class Row(msgspec.Struct, frozen=True):
    """Kernel source for one row of `Rows`: the variables to which its columns and its weight are bound."""

    values: dict[str, Value]
    """The requested columns by name, each in its field's type."""
    weight: str
    """Identifier of the weight, an int64 of any sign."""


class Rows(ABC):
    """Rows that changed in one step, with their weights, as the kernel of a node reads them."""

    fields: tuple[Field, ...]
    """Columns; their names do not repeat."""
    is_distinct: bool = False
    """True if no two rows of a step are equal in all columns, and no weight is 0."""
    filters: bool = False
    """True if `row` may skip rows."""
    batches: tuple[ColumnBatch, ...]
    """Batches that contain the rows."""

    @contextmanager
    def open(
        self, k: KernelSource, names: Collection[str] | None = None, *, stays_at_end: bool = False
    ) -> Iterator[Row]:
        """Write the loop over the rows; the caller writes its body. ``names`` are the columns to load, by default all.

        The loop begins at the row of the kernel's cursor ``s[0]``; ``e`` is the number of the current row. After the
        loop the cursor is 0; with ``stays_at_end`` it is the number of rows. In that case a kernel that stops after the
        loop skips the loop when it is resumed, and has to set the cursor to 0 itself. A kernel has one such loop. The
        body must not contain ``continue``; it may end the kernel with `stop`.
        """
        wanted = [field.name for field in self.fields if names is None or field.name in names]
        rows = " + ".join(f"{k.cells(batch, 0)}[{batch.ROWS}]" for batch in self.batches)
        k.put("e = s[0]", f"rows = {rows}")
        with k.block("while e < rows:"):
            with self.row(k, wanted, "e") as row:
                # All values are loaded here: a value that was loaded within a condition of the caller would be
                # undefined after that condition.
                yield Row({name: Emitter(k).used(row.values[name]) for name in wanted}, row.weight)
            k.put("e += 1")
        k.put("s[0] = e" if stays_at_end else "s[0] = 0")

    @abstractmethod
    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        """Write the lines that bind some columns of a row to variables; ``number`` is the identifier of its number.

        The lines that the caller writes within the context belong to the row, and are skipped if a condition skips the
        row. Some of the lines that load a value are not written until the caller looks up the value. So the caller
        looks up all values before it opens a block of its own. The caller also marks the values that it uses
        (`Emitter.used`).
        """

    def field(self, name: str) -> Field:
        """Return the field of this name."""
        return next(field for field in self.fields if field.name == name)

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        """Return a batch that contains these columns of all rows; None if only a kernel computes them."""
        del names
        return None


def stop(k: KernelSource, status: int) -> None:
    """Write the lines that end the kernel before the current row of `Rows.open`, at which it resumes."""
    k.put("s[0] = e", f"return -1 if bad else {status}")


class LoadedColumns(dict[str, Value]):
    """Columns of a row of a batch by name, each loaded when it is first looked up."""

    def __init__(self, k: KernelSource, batch: ColumnBatch, number: str) -> None:
        super().__init__()
        self._k, self._batch, self._number = k, batch, number
        self._fields = {field.name: field for field in batch.fields}

    def __missing__(self, name: str) -> Value:
        self[name] = value = self._batch.load_column(self._k, self._fields[name], self._number)
        return value


class Feed(Rows):
    """The deltas of one map: its keys, then its weighted sums of 128 bits."""

    def __init__(self, keys: Sequence[Field], sums: Sequence[str], batch: ColumnBatch) -> None:
        self.keys = tuple(keys)
        """Keys of the map."""
        self.sums = tuple(sums)
        """Names of the map's sums."""
        self.sum_fields = _sum_fields(sums)
        """Fields of the sums; their names differ from those of all keys."""
        self.fields = (*self.keys, *self.sum_fields)
        self.batch = batch
        """Rows of the step: those of the map's relation, or rows added up by key."""
        self.batches = (batch,)

    @abstractmethod
    def key_place(self, name: str) -> int | None:
        """Return the number of the batch's array whose cells are the values of this key; None if there is none."""

    def sums_of(self, row: Row) -> list[Value]:
        """Return the sums of a row in the order of the map."""
        return [row.values[field.name] for field in self.sum_fields]

    def wanted(self, columns: Collection[str], prefix: str) -> list[str]:
        """Return the names of the fields for which ``columns`` has the prefix followed by the name in the plan."""
        names = zip(self.fields, (*(key.name for key in self.keys), *self.sums), strict=True)
        return [field.name for field, name in names if prefix + name in columns]

    def named(self, row: Row, prefix: str = "") -> dict[str, Value]:
        """Return the columns and the weight of a row; each key is the prefix followed by the name in the plan."""
        names = dict(zip((field.name for field in self.sum_fields), self.sums, strict=True))
        values = {prefix + names.get(name, name): value for name, value in row.values.items()}
        return {**values, f"{prefix}weight": Value(row.weight, "int64")}


def _sum_fields(sums: Sequence[str]) -> tuple[Field, ...]:
    return tuple(Field(f"sum {name}", "int128") for name in sums)  # no name of a plan has spaces


class MapFeed(Feed):
    """Deltas of a map as changed rows of its relation; the kernel computes the map's condition, keys and sums."""

    def __init__(self, map_: Map, relation: Relation, batch: ColumnBatch, strings: Strings) -> None:
        super().__init__(key_fields(map_, relation, strings), [total.name for total in map_.sums], batch)
        self._map = map_
        self.filters = map_.where is not None

    def key_place(self, name: str) -> int | None:
        key = next(key for key in self._map.keys if key.name == name)
        column = next((field for field in self.batch.fields if key.expr == Col(field.name)), None)
        return None if column is None or column.type != key.type else self.batch.word_place(column)

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        weight, columns = k.assign("w", f"{k.cells(self.batch, 1)}[{number}]"), LoadedColumns(k, self.batch, number)
        where = self._map.where
        with nullcontext() if where is None else k.block(f"if {Emitter(k).truth(where, columns)}:"):
            values = {}
            for key, field in zip(self._map.keys, self.keys, strict=True):
                if field.name in names:
                    values[field.name] = Emitter(k).column(key.expr, columns, key.type)
            for total, field in zip(self._map.sums, self.sum_fields, strict=True):
                if field.name in names:
                    values[field.name] = _weighted(k, Emitter(k).value(total.expr, columns), weight)
            yield Row(values, weight)


def _weighted(k: KernelSource, value: Value, weight: str) -> Value:
    """Write the lines that multiply a value by a weight, with 0 for NULL; return the product."""
    if value.type is None:
        return Value("wide(0)", "int128", None, 1)
    if value.type == "bool":
        value = Emitter(k).cast(value, "int64")
    x, flag = k.name("x"), k.name("f")
    if value.bits <= 62 + 1:
        k.put(f"{x} = {value.wide_text} * wide({weight})")
    else:
        k.put(f"{x}, {flag} = weighted({value.wide_text}, {weight})", f"bad |= {flag}")
    if value.null is not None:
        x = k.assign("x", f"wide(0) if {value.null} else {x}")
    return Value(x, "int128", None, 126)


class ColumnFeed(Feed):
    """Deltas of a map that have been added up by key: keys, weight and sums are columns of the feed's own batch."""

    def __init__(self, keys: Sequence[Field], sums: Sequence[str], room: int = 64) -> None:
        super().__init__(keys, sums, ColumnBatch([*keys, *_sum_fields(sums)], room))

    def key_place(self, name: str) -> int | None:
        return self.batch.word_place(next(field for field in self.keys if field.name == name))

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        weight = k.assign("w", f"{k.cells(self.batch, 1)}[{number}]")
        yield Row(LoadedColumns(k, self.batch, number), weight)

    def fill(self, tables: Sequence[pa.Table], strings: Strings) -> None:
        """Set the rows of the batch to those of all these payloads."""
        parts: list[list[Words]] = []
        for table in tables:
            columns = [_int64(table.column("weight"))]
            for name, field in zip((*(key.name for key in self.keys), *self.sums), self.fields, strict=True):
                columns += words_of_column(field, table.column(name), strings)
            parts.append(columns)
        weight, *columns = parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]
        self.batch.fill(weight, columns)


def key_fields(map_: Map, relation: Relation, strings: Strings) -> tuple[Field, ...]:
    """Return the map's keys as fields; a trial run that writes their kernel source shows which may be NULL."""
    trial = KernelSource("trial", strings)
    trial.begin()
    columns = {
        column.name: Value("0", column.type, "False" if column.nullable else None) for column in relation.columns
    }
    fields = []
    for key in map_.keys:
        value = Emitter(trial).value(key.expr, columns)
        fields.append(Field(key.name, key.type, value.null is not None))
    return tuple(fields)
