"""Rows of a view's batches as plain tuples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.views.feeds import ColumnBatch
from runtime.views.rows import changes_as_tuples
from runtime.views.strings import Strings

__all__ = ["tuples_of"]


def tuples_of(
    batches: Sequence[ColumnBatch], strings: Strings, *, is_distinct: bool
) -> list[tuple[tuple[Any, ...], int]]:
    """Return the rows of a view's batches as tuples of Python values with their weights, consolidated: for few rows."""
    return [(row, number) for _, row, number in changes_as_tuples("", batches, strings, is_distinct=is_distinct)]
