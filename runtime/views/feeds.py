"""Where nodes read rows from: the deltas of a map, row by row, whatever form they arrive in.

A map's deltas are either computed in the kernel from the rows of its relation (in one process), or arrive added up by
key (on Spark, whose source adds them up). A node is written once for both: `Feed.rows` opens the loop over the rows
and binds keys, weight and weighted sums of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.native.plain import NAN_WORD
from runtime.native.structures import Batch
from runtime.plan import Col, Map, Relation
from runtime.views.arrow_columns import ColumnBinding
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value
from runtime.views.errors import ViewError
from runtime.views.strings import Strings
from runtime.views.tuples import Column, RowReader, columns_of, row_reader, row_writer

__all__ = ["Bound", "ColumnBatch", "Feed", "MapFeed", "PayloadFeed", "key_fields"]

Words = npt.NDArray[np.int64]


class Bound(msgspec.Struct, frozen=True):
    """What a row of a feed binds."""

    row: str
    """Its number."""
    keys: dict[str, Value]
    """By name, each in its field's type."""
    weight: str
    """An identifier, int64."""
    sums: dict[str, Value]
    """By name, weighted, of 128 bits."""

    def named(self, prefix: str = "") -> dict[str, Value]:
        """Everything by name, the weight too."""
        weight = Value(self.weight, "int64")
        return {prefix + name: value for name, value in {**self.keys, **self.sums, "weight": weight}.items()}


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
        """The place of a field's values; that of its NULL flags follows."""
        return self._places[name]

    def word_place(self, field: Field) -> int | None:
        """The place of a field that is one word a row; None: it is more."""
        return None if field.words > 1 else self._places[field.name]

    def load_column(self, k: KernelSource, field: Field, row: str) -> Value:
        """Lines that read a field of a row."""
        self.read.add(field.name)
        place = self._places[field.name]
        null = k.assign("n", f"{k.cells(self, place + 1)}[{row}]") if field.nullable else None
        cells = k.cells(self, place)
        if field.type == "int128":
            return Value(k.assign("v", f"load_wide({cells}, 2 * {row})"), "int128", null, 126, True)
        text = f"{cells}[{row}]"
        text = f"float_of({text})" if field.type == "float64" else text
        return Value(k.assign("v", text), field.type, null, is_word=True)

    def store(self, k: KernelSource, field: Field, value: Value, row: str) -> None:
        """Lines that write a field of a row; the value is of the field's type. The value of a NULL is written as 0."""
        place = self._places[field.name]
        cells = k.cells(self, place)
        if field.nullable:
            flags = k.cells(self, place + 1)
            if value.null is None or value.is_word:
                k.put(f"{flags}[{row}] = {value.null or 0}")
            else:
                k.put(f"{flags}[{row}] = 1 if {value.null} else 0")
        if field.type == "int128":
            text, zero = (
                f"store_wide({cells}, 2 * {row}, {value.wide_text})",
                f"store_wide({cells}, 2 * {row}, wide(0))",
            )
        elif field.type == "float64":
            text, zero = f"{cells}[{row}] = bits_of({value.text})", f"{cells}[{row}] = 0"
        elif field.type == "bool":
            text, zero = f"{cells}[{row}] = 1 if {value.text} else 0", f"{cells}[{row}] = 0"
        else:
            text, zero = f"{cells}[{row}] = {value.text}", f"{cells}[{row}] = 0"
        if field.nullable and value.null is not None and not value.is_word:
            with k.block(f"if {value.null}:"):
                k.put(zero)
            with k.block("else:"):
                k.put(text)
        else:
            k.put(text)

    def fill_arrow(self, table: pa.Table, strings: Strings) -> None:
        """Make the rows of a table (its last column is the weight) those of the batch; plain columns are not copied.

        Only fields that some kernel reads are looked at; others may be missing.
        """
        self._is_own = False
        rest = None if self.binding is None else self.binding.bind(table)
        if rest is None:
            rest = tuple(self.read_fields())
            self.put(1, _int64(table.column(table.num_columns - 1)))
        for field in rest:
            place = self._places[field.name]
            for offset, words in enumerate(words_of_column(field, _first_column(table, field.name), strings)):
                self.put(place + offset, words)
        self.views[0][0] = self.views[0][1] = table.num_rows

    def read_fields(self) -> dict[Field, int]:
        """The fields that some kernel reads, with the place of each."""
        return {field: self._places[field.name] for field in self.fields if field.name in self.read}

    def read_columns(self) -> list[tuple[int, int]]:
        """The arrays that some kernel reads, the weights among them: place, and words of a row."""
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
        """Add a row of Python values; raises `ViewError` for one that its column cannot hold."""
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
"""What a value raises that its column cannot hold."""


def _first_column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The relation's column of this name; the weight, which stands last, may have the same."""
    return table.column(table.schema.get_all_field_indices(name)[0])


