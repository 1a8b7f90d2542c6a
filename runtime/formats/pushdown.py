"""What later operators need of an origin's tuples, so that the rest is never parsed."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec
import pyarrow.compute as pc

__all__ = ["Condition", "Pushdown"]

_COMPARISONS: Final = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


class Condition(msgspec.Struct, frozen=True):
    """A row is wanted only if this holds; NULL does not."""

    column: str
    """A field of the schema."""
    comparison: Literal["=", "<>", "<", "<=", ">", ">="]
    """How it is compared."""
    value: int | float | str | bool
    """With what."""


class Pushdown(msgspec.Struct, frozen=True):
    """Projection and filter of the first operator, pushed into the formatter."""

    columns: tuple[str, ...] | None = None
    """Fields that are wanted, None for all. Others are counted and cut, but not parsed: what stands in them is not
    looked at."""
    conditions: tuple[Condition, ...] = ()
    """All must hold; their columns are parsed even if they are not wanted."""

    @property
    def parsed_columns(self) -> frozenset[str] | None:
        """Wanted columns and those of the conditions, None for all."""
        if self.columns is None:
            return None
        return frozenset(self.columns) | {condition.column for condition in self.conditions}

    def wanted(self, rows: Any) -> Any:
        """Boolean Arrow array, one per row of a batch that has the conditions' columns; None without conditions."""
        mask = None
        for condition in self.conditions:
            held = _COMPARISONS[condition.comparison](rows.column(condition.column), condition.value)
            held = pc.fill_null(held, False)
            mask = held if mask is None else pc.and_(mask, held)
        return mask
