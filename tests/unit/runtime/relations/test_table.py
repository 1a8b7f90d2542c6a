"""Plain rows: decimals become scaled integers, a flag in front may take rows away."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from runtime.formats import CsvFormat, InputFormatter, RawBuffer
from runtime.plan import Column, Relation
from runtime.relations import AdaptorError, RowAdaptor, row_schema
from runtime.state import ARROW_TYPES

RELATION = Relation(
    "lots",
    (
        Column("price", "int64", scale=2),
        Column("total", "int128", scale=1),
        Column("name", "string", nullable=True),
        Column("day", "date"),
        Column("count", "int64", nullable=True),
        Column("fee", "int64", nullable=True, scale=1),
        Column("ok", "bool"),
    ),
)


def deltas(text: str, *, deletions: bool = False) -> pa.RecordBatch | None:
    """What the text's lines do, through the formatter that the adaptor asks for."""
    schema = row_schema(RELATION, CsvFormat(field_delimiter=b"|"), deletions=deletions)
    adaptor = RowAdaptor(RELATION, schema, deletions=deletions)
    formatter = InputFormatter(adaptor.schema, adaptor.pushdown)
    batches = formatter.format([RawBuffer(1, 1, text.encode(), 0)]).batches
    rows = pa.Table.from_batches([b.rows for b in batches]).combine_chunks().to_batches()
    assert not any(b.dead for b in batches), batches
    if not rows:
        return None
    prepared = adaptor.prepare(rows[0], np.arange(rows[0].num_rows))
    assert prepared.cuttable.all()
    found = [adaptor.apply(prepared.slice(n, n + 1))["lots"] for n in range(rows[0].num_rows)]
    whole = adaptor.apply(prepared)["lots"]
    assert pa.Table.from_batches(found).combine_chunks().to_pylist() == whole.to_pylist(), "row by row is the same"
    return whole


def test_decimals_become_scaled_integers() -> None:
    found = deltas("1.25|123456789012345678901234567.5|x|2020-02-29|7|0.5|true\n-0.01|-0.1||1960-01-01|||false\n")
    assert found is not None
    assert [found.schema.field(c.name).type for c in RELATION.columns] == [
        ARROW_TYPES[c.type] for c in RELATION.columns
    ]
    first, second = (tuple(row.values()) for row in found.to_pylist())
    assert first == (125, 1234567890123456789012345675, "x", dt.date(2020, 2, 29), 7, 5, True, 1)
    assert second[:2] == (-1, -1)
    assert second[3:] == (dt.date(1960, 1, 1), None, None, False, 1)


def test_a_flag_says_what_a_row_does() -> None:
    found = deltas("1|1.00|1.0|x|2020-01-01|1|1.0|true\n0|1.00|1.0|x|2020-01-01|1|1.0|true\n", deletions=True)
    assert found is not None
    assert found.column("weight").to_pylist() == [1, -1]
    assert "_insert" not in found.schema.names


def test_another_flag_is_an_error() -> None:
    with pytest.raises(AdaptorError, match="before the rows of lots, was -1 in the row that ends before byte 1"):
        deltas("1|1.00|1.0|x|2020-01-01|1|1.0|true\n-1|1.00|1.0|x|2020-01-01|1|1.0|true\n", deletions=True)


def test_no_rows_no_deltas() -> None:
    adaptor = RowAdaptor(RELATION, row_schema(RELATION))
    rows = adaptor.schema.arrow_schema().empty_table().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=adaptor.schema.arrow_schema())
    ]
    assert adaptor.apply(adaptor.prepare(rows[0], np.zeros(0, np.int64))) == {}
