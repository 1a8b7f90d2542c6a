"""Expected rows of views: a simple replay of messages, one at a time, and the same SQL by DuckDB on the result."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import duckdb

from deltabook.wire.text import FeedMessage
from queries import QUERIES_DIR

__all__ = ["TRACE", "Replayed"]

TRACE: Final = Path(os.environ.get("DELTABOOK_TRACE") or QUERIES_DIR / "trace-5000.csv")
"""Trace in DBToaster's format: the shipped one, unless ``DELTABOOK_TRACE`` names another."""

_BOOK = "t BIGINT, id BIGINT, broker_id BIGINT, volume BIGINT, price BIGINT, symbol VARCHAR"
_TRADES = (
    "t BIGINT, match_id BIGINT, symbol VARCHAR, price BIGINT, volume BIGINT, side VARCHAR, "
    "resting_id BIGINT, aggressor_id BIGINT, broker_id BIGINT"
)


class Replayed:
    """Live orders and trades after a number of messages."""

    def __init__(self) -> None:
        self.orders: dict[int, dict[str, Any]] = {}
        self.trades: list[tuple[Any, ...]] = []
        self.messages = 0
        """Number of a trace's lines that a feed shows: lines that find their order, and trades without an order."""

    def trace(self, lines: Iterable[str], symbol: str) -> Replayed:
        """Apply lines of a DBToaster trace."""
        for line in lines:
            t, order_id, action, volume, price = line.strip().split(",")
            order = self.orders.get(int(order_id))
            if action in "BS" or (action in "EFD" and order) or action in "TX":
                self.messages += 1
            if action in "BS":
                self._add(action, int(t), int(order_id), int(order_id) % 10, int(volume), int(price), symbol)
            elif action == "E":
                self._take(int(order_id), int(volume))
            elif action in "FD":
                self.orders.pop(int(order_id), None)
        return self

    def feed(self, messages: Iterable[FeedMessage]) -> Replayed:
        """Apply messages of the exchange's feed."""
        for m in messages:
            self.messages += 1
            if m.action in "BS":
                self._add(m.action, m.time_ns, m.order_id, m.broker_id, m.volume, m.price, m.symbol)
                continue
            order = self.orders.get(m.order_id)
            if m.action in "EF" and order:
                aggressor = "S" if order["side"] == "B" else "B"
                self.trades.append(
                    (m.time_ns, m.sequence, m.symbol, m.price, m.volume, aggressor, m.order_id, None, order["broker"])
                )
            if m.action == "T":
                hidden = (m.time_ns, m.sequence, m.symbol, m.price, m.volume, None, None, None, None)
                self.trades.append(hidden)
            if m.action in "EX":
                self._take(m.order_id, m.volume)
            elif m.action in "FD":
                self.orders.pop(m.order_id, None)
        return self

    def _add(self, side: str, t: int, order_id: int, broker: int, volume: int, price: int, symbol: str) -> None:
        assert order_id not in self.orders, "an order is added once"
        row = {"t": t, "id": order_id, "broker": broker, "volume": volume, "price": price, "symbol": symbol}
        self.orders[order_id] = {"side": side, **row}

    def _take(self, order_id: int, volume: int) -> None:
        if order_id in self.orders:
            self.orders[order_id]["volume"] -= volume
            if self.orders[order_id]["volume"] <= 0:
                del self.orders[order_id]

    def relation(self, side: str) -> list[tuple[Any, ...]]:
        """Return the rows of BIDS (B) or ASKS (S)."""
        return [tuple(order.values())[1:] for order in self.orders.values() if order["side"] == side]

    def retained_trades(self) -> list[tuple[Any, ...]]:
        """Return the rows of TRADES: the newest ones, none older than five minutes by market time."""
        newest = self.trades[-20_000:]
        return [trade for trade in newest if trade[0] >= newest[-1][0] - 300 * 10**9]

    def answers(self, files: Iterable[Path]) -> dict[str, Counter[tuple[Any, ...]]]:
        """Return the result of each file's SELECT."""
        with duckdb.connect() as database:
            for name, columns, rows in (
                ("bids", _BOOK, self.relation("B")),
                ("asks", _BOOK, self.relation("S")),
                ("trades", _TRADES, self.retained_trades()),
            ):
                database.execute(f"CREATE TABLE {name} ({columns})")
                for start in range(0, len(rows), 500):
                    part = rows[start : start + 500]
                    marks = ",".join(f"({','.join('?' * len(part[0]))})" for _ in part)
                    database.execute(f"INSERT INTO {name} VALUES {marks}", [value for row in part for value in row])
            return {file.stem: Counter(map(_exact, database.execute(file.read_text()).fetchall())) for file in files}


def _exact(row: tuple[Any, ...]) -> tuple[Any, ...]:
    assert all(value is None or isinstance(value, str | int | Decimal) for value in row), row
    return tuple(value if value is None or isinstance(value, str) else int(value) for value in row)
