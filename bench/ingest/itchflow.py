"""A generated ITCH 5.0 file: orders are added and executed, reduced, replaced or deleted, and none is left at the end.

It is written from the specification with numpy's structures, independently of `deltabook.wire.itch`, so that a mistake
in that module is not repeated here. The book is empty after the last message, so a book builder accepts repetitions of
the block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["itch_block"]

Numbers = npt.NDArray[np.int64]

_SYMBOLS: Final = tuple(f"SYM{n:03d}".encode() for n in range(100))
_BYTES_AN_ORDER: Final = 68
_OPEN_NS: Final = 34_200_000_000_000
_STEP_NS: Final = 1_700
_LIFE: Final = 2_000
"""Mean number of orders that are added while an order is live."""
_COMMON: Final = [
    ("size", ">u2"),
    ("type", "S1"),
    ("locate", ">u2"),
    ("tracking", ">u2"),
    ("high", ">u2"),
    ("low", ">u4"),
]
_ORDER: Final = [("ref", ">u8"), ("side", "S1"), ("shares", ">u4"), ("stock", "S8"), ("price", ">u4")]
_TYPES: Final = {
    "S": np.dtype([*_COMMON, ("event", "S1")]),
    "R": np.dtype([*_COMMON, ("stock", "S8"), ("marks", "S2"), ("lot", ">u4"), ("rest", "S14")]),
    "A": np.dtype([*_COMMON, *_ORDER]),
    "F": np.dtype([*_COMMON, *_ORDER, ("mpid", "S4")]),
    "E": np.dtype([*_COMMON, ("ref", ">u8"), ("shares", ">u4"), ("match", ">u8")]),
    "C": np.dtype(
        [*_COMMON, ("ref", ">u8"), ("shares", ">u4"), ("match", ">u8"), ("printable", "S1"), ("price", ">u4")]
    ),
    "X": np.dtype([*_COMMON, ("ref", ">u8"), ("shares", ">u4")]),
    "D": np.dtype([*_COMMON, ("ref", ">u8")]),
    "U": np.dtype([*_COMMON, ("ref", ">u8"), ("new_ref", ">u8"), ("shares", ">u4"), ("price", ">u4")]),
    "P": np.dtype([*_COMMON, *_ORDER, ("match", ">u8")]),
}
"""Packed messages, each preceded by the two bytes of its length."""
_FATES: Final = {"D": 0.62, "E": 0.1, "C": 0.02, "ED": 0.08, "XD": 0.04, "UD": 0.12, "P": 0.02}
"""Fates of orders and their shares, as letters of messages; P is a trade with a hidden order, which is never added."""


def itch_block(size: int, seed: int) -> tuple[bytes, int]:
    """Return about ``size`` bytes, and the number of messages in them."""
    orders = _Orders(max(100, size // _BYTES_AN_ORDER), seed)
    parts = [(np.full(len(_SYMBOLS), -1.0), orders.directory())]
    parts += list(orders.events())
    times = np.concatenate([when for when, _ in parts])
    order = np.argsort(times, kind="stable")
    sizes = np.concatenate([np.full(len(records), records.dtype.itemsize) for _, records in parts])
    ends = np.cumsum(sizes[order])
    starts = np.empty(len(order), np.int64)
    starts[order] = ends - sizes[order]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    block = np.empty(int(ends[-1]), np.uint8)
    at = 0
    for when, records in parts:
        mine = slice(at, at + len(when))
        stamps = _OPEN_NS + ranks[mine] * _STEP_NS
        records["high"], records["low"] = stamps >> 32, stamps & 0xFFFFFFFF
        width = records.dtype.itemsize
        block[starts[mine][:, None] + np.arange(width)] = records.view(np.uint8).reshape(-1, width)
        at += len(when)
    return block.tobytes(), len(order)


class _Orders:
    """Orders with their fates."""

    def __init__(self, count: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._fate = rng.choice(len(_FATES), count, p=list(_FATES.values()))
        self._born = np.arange(count, dtype=np.float64)
        self._life = rng.exponential(_LIFE, count) + 1
        self._symbol = rng.integers(0, len(_SYMBOLS), count)
        self._shares = rng.integers(2, 50, count) * 10
        self._side = rng.integers(0, 2, count)
        self._price = 1_000_000 + np.where(self._side == 0, -1, 1) * rng.integers(1, 200, count) * 100
        self._named = rng.random(count) < 0.05

    def directory(self) -> Any:
        """Return a stock directory message for each symbol."""
        records = _records("R", np.arange(len(_SYMBOLS)))
        records["stock"] = [symbol.ljust(8) for symbol in _SYMBOLS]
        records["marks"], records["lot"], records["rest"] = b"QN", 100, b"NCZ PNN1N    N"
        return records

    def events(self) -> Iterator[tuple[npt.NDArray[np.float64], Any]]:
        """Yield the times and the messages in groups of one type."""
        hidden = list(_FATES).index("P")
        for kind, chosen in (("A", ~self._named), ("F", self._named)):
            yield self._added(kind, np.flatnonzero(chosen & (self._fate != hidden)))
        for fate, path in enumerate(_FATES):
            who = np.flatnonzero(self._fate == fate)
            for step, kind in enumerate(path):
                when = self._born[who] + self._life[who] * (step + 1) / len(path)
                is_last = step == len(path) - 1
                if kind == "P":
                    yield self._added("P", who)
                else:
                    yield when, self._changed(kind, who, self._shares[who] if is_last else self._shares[who] // 2, path)

    def _added(self, kind: str, who: Numbers) -> tuple[npt.NDArray[np.float64], Any]:
        records = _records(kind, self._symbol[who])
        records["ref"], records["shares"], records["price"] = who + 1, self._shares[who], self._price[who]
        records["side"] = np.where(self._side[who] == 0, b"B", b"S")
        records["stock"] = np.array([symbol.ljust(8) for symbol in _SYMBOLS])[self._symbol[who]]
        if kind == "F":
            records["mpid"] = b"ACME"
        if kind == "P":
            records["match"] = who + 1
        return self._born[who], records

    def _changed(self, kind: str, who: Numbers, shares: Numbers, path: str) -> Any:
        records = _records(kind, self._symbol[who])
        records["ref"] = who + 1 + (len(self._fate) if kind == "D" and path == "UD" else 0)
        if kind != "D":
            records["shares"] = shares
        if kind in "EC":
            records["match"] = who + 1
        if kind in "CU":
            records["price"] = self._price[who]
        if kind == "C":
            records["printable"] = b"Y"
        if kind == "U":
            records["new_ref"] = who + 1 + len(self._fate)
        return records


def _records(kind: str, symbols: Numbers) -> Any:
    records = np.zeros(len(symbols), _TYPES[kind])
    records["size"], records["type"] = records.dtype.itemsize - 2, kind.encode()
    records["locate"] = symbols + 1
    return records
