"""Feeds of nodes: changes of rows in one step, as the kernel of a consumer reads them (`Rows`).

A map's deltas (`Feed`) are either computed in the kernel from the rows of its relation (in one process), or arrive
added up by key (on Spark, whose source adds them up). A node is written once for both: `Rows.open` writes the loop over
the rows and binds keys, weight and weighted sums of each. Operators' changes are `Rows` too, see `nodes.flow`.
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
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, load_value, store_value
from runtime.views.errors import ViewError
from runtime.views.strings import Strings
from runtime.views.tuples import Column, RowReader, columns_of, row_reader, row_writer

__all__ = ["ColumnBatch", "ColumnFeed", "Feed", "LoadedColumns", "MapFeed", "Row", "Rows", "key_fields", "stop"]

Words = npt.NDArray[np.int64]


class ColumnBatch(Batch):
    """A batch whose columns are fields: for each one array of values, and one of NULL flags if it is nullable."""

    def __init__(self, fields: Sequence[Field], room: int = 64) -> None:
        self.fields = tuple(fields)
        widths: list[int] = []
        self._places: dict[str, int] = {}
        for field in fields:
            self._places[field.name] = 2 + len(widths)
            widths += [field.value_words, *([1] if field.nullable else [])]
        super().__init__(widths, room)
        self.read: set[str] = set()
        """Fields that some kernel reads."""
        self._own = [self.array(place) for place in range(1, 2 + len(widths))]
        self._is_own = True
        self._write = row_writer(())
        self._written = -1
        self.binding: ColumnBinding | None = None
        """Binds columns of Arrow tables, once every node of the graph is compiled."""

    def place(self, name: str) -> int:
        """Return the place of a field's values; that of its NULL flags follows."""
        return self._places[name]

    def word_place(self, field: Field) -> int | None:
        """Return the place of a field that is one word a row; None: it is more."""
        return None if field.words > 1 else self._places[field.name]

    def _value_cells(self, k: KernelSource, field: Field, row: str) -> tuple[str, str, str]:
        """Return the location of a field of a row: cells, place of the value, and cell of the NULL flag, if any."""
        place = self._places[field.name]
        flag = f"{k.cells(self, place + 1)}[{row}]" if field.nullable else ""
        return k.cells(self, place), f"2 * {row}" if field.type == "int128" else row, flag

    def load_column(self, k: KernelSource, field: Field, row: str) -> Value:
        """Write the lines that read a field of a row."""
        self.read.add(field.name)
        cells, place, flag = self._value_cells(k, field, row)
        return load_value(k, field, cells, place, k.assign("n", flag) if flag else None)

    def store(self, k: KernelSource, field: Field, value: Value, row: str) -> None:
        """Lines that write a field of a row; the value is of the field's type. The value of a NULL is written as 0."""
        store_value(k, field, value, self._value_cells(k, field, row))

    def put_room(self, k: KernelSource, count: str, stops: Callable[[int], None]) -> None:
        """Lines that stop the kernel unless there is room for so many rows more; ``stops`` writes those that do."""
        status, meta = k.need(lambda: self.grow(2 * self.room + 2)), k.cells(self, 0)
        with k.block(f"if {meta}[{self.ROWS}] + {count} > {meta}[{self.ROOM}]:"):
            stops(status)

    def put_append(self, k: KernelSource, values: Sequence[Value], weight: str) -> None:
        """Lines that append a row, for which there is room; the values are of the types of the fields."""
        meta = k.cells(self, 0)
        number = k.assign("o", f"{meta}[{self.ROWS}]")
        for field, value in zip(self.fields, values, strict=True):
            self.store(k, field, value, number)
        k.put(f"{k.cells(self, 1)}[{number}] = {weight}", f"{meta}[{self.ROWS}] = {number} + 1")

    def fill_arrow(self, table: pa.Table | pa.RecordBatch, strings: Strings) -> None:
        """Make the rows of a table (its last column is the weight) those of the batch; plain columns are not copied.

        Only fields that some kernel reads are looked at; others may be missing.
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
        """Return a table as one record batch; of several chunks those columns that are read, joined once."""
        batches = table.to_batches()
        if len(batches) > 1:
            names = [name for name in table.schema.names[:-1] if name in self.read]
            chosen = [table.schema.get_all_field_indices(name)[0] for name in dict.fromkeys(names)]
            batches = table.select([*chosen, table.num_columns - 1]).combine_chunks().to_batches()
        if len(batches) > 1:  # Arrow's strings end at 2 GiB a column
            raise ViewError(f"expected at most 2 GiB of strings in a step, was {table.nbytes} bytes of rows")
        return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)

    def read_fields(self) -> dict[Field, int]:
        """Return the fields that some kernel reads, with the place of each."""
        return {field: self._places[field.name] for field in self.fields if field.name in self.read}

    def read_columns(self) -> list[tuple[int, int]]:
        """Return the arrays that some kernel reads, the weights among them: place, and words of a row."""
        columns = [(1, 1)]
        for field, place in self.read_fields().items():
            columns += [(place, field.value_words), *([(place + 1, 1)] if field.nullable else [])]
        return columns

    @cached_property
    def reader(self) -> RowReader:
        """Reads its rows as tuples of Python values."""
        return row_reader(columns_of(self.fields))

    def lend(self) -> None:
        """Note that its arrays are another owner's from now on; `append` begins with its own ones, without rows."""
        self._is_own = False

    def forget(self) -> None:
        """Forget the rows, and let the table go that holds them."""
        if not self._is_own:
            self._put_own()
        self.views[0][0] = 0
        if self.binding is not None:
            self.binding.release()

    def append(self, row: Sequence[Any], weight: int, strings: Strings) -> None:
        """Add a row of Python values; raise `ViewError` for one that its column cannot hold."""
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
        """Own arrays with room for so many rows: for another kernel that appends to them."""
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
    """Return the relation's column of this name; the weight, which stands last, may have the same."""
    return rows.column(rows.schema.get_all_field_indices(name)[0])


