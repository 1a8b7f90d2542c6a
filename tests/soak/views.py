"""Views and derived streams of every kind of a catalogue, and random changes of a catalogue."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from queries import query_path
from runtime.compiler import parse_script

__all__ = ["BEGINNING", "STREAMS", "VIEWS", "Catalogue", "script"]

VIEWS: Final[dict[str, str]] = {
    name: query_path(name).read_text(encoding="utf-8").rstrip().rstrip(";")
    for name in ("best_quote", "book_depth", "depth_top5", "imbalance", "vwap_book")
} | {
    # sums, and joins of two and three relations by equality and by ranges
    "sums": "SELECT symbol, SUM(volume) AS v, COUNT(*) AS n FROM bids GROUP BY symbol",
    "traded": "SELECT symbol, side, COUNT(*) AS n, SUM(volume) AS v FROM trades GROUP BY symbol, side",
    "axf": "SELECT b.broker_id, SUM(a.volume - b.volume) AS x FROM bids b, asks a WHERE b.broker_id = a.broker_id "
    "AND (a.price - b.price > 20 OR b.price - a.price > 20) GROUP BY b.broker_id",
    "bsv": "SELECT x.broker_id, SUM(x.volume * y.volume) AS s FROM bids x, bids y "
    "WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
    "far": "SELECT b.broker_id, MAX(b.price) AS best FROM bids b GROUP BY b.broker_id HAVING COUNT(*) > 2",
    # conditions on aggregates
    "vwap": "SELECT SUM(b1.price * b1.volume) AS x FROM bids b1 WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > "
    "(SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)",
    # graphs: extremes, semijoins, outer joins, sets, first rows, windows, grouping sets, ordered aggregates
    "largest": "SELECT symbol, MAX(price) AS p, MIN(price) AS q FROM bids GROUP BY symbol",
    "lone": "SELECT a.id FROM asks a WHERE NOT EXISTS (SELECT 1 FROM bids b WHERE b.price = a.price - 1)",
    "quiet": "SELECT DISTINCT symbol FROM bids WHERE broker_id NOT IN (SELECT broker_id FROM asks)",
    "sides": "SELECT b.symbol, b.v AS bid, a.v AS ask "
    "FROM (SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol) b "
    "FULL JOIN (SELECT symbol, SUM(volume) AS v FROM asks GROUP BY symbol) a ON a.symbol = b.symbol",
    "both": "SELECT broker_id, price FROM bids INTERSECT SELECT broker_id, price FROM asks",
    "missing": "SELECT symbol, price FROM bids EXCEPT SELECT symbol, price FROM trades",
    "top": "SELECT price, SUM(volume) AS v FROM asks GROUP BY price ORDER BY price LIMIT 3",
    "moves": "SELECT match_id, symbol, price - LAG(price) OVER (PARTITION BY symbol ORDER BY match_id) AS move, "
    "SUM(volume) OVER (PARTITION BY symbol ORDER BY match_id) AS so_far FROM trades WHERE volume > 1",
    "rolled": "SELECT symbol, side, SUM(volume) AS v FROM trades GROUP BY ROLLUP (symbol, side)",
    "different": "SELECT symbol, COUNT(DISTINCT price) AS prices, COUNT(DISTINCT broker_id) AS brokers "
    "FROM asks GROUP BY symbol",
    "middle": "SELECT symbol, QUANTILE_DISC(price, 0.5) AS median FROM bids GROUP BY symbol",
    # views that DuckDB evaluates again
    "listed": "SELECT symbol, STRING_AGG(DISTINCT side, '' ORDER BY side) AS sides FROM trades GROUP BY symbol",
    # over derived streams
    "bars": "SELECT symbol, COUNT(*) AS n, MAX(high) AS high, MIN(low) AS low, SUM(volume) AS v "
    "FROM bars_1s GROUP BY symbol",
    "signed": "SELECT symbol, side, COUNT(*) AS n, SUM(volume) AS v FROM signed_trades GROUP BY symbol, side",
    "touched": "SELECT symbol, COUNT(*) AS n, MAX(bid_price) AS bid FROM quotes GROUP BY symbol",
    "large_value": "SELECT symbol, SUM(value) AS value, COUNT(*) AS n FROM large GROUP BY symbol",
    "quick_bars": "SELECT symbol, COUNT(*) AS n, MAX(high) AS high FROM bars_100ms GROUP BY symbol",
    "bursts": "SELECT symbol, COUNT(*) AS n, MAX(trades) AS longest FROM sessions GROUP BY symbol",
    "spreads": "SELECT symbol, SUM(weighted) AS weighted, SUM(lasted) AS lasted FROM spread_1s GROUP BY symbol",
    "priced": "SELECT l.symbol, COUNT(*) AS n FROM large l "
    "JOIN bars_1s b ON l.symbol = b.symbol AND l.volume = b.volume GROUP BY l.symbol",
    # over views
    "shares": "SELECT s.symbol, s.v AS resting, t.v AS sold FROM sums s JOIN traded t ON t.symbol = s.symbol "
    "WHERE t.side = 'S'",
    "best_bar": "SELECT MAX(high) AS high, SUM(n) AS n FROM bars",
    "totals": "SELECT COUNT(*) AS n, SUM(resting) AS resting FROM shares",
}
"""View → its SELECT, which DuckDB reads as well."""

STREAMS: Final[dict[str, str]] = {
    "large": "CREATE STREAM large RETAIN 400 ROWS AS "
    "SELECT t, match_id, symbol, price * volume AS value, volume FROM trades WHERE volume >= 2",
    "bars_100ms": "CREATE STREAM bars_100ms RETAIN 300 ROWS AS SELECT symbol, window_start AS t, MAX(price) AS high "
    "FROM trades GROUP BY symbol, TUMBLE(t, 100000000)",
    "sessions": "CREATE STREAM sessions RETAIN 500 ROWS AS SELECT symbol, window_end AS t, COUNT(*) AS trades "
    "FROM trades GROUP BY symbol, SESSION(t, 200000000)",
    "spread_1s": query_path("spread_1s").read_text(encoding="utf-8").split("INCLUDE 'quotes.sql';")[1],
}
"""Derived streams that come and go; quotes, signed_trades and bars_1s always exist."""

BEGINNING: Final = (
    "sums", "axf", "vwap", "largest", "lone", "depth_top5", "moves", "listed", "bars", "signed", "traded", "shares",
)  # fmt: skip
"""Views at the beginning."""
_ALWAYS: Final = ("quotes", "signed_trades", "bars_1s")


def script() -> str:
    """Return the first catalogue as a script."""
    lines = [f"INCLUDE '{query_path(name)}';" for name in _ALWAYS]
    lines += [f"CREATE VIEW {name} TBLPROPERTIES ('lane' = 'express') AS {VIEWS[name]};" for name in BEGINNING]
    return "\n".join(lines)


def _reads(name: str) -> set[str]:
    """Return the views and streams, among those that come and go, that a text names."""
    named = set(re.findall(r"(?:FROM|JOIN)\s+(\w+)", VIEWS.get(name) or STREAMS[name]))
    return {other for other in (*VIEWS, *STREAMS) if other != name and other in named}


@dataclass(slots=True)
class Catalogue:
    """Catalogue of a runtime, changed at random by a seed."""

    chance: random.Random
    """Random generator of the changes."""
    names: list[str] = field(default_factory=lambda: list(BEGINNING))
    """Existing views and streams, each after those that it reads."""
    most: int = 12
    """Largest number of views."""
    additions: Counter[str] = field(default_factory=Counter)
    """Number of additions of each view: views that were added least often are added next."""

    @property
    def views(self) -> list[str]:
        """Names that are views."""
        return [name for name in self.names if name in VIEWS]

    def change(self) -> tuple[str, Any]:
        """Make the next change; return ``("drop", name)`` or ``("add", body)``."""
        droppable = [name for name in self.names if not any(name in _reads(other) for other in self.names)]
        streams = [name for name in droppable if name in STREAMS]
        if len(self.views) >= self.most or (streams and self.chance.random() < 0.5):
            gone = self.chance.choice(streams or droppable)
            self.names.remove(gone)
            return "drop", gone
        absent = [name for name in VIEWS if name not in self.names]
        possible = [name for name in absent if _reads(name) - set(self.names) <= set(STREAMS)]
        least = min(self.additions[name] for name in possible)
        new = self.chance.choice([name for name in possible if self.additions[name] == least])
        self.additions[new] += 1
        streams = [name for name in STREAMS if name in _reads(new) and name not in self.names]
        self.names += [*streams, new]
        return "add", {
            "views": [{"name": new, "sql": VIEWS[new], "lane": "express"}],
            "streams": [_new_stream(name) for name in streams],
        }


def _new_stream(name: str) -> dict[str, Any]:
    (stream,) = parse_script(STREAMS[name], name=name, base_dir=Path()).derived
    return {
        "name": name,
        "sql": stream.select.sql,
        "retain_rows": stream.clauses.retain_rows,
        "retain_ns": stream.clauses.retain_ns,
        "lateness_ns": stream.clauses.lateness_ns,
    }
