"""Choice of a relation's time column: derived streams read the rows of the relation in order of this column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from runtime.compiler import MARKET_TIMES, TOUCHES, TRADES
from runtime.plan import DerivedInput, Relation
from runtime.service.errors import ServiceError

__all__ = ["MARKET_INPUTS", "TIME_OPTION", "time_of"]

TIME_OPTION: Final = "time"
"""Option of CREATE STREAM, and of a reader, that names the time column; an empty value makes the relation a table."""
MARKET_INPUTS: Final = tuple(DerivedInput(each, MARKET_TIMES[each.name]) for each in (TRADES, TOUCHES))
"""Relations of a market that derived streams may read."""
_TYPES: Final = ("int64", "timestamp", "date")
"""Types that a time column may have."""


def time_of(relation: Relation, options: Mapping[str, str], kept: str | None = None) -> str:
    """Return the time column of a relation without deletions; empty for a relation that is read as a table.

    The column is that of the option ``time``, or else that of the retention, or else an int64 column ``t``. ``kept`` is
    the column of the retention, empty for a retention that counts rows, and None for no retention. Raises
    `ServiceError` if the option names no column of type int64, timestamp or date.
    """
    columns = {column.name: column for column in relation.columns}
    if TIME_OPTION in options:
        name = options[TIME_OPTION].lower()
        if name and (name not in columns or columns[name].type not in _TYPES or columns[name].scale):
            raise ServiceError(
                f"expected a column of type {', '.join(_TYPES)} as the time of {relation.name}, was {name!r}"
            )
        return name
    if kept is not None:
        return kept
    return "t" if "t" in columns and columns["t"].type == "int64" and not columns["t"].scale else ""