def words_of_column(field: Field, column: pa.ChunkedArray | pa.Array, strings: Strings) -> list[Words]:
    """A column's words, and the NULL flags if it is nullable; raises `ViewError` for a NULL where none may be."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    flags: list[Words] = []
    if field.nullable:
        flags = [np.asarray(array.is_null().to_numpy(zero_copy_only=False), np.int64)]
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
    if not len(array):
        return _NONE
    words = np.frombuffer(array.buffers()[1], np.int64).reshape(-1, 2)[array.offset : array.offset + len(array)]
    if array.null_count:
        words = words.copy()
        words[array.is_null().to_numpy(zero_copy_only=False)] = 0
    return np.ascontiguousarray(words).reshape(-1)


class Feed(ABC):
    """The deltas of one map, as a kernel reads them."""

    keys: tuple[Field, ...]
    """The map's keys."""
    sums: tuple[str, ...]
    """Names of its sums."""
    batch: ColumnBatch
    """The rows that wait."""
    filters: bool = False
    """Whether `row` skips some of the rows."""

    @contextmanager
    def rows(self, k: KernelSource) -> Iterator[Bound]:
        """The loop over the rows, from the kernel's cursor; behind it the cursor is 0 again.

        ``continue`` must not be used in it; `stop` ends the kernel at the present row.
        """
        k.put("e = s[0]", f"rows = {k.cells(self.batch, 0)}[0]")
        with k.block("while e < rows:"):
            weight = k.assign("w", f"{k.cells(self.batch, 1)}[e]")
            with self.row(k, weight, "e") as bound:
                yield bound
            k.put("e += 1")
        k.put("s[0] = 0")

    def stop(self, k: KernelSource, status: int) -> None:
        """Lines that end the kernel at the present row, of which nothing has been taken in yet."""
        k.put("s[0] = e", f"return -1 if bad else {status}")

    def key_place(self, name: str) -> int | None:
        """The place of the batch's column whose cells are the words of this key; None: there is no such column."""
        del name
        return None

    @abstractmethod
    @contextmanager
    def row(self, k: KernelSource, weight: str, number: str) -> Iterator[Bound]:
        """Write the lines that bind the row with a number (an identifier); what follows may be skipped for the row."""


class MapFeed(Feed):
    """Rows of the map's relation; condition, keys and sums are computed in the kernel."""

    def __init__(self, map_: Map, relation: Relation, batch: ColumnBatch, strings: Strings) -> None:
        self._map = map_
        self.filters = map_.where is not None
        self.batch = batch
        self.keys = key_fields(map_, relation, strings)
        self.sums = tuple(total.name for total in map_.sums)

    def key_place(self, name: str) -> int | None:
        key = next(key for key in self._map.keys if key.name == name)
        column = next((field for field in self.batch.fields if key.expr == Col(field.name)), None)
        return None if column is None or column.type != key.type else self.batch.word_place(column)

    @contextmanager
    def row(self, k: KernelSource, weight: str, number: str) -> Iterator[Bound]:
        columns = _Columns(k, self.batch, number)
        emitter = k.emitter
        if self._map.where is None:
            yield self._bind(k, emitter, columns, weight, number)
            return
        with k.block(f"if {emitter.truth(self._map.where, columns)}:"):
            yield self._bind(k, emitter, columns, weight, number)

    def _bind(self, k: KernelSource, emitter: Emitter, columns: Mapping[str, Value], weight: str, number: str) -> Bound:
        keys = {
            field.name: emitter.cast(emitter.value(key.expr, columns), key.type)
            for key, field in zip(self._map.keys, self.keys, strict=True)
        }
        sums = {}
        for total in self._map.sums:
            value = emitter.value(total.expr, columns)
            if value.type is None:
                sums[total.name] = Value("wide(0)", "int128", None, 1)
                continue
            if value.type == "bool":
                value = emitter.cast(value, "int64")
            x, flag = k.name("x"), k.name("f")
            if value.bits <= 62 + 1:
                k.put(f"{x} = {value.wide_text} * wide({weight})")
            else:
                k.put(f"{x}, {flag} = weighted({value.wide_text}, {weight})", f"bad |= {flag}")
            if value.null is not None:
                x = k.assign("x", f"wide(0) if {value.null} else {x}")
            sums[total.name] = Value(x, "int128", None, 126)
        return Bound(number, keys, weight, sums)


class _Columns(dict[str, Value]):
    """A batch's columns by name, read when they are first asked for."""

    def __init__(self, k: KernelSource, batch: ColumnBatch, number: str) -> None:
        super().__init__()
        self._k, self._batch, self._number = k, batch, number
        self._fields = {field.name: field for field in batch.fields}

    def __missing__(self, name: str) -> Value:
        if name not in self._fields:
            raise KeyError(name)
        self[name] = value = self._batch.load_column(self._k, self._fields[name], self._number)
        return value


class PayloadFeed(Feed):
    """Rows that were added up by key: keys, weight and sums as they are."""

    def __init__(self, map_: Map, relation: Relation, strings: Strings) -> None:
        self.keys = key_fields(map_, relation, strings)
        self.sums = tuple(total.name for total in map_.sums)
        self._sums = tuple(Field(f"sum {name}", "int128") for name in self.sums)
        self.batch = ColumnBatch([*self.keys, *self._sums])

    def key_place(self, name: str) -> int | None:
        return self.batch.word_place(next(field for field in self.keys if field.name == name))

    @contextmanager
    def row(self, k: KernelSource, weight: str, number: str) -> Iterator[Bound]:
        keys = {field.name: self.batch.load_column(k, field, number) for field in self.keys}
        sums = {
            name: self.batch.load_column(k, field, number) for name, field in zip(self.sums, self._sums, strict=True)
        }
        yield Bound(number, keys, weight, sums)

    def fill(self, tables: Sequence[pa.Table], strings: Strings) -> None:
        """Make these payloads together the rows that wait."""
        parts: list[list[Words]] = []
        for table in tables:
            columns = [_int64(table.column("weight"))]
            for field in self.keys:
                columns += words_of_column(field, table.column(field.name), strings)
            for name, field in zip(self.sums, self._sums, strict=True):
                columns += words_of_column(field, table.column(name), strings)
            parts.append(columns)
        weight, *columns = parts[0] if len(parts) == 1 else [np.concatenate(each) for each in zip(*parts, strict=True)]
        self.batch.fill(weight, columns)


def key_fields(map_: Map, relation: Relation, strings: Strings) -> tuple[Field, ...]:
    """The map's keys; a trial run of their expressions says which may be NULL."""
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
