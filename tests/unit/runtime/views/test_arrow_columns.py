"""Columns of Arrow tables that a compiled kernel binds hold what the tables hold."""

from __future__ import annotations

import ctypes
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from runtime.native.cache import KernelCache
from runtime.views.arrow_columns import BIND_SOURCE, ColumnBinding
from runtime.views.emission.values import Field
from runtime.views.errors import ViewError
from runtime.views.feeds import ColumnBatch
from runtime.views.strings import Strings
from tests.generators.batch_rows import tuples_of

pytestmark = pytest.mark.slow

FIELDS: Final = (
    Field("t", "timestamp"),
    Field("n", "int64"),
    Field("unread", "int64"),
    Field("m", "int64", True),
    Field("s", "string"),
)
READ: Final = {"t", "n", "m", "s"}
ROWS: Final = [(datetime(2000, 1, 1 + n), 10 * n, n, None if n % 3 else n, f"s{n}") for n in range(9)]  # noqa: DTZ001
WEIGHTS: Final = [1, -1, 1, 2, 1, -3, 1, 1, 1]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    cache = KernelCache(tmp_path_factory.mktemp("kernels"))
    assert not cache.compile_now([BIND_SOURCE]).failures
    return cache.get(BIND_SOURCE)


def table_of(kinds: dict[str, pa.DataType] | None = None) -> pa.Table:
    types = {"t": pa.timestamp("us"), "n": pa.int64(), "unread": pa.int64(), "m": pa.int64(), "s": pa.string()}
    types |= kinds or {}
    columns = [
        pa.array(column).cast(kind) for column, kind in zip(zip(*ROWS, strict=True), types.values(), strict=True)
    ]
    return pa.Table.from_arrays([*columns, pa.array(WEIGHTS)], names=[*types, "weight"])


def bound(kernel: Any, table: pa.Table | pa.RecordBatch) -> list[tuple[tuple[Any, ...], int]]:
    """What a batch holds whose columns were bound; its memory as Python sees it is that of the kernel's addresses."""
    batch, strings = ColumnBatch(FIELDS), Strings()
    batch.read |= READ
    batch.binding = ColumnBinding(batch, batch.read_fields(), kernel)
    batch.fill_arrow(table, strings)
    copied = ColumnBatch(FIELDS)
    copied.read |= READ
    for place in range(1, len(batch.addresses)):
        copied.put(place, words_at(int(batch.addresses[place]), batch.rows))
    copied.rows = batch.rows
    return [((t, n, m, s), weight) for (t, n, _, m, s), weight in tuples_of([copied], strings, is_distinct=True)]


def words_at(address: int, count: int) -> Any:
    return np.array((ctypes.c_int64 * count).from_address(address), np.int64)


def expected(begin: int = 0, end: int = len(ROWS)) -> list[tuple[tuple[Any, ...], int]]:
    pairs = zip(ROWS[begin:end], WEIGHTS[begin:end], strict=True)
    return [((t, n, m, s), weight) for (t, n, _, m, s), weight in pairs]


def test_columns_of_64_bits_are_bound_and_others_converted(kernel: Any) -> None:
    assert bound(kernel, table_of()) == expected()


def test_slices_are_bound_from_their_offset(kernel: Any) -> None:
    assert bound(kernel, table_of().slice(3, 4)) == expected(3, 7)


def test_chunks_are_bound_as_one(kernel: Any) -> None:
    table = table_of()
    assert bound(kernel, pa.concat_tables([table.slice(0, 2), table.slice(2, 3), table.slice(5)])) == expected()


def test_columns_of_other_types_are_converted(kernel: Any) -> None:
    assert bound(kernel, table_of({"n": pa.int32(), "t": pa.timestamp("ms")})) == expected()


def test_a_null_where_none_may_be_is_named(kernel: Any) -> None:
    table = table_of()
    nulls = pa.array([None, *range(1, len(ROWS))], pa.int64())
    with pytest.raises(ViewError, match="expected no NULL in column n, was 1"):
        bound(kernel, table.set_column(1, "n", nulls))
    assert bound(kernel, table.set_column(1, "n", nulls).slice(1)) == [
        ((t, place, m, s), weight) for place, ((t, _, m, s), weight) in enumerate(expected(1), 1)
    ]


def test_tables_of_different_schemas_follow_one_another(kernel: Any) -> None:
    batch, strings = ColumnBatch(FIELDS), Strings()
    batch.read |= {"n"}
    batch.binding = ColumnBinding(batch, batch.read_fields(), kernel)
    place = batch.place("n")
    for table in (table_of(), table_of().select(["n", "weight"]), table_of({"n": pa.int32()}), table_of()):
        batch.fill_arrow(table, strings)
        assert words_at(int(batch.addresses[place]), batch.rows).tolist() == [row[1] for row in ROWS]
        assert words_at(int(batch.addresses[1]), batch.rows).tolist() == WEIGHTS
