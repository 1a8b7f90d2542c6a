"""Consolidation of equal rows, which relations, snapshots and views share."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

# From `pyarrow._acero`: `pyarrow.acero` imports datasets and, with them, pandas, which costs Spark processes 0.25 s.
from pyarrow._acero import AggregateNodeOptions, Declaration, TableSourceNodeOptions

__all__ = ["consolidate", "with_equal_bits"]

_NAN: Final = pa.scalar(float("nan"))


def with_equal_bits(floats: Any) -> Any:
    """Return an Arrow array of floats in which equal values have equal bits: -0.0 becomes 0.0, and there is one NaN."""
    return pc.if_else(pc.is_nan(floats), _NAN, pc.add(floats, 0.0))


def consolidate(rows: pa.Table, schema: pa.Schema | None = None) -> pa.Table:
    """Return the rows with equal rows merged: their weights, the last column, are summed, and rows of weight 0 are
    dropped.

    ``schema`` is the schema of the result, by default that of the rows.
    """
    schema = rows.schema if schema is None else schema
    *keys, weight = names = [str(place) for place in range(len(schema))]  # another column may be called weight too
    whole = rows.rename_columns(names).combine_chunks()  # many small chunks cost more than their rows
    for place, field in enumerate(whole.schema):
        if pa.types.is_float64(field.type):
            whole = whole.set_column(place, field.name, with_equal_bits(whole.column(place)))
    total = AggregateNodeOptions([([weight], "hash_sum" if keys else "sum", None, weight)], keys)
    plan = [Declaration("table_source", TableSourceNodeOptions(whole)), Declaration("aggregate", total)]
    summed = Declaration.from_sequence(plan).to_table(use_threads=False).select(names)
    return summed.filter(pc.not_equal(summed.column(len(keys)), 0)).rename_columns(schema.names).cast(schema)