def words_of_column(field: Field, column: pa.ChunkedArray | pa.Array, strings: Strings) -> list[Words]:
    """Return a column's words, and the NULL flags if it is nullable; raise `ViewError` for a NULL where none may be."""
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
    """Source for one row of `Rows`."""

    values: dict[str, Value]
    """The requested columns by name, each in its field's type."""
    weight: str
    """An identifier, int64; of any sign."""


class Rows(ABC):
    """Changes of rows in one step, as the kernel of a consumer reads them."""

    fields: tuple[Field, ...]
    """Columns; their names do not repeat."""
    is_distinct: bool = False
    """True if no two rows of a step are equal in all columns, and no weight is 0."""
    filters: bool = False
    """True if `row` may skip rows."""
    batches: tuple[ColumnBatch, ...]
    """Batches that the rows come from."""

    @contextmanager
    def open(
        self, k: KernelSource, names: Collection[str] | None = None, *, stays_at_end: bool = False
    ) -> Iterator[Row]:
        """Write the loop over the rows, whose body is what the caller writes; ``names``: columns to load (all).

        The loop begins at the kernel's cursor ``s[0]``; behind the loop the cursor is 0 again, or with ``stays_at_end``
        the number of rows, so that the kernel may stop again behind the loop and skips it when it resumes; it then sets
        ``s[0]`` to 0 itself. The number of the row is ``e``. A kernel has one such loop. The body must not contain
        ``continue``; it may end the kernel with `stop`.
        """
        wanted = [field.name for field in self.fields if names is None or field.name in names]
        rows = " + ".join(f"{k.cells(batch, 0)}[{batch.ROWS}]" for batch in self.batches)
        k.put("e = s[0]", f"rows = {rows}")
        with k.block("while e < rows:"):
            with self.row(k, wanted, "e") as row:
                # A value that is loaded when it is first used would be missing behind a condition of the caller.
                yield Row({name: k.emitter.used(row.values[name]) for name in wanted}, row.weight)
            k.put("e += 1")
        k.put("s[0] = e" if stays_at_end else "s[0] = 0")

    @abstractmethod
    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        """Write the lines that bind some columns of the row with a number (an identifier).

        What the caller writes next belongs to the row: it may be skipped because of a condition. Values may be loaded
        only when they are looked up, which the caller does before it opens a block of its own. Whether they are used
        (`Emitter.used`) is up to the caller.
        """

    def field(self, name: str) -> Field:
        """Return the field of a name."""
        return next(field for field in self.fields if field.name == name)

    def stored(self, names: Sequence[str]) -> ColumnBatch | None:
        """Return a batch with these columns of all rows; None: only a kernel could fill one."""
        del names
        return None


