"""LOBSTER's two files of N levels, made from a full book: neither contains events outside of the best N levels."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

__all__ = ["NAME", "write_lobster"]

NAME: Final = "ACME_2012-06-21_34200000_57600000_message_{levels}.csv"


def write_lobster(folder: Path, rng: Random, levels: int, events: int, *, opening: int = 6) -> tuple[Path, Path]:
    """Write a message file and its order book file; return both paths.

    The market is random and never crossed. Orders from before the first message are visible only in the levels of the
    order book file. The messages contain executions without a displayed order (5) and one halt (7).
    """
    market = _Market(rng)
    for _ in range(opening):
        market.event()
    messages: list[str] = []
    rows: list[str] = []
    time_s = 34_200.0
    while len(messages) < events:
        before = market.shown(levels)
        kind, order_id, volume, price, side = market.event()
        after = market.shown(levels)
        time_s += rng.random() / 10
        is_seen = before != after or kind == 5
        if is_seen:
            direction = 1 if side == "B" else -1
            messages.append(f"{time_s:.9f},{kind},{order_id},{volume},{price},{direction}")
            rows.append(after)
        if len(messages) == events // 2 and is_seen:
            messages.append(f"{time_s:.9f},7,0,0,-1,-1")
            rows.append(after)
    message_file = folder / NAME.format(levels=levels)
    book_file = folder / message_file.name.replace("message", "orderbook")
    message_file.write_text("\n".join([*messages, ""]))
    book_file.write_text("\n".join([*rows, ""]))
    return message_file, book_file


class _Market:
    """Orders of both sides around a price that drifts."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._orders: dict[int, list[object]] = {}
        self._next_id = 1
        self._mid = 10_000

    def event(self) -> tuple[int, int, int, int, str]:
        """Make a random event; return type, order, size, price and the order's side."""
        rng = self._rng
        self._mid += rng.choice([-1, 0, 0, 0, 1])
        kind = rng.choice([1, 1, 1, 2, 3, 3, 4, 4, 5])
        if kind == 5:
            return 5, 0, rng.randint(1, 9), self._mid, rng.choice("BS")
        if kind == 4 and (best := self._best(rng.choice("BS"))):
            return self._take(4, best, rng.randint(1, 9))
        if kind in {2, 3} and self._orders:
            order_id = rng.choice(list(self._orders))
            volume = int(self._orders[order_id][2])  # type: ignore[call-overload]
            return self._take(
                kind, order_id, rng.randint(1, max(1, volume - 1)) if kind == 2 and volume > 1 else volume
            )
        side = rng.choice("BS")
        price = self._mid - rng.randint(1, 9) if side == "B" else self._mid + rng.randint(1, 9)
        other = self._best("S" if side == "B" else "B")
        if other is not None:
            limit = int(self._orders[other][1])  # type: ignore[call-overload]
            price = min(price, limit - 1) if side == "B" else max(price, limit + 1)
        order_id, self._next_id = self._next_id, self._next_id + 1
        volume = rng.randint(1, 9)
        self._orders[order_id] = [side, price, volume]
        return 1, order_id, volume, price, side

    def _take(self, kind: int, order_id: int, volume: int) -> tuple[int, int, int, int, str]:
        side, price, before = self._orders[order_id]
        volume = min(volume, int(before))  # type: ignore[call-overload]
        left = int(before) - volume  # type: ignore[call-overload]
        if left:
            self._orders[order_id][2] = left
        else:
            del self._orders[order_id]
            kind = 3 if kind == 2 else kind
        return kind, order_id, volume, int(price), str(side)  # type: ignore[call-overload]

    def _best(self, side: str) -> int | None:
        sign = -1 if side == "B" else 1
        ids = [order_id for order_id, order in self._orders.items() if order[0] == side]
        return min(ids, key=lambda order_id: (int(self._orders[order_id][1]) * sign, order_id), default=None)  # type: ignore[call-overload]

    def shown(self, levels: int) -> str:
        """Return the line of the order book file."""
        sides: dict[str, dict[int, int]] = {"B": {}, "S": {}}
        for side, price, volume in self._orders.values():
            book = sides[str(side)]
            book[int(price)] = book.get(int(price), 0) + int(volume)  # type: ignore[call-overload]
        asks = sorted(sides["S"].items())[:levels]
        bids = sorted(sides["B"].items(), reverse=True)[:levels]
        cells: list[int] = []
        for place in range(levels):
            cells += asks[place] if place < len(asks) else (9_999_999_999, 0)
            cells += bids[place] if place < len(bids) else (-9_999_999_999, 0)
        return ",".join(map(str, cells))
