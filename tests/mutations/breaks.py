"""Breaks in the tables of this folder: each changes one place in the code, and names the tests that must fail then.

::

    formats.toml                          formats,  tests/features/formatters
    engine.toml, engine_operators.toml    engine,   tests/features/engine
    state.toml                            state,    tests/features/state
    exchange_*.toml                       exchange, tests/features/exchange
    trading_*.toml                        trading,  without a feature list: each break names its tests
    cluster_*.toml                        cluster,  without a feature list
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = ["LISTS", "Break", "FeatureList"]

_FOLDER: Final = Path(__file__).parent


class Break(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change that makes the code wrong."""

    what: str
    """Description of the wrong behaviour."""
    file: str
    """File to change, from the root of the tree."""
    find: str
    """Text that the file contains once."""
    replacement: str
    """Text that replaces it."""
    row: int = 0
    """Row of the feature list, one of whose tests must fail."""
    tests: str = ""
    """Without a feature list: file of the tests, from the root of the tree, one of which must fail."""


class FeatureList(msgspec.Struct, frozen=True):
    """Rows of one feature list, with their tests and their breaks.

    A list without rows is for parts that have no feature list: each of its breaks names its tests.
    """

    name: str
    """Name on the command line; the list's tables are the files ``NAME*.toml`` of this folder."""
    rows: range
    """Numbers of the rows."""
    tests: str
    """Folder of the tests named ``test_row_NN_…``, from the root of the tree; empty without rows."""

    def breaks(self) -> tuple[Break, ...]:
        """Return the breaks of all tables, which are sorted by name.

        Raise `msgspec.ValidationError` for a table with other contents.
        """
        tables = sorted(_FOLDER.glob(f"{self.name}*.toml"))
        found = (msgspec.toml.decode(table.read_bytes(), type=dict[str, tuple[Break, ...]]) for table in tables)
        return tuple(broken for table in found for broken in table["break"])


LISTS: Final[Mapping[str, FeatureList]] = MappingProxyType(
    {
        rows.name: rows
        for rows in (
            FeatureList("formats", range(1, 31), "tests/features/formatters"),
            FeatureList("engine", range(1, 40), "tests/features/engine"),
            FeatureList("state", range(1, 11), "tests/features/state"),
            FeatureList("exchange", range(1, 42), "tests/features/exchange"),
            FeatureList("trading", range(0), ""),
            FeatureList("cluster", range(0), ""),
        )
    }
)
"""Feature lists by name."""