def stop(k: KernelSource, status: int) -> None:
    """Write the lines that end the kernel at the present row of `Rows.open`, of which nothing was applied yet."""
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
        """The map's keys."""
        self.sums = tuple(sums)
        """Names of its sums."""
        self.sum_fields = _sum_fields(sums)
        """Its sums as columns, which have other names than all keys."""
        self.fields = (*self.keys, *self.sum_fields)
        self.batch = batch
        """The rows that wait."""
        self.batches = (batch,)

    @abstractmethod
    def key_place(self, name: str) -> int | None:
        """Return the place of the batch's column whose cells are the words of this key; None if there is none."""

    def sums_of(self, row: Row) -> list[Value]:
        """Return the sums of a row in their order."""
        return [row.values[field.name] for field in self.sum_fields]

    def wanted(self, columns: Collection[str], prefix: str) -> list[str]:
        """Return the names of those columns that a plan calls so, with a prefix."""
        names = zip(self.fields, (*(key.name for key in self.keys), *self.sums), strict=True)
        return [field.name for field, name in names if prefix + name in columns]

    def named(self, row: Row, prefix: str = "") -> dict[str, Value]:
        """Return the columns of a row by the names that the plan has for them, and the weight."""
        names = dict(zip((field.name for field in self.sum_fields), self.sums, strict=True))
        values = {prefix + names.get(name, name): value for name, value in row.values.items()}
        return {**values, f"{prefix}weight": Value(row.weight, "int64")}


def _sum_fields(sums: Sequence[str]) -> tuple[Field, ...]:
    return tuple(Field(f"sum {name}", "int128") for name in sums)  # no name of a plan has spaces


class MapFeed(Feed):
    """Rows of the map's relation; condition, keys and sums are computed in the kernel."""

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
        with nullcontext() if where is None else k.block(f"if {k.emitter.truth(where, columns)}:"):
            values = {}
            for key, field in zip(self._map.keys, self.keys, strict=True):
                if field.name in names:
                    values[field.name] = k.emitter.column(key.expr, columns, key.type)
            for total, field in zip(self._map.sums, self.sum_fields, strict=True):
                if field.name in names:
                    values[field.name] = _weighted(k, k.emitter.value(total.expr, columns), weight)
            yield Row(values, weight)


def _weighted(k: KernelSource, value: Value, weight: str) -> Value:
    """Write the lines that multiply a value, 0 where it is NULL, by a weight."""
    if value.type is None:
        return Value("wide(0)", "int128", None, 1)
    if value.type == "bool":
        value = k.emitter.cast(value, "int64")
    x, flag = k.name("x"), k.name("f")
    if value.bits <= 62 + 1:
        k.put(f"{x} = {value.wide_text} * wide({weight})")
    else:
        k.put(f"{x}, {flag} = weighted({value.wide_text}, {weight})", f"bad |= {flag}")
    if value.null is not None:
        x = k.assign("x", f"wide(0) if {value.null} else {x}")
    return Value(x, "int128", None, 126)


class ColumnFeed(Feed):
    """Rows that were added up by key: keys, weight and sums are columns of a batch of its own."""

    def __init__(self, keys: Sequence[Field], sums: Sequence[str], room: int = 64) -> None:
        super().__init__(keys, sums, ColumnBatch([*keys, *_sum_fields(sums)], room))

    def key_place(self, name: str) -> int | None:
        return self.batch.word_place(next(field for field in self.keys if field.name == name))

    @contextmanager
    def row(self, k: KernelSource, names: Sequence[str], number: str) -> Iterator[Row]:
        weight = k.assign("w", f"{k.cells(self.batch, 1)}[{number}]")
        yield Row(LoadedColumns(k, self.batch, number), weight)

    def fill(self, tables: Sequence[pa.Table], strings: Strings) -> None:
        """Make these payloads together the rows that wait."""
        parts: list[list[Words]] = []
        for table in tables:
            columns = [_int64(table.column("weight"))]
            for name, field in zip((*(key.name for key in self.keys), *self.sums), self.fields, strict=True):
                columns += words_of_column(field, table.column(name), strings)
            parts.append(columns)
        weight, *columns = parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]
        self.batch.fill(weight, columns)


def key_fields(map_: Map, relation: Relation, strings: Strings) -> tuple[Field, ...]:
    """Return the map's keys; a trial run of their expressions says which may be NULL."""
    trial = KernelSource("trial", strings)
    trial.begin()
    columns = {
        column.name: Value("0", column.type, "False" if column.nullable else None) for column in relation.columns
    }
    fields = []
    for key in map_.keys:
        value = trial.emitter.value(key.expr, columns)
        fields.append(Field(key.name, key.type, value.null is not None))
    return tuple(fields)
