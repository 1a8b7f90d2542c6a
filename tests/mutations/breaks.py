"""The breaks in the tables of this folder: one place in the code each, and the row of docs/features that must notice.

::

    formats.toml                          formats,  tests/features/formatters
    engine.toml, engine_operators.toml    engine,   tests/features/engine
    state.toml                            state,    tests/features/state
    exchange_*.toml                       exchange, tests/features/exchange
    trading_*.toml                        trading,  no list of features: each break names its tests
    cluster_*.toml                        cluster,  none either
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
    """What goes wrong."""
    file: str
    """Where, from the root of the tree."""
    find: str
    """What stands there, once."""
    replacement: str
    """What is put in its place."""
    row: int = 0
    """The row of the feature list whose tests must turn red."""
    tests: str = ""
    """Without a feature list: the file of the tests, one of which must turn red, from the root of the tree."""


class FeatureList(msgspec.Struct, frozen=True):
    """The rows of one feature list: where their tests are, and what must turn them red.

    A list without rows is of parts that have no feature list: each of its breaks names its tests.
    """

    name: str
    """What the command line calls it; its tables are the files ``NAME*.toml`` of this folder."""
    rows: range
    """Its rows."""
    tests: str
    """The folder of the tests named ``test_row_NN_…``, from the root of the tree; none without rows."""

    def breaks(self) -> tuple[Break, ...]:
        """The breaks of all its tables, in the tables' order of names.

        Raises `msgspec.ValidationError` for a table that has something else in it.
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
"""All of them, by name."""
