"""A view's rows as JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from runtime.compiler.program import Column

__all__ = ["json_rows"]

_INT64_LIMIT: Final = 2**63


def json_rows(columns: Sequence[Column], table: pa.Table) -> list[list[Any]]:
    """Rows as JSON values, repeated by weight and sorted by their columns from the left, NULL first.

    Integers past 64 bits and decimals are `Decimal`, to be encoded as JSON numbers.
    """
    *values, weights = (column.to_pylist() for column in table.columns)
    lists = [[_json_value(v, column.scale) for v in held] for held, column in zip(values, columns, strict=True)]
    rows = [list(row) for *row, weight in zip(*lists, weights, strict=True) for _ in range(weight)]
    rows.sort(key=lambda row: [(value is not None, value if value is not None else 0) for value in row])
    return rows


def _json_value(value: Any, scale: int) -> Any:
    if value is None or isinstance(value, str | bool | float):
        return value
    if isinstance(value, Decimal | int):
        whole = int(value)
        if scale:
            sign, digits, _ = Decimal(whole).as_tuple()
            return Decimal((sign, digits, -scale))  # scaleb would round at 28 digits
        return whole if -_INT64_LIMIT <= whole < _INT64_LIMIT else Decimal(whole)
    return value.isoformat()
