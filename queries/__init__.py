"""The SQL that ships with Deltabook.

::

    book_depth depth_top5 best_quote vwap_book imbalance broker_volume
                                                            over the live relations bids and asks
    book_ages broker_levels                                 over the same relations; strategies add them
    quotes signed_trades bars_1s bars_1m spread_1s          derived streams over touches and trades
    tape trades_1s vwap_trades                              over the live relation trades
    trade_moments                                           over the same relation; a strategy adds it
    axf bsp bsv mst psp vwap                                DBToaster's finance queries, over a trace file
    └── finance_schema.sql                                  the relations that these queries include
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["QUERIES_DIR", "query_path", "query_text"]

QUERIES_DIR: Final = Path(__file__).resolve().parent
"""Folder of the .sql files."""


def query_path(name: str) -> Path:
    """Return the file of this query; raise a `FileNotFoundError` that names the existing queries."""
    path = QUERIES_DIR / f"{name}.sql"
    if not path.is_file():
        known = ", ".join(sorted(path.stem for path in QUERIES_DIR.glob("*.sql")))
        raise FileNotFoundError(f"expected one of the queries {known}, was {name!r}")
    return path


def query_text(name: str) -> str:
    """Return the SELECT of a file without comments, in the form in which a strategy declares a view of its own.

    >>> query_text("vwap_trades").partition(",")[0]
    'SELECT symbol'
    """
    lines = query_path(name).read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if not line.startswith("--")).strip().removesuffix(";")
