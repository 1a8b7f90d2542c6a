"""Hand-written numpy programs, one per finance query: references of the view program.

Each program is what a good engineer would write for exactly this query on exactly this market: prices and volumes index
dense arrays, a batch is summed by ``bincount``, and the answer is read from prefix sums. Sums that stay below 2^53 are
in float64, which is exact for these numbers, and fast with ``bincount`` and BLAS. All other sums are in int64 or
Python's integers. The programs work for no other domain, and nothing is saved, restored or shared: this is the
advantage that the reference has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.views.market import BROKERS, LEVELS, LOWEST, MOST_VOLUME

__all__ = ["HANDWRITTEN", "Answer", "Columns", "Handwritten"]

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Columns = Mapping[str, Integers]
"""Columns of a relation's deltas, including ``weight``."""
Answer = list[tuple[int | None, ...]]
"""Rows of a view; scaled integers are as in the view program."""

_DISTANCE: Final = 1000
"""Price distance in ticks above which AXF counts a pair."""


class Handwritten(ABC):
    """Program of one query."""

    @abstractmethod
    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Apply a batch of deltas of the relations that the query reads, and return the whole answer."""


class Vwap(Handwritten):
    """State of VWAP: volume by price."""

    def __init__(self) -> None:
        self._volume = np.zeros(LEVELS)

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return the value of the best quarter of the volume."""
        if "bids" in deltas:
            d = deltas["bids"]
            self._volume += np.bincount(d["price"] - LOWEST["bids"], d["volume"] * d["weight"], LEVELS)
        begin, end = _best_quarter(self._volume)
        if begin == end:
            return [(None,)]
        prices = np.arange(LOWEST["bids"] + begin, LOWEST["bids"] + end, dtype=np.float64)
        return [(int(prices @ self._volume[begin:end]),)]


class Mst(Handwritten):
    """State of MST: asks by price, bids by broker and price."""

    def __init__(self) -> None:
        self._asks = np.zeros((2, LEVELS))
        self._bids = np.zeros((2, BROKERS, LEVELS))

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return, per broker, the sum over all pairs of a bid of the broker and an ask, each in the best quarter of its
        side."""
        if "asks" in deltas:
            _add(self._asks, deltas["asks"], deltas["asks"]["price"] - LOWEST["asks"])
        if "bids" in deltas:
            d = deltas["bids"]
            _add(self._bids, d, d["broker_id"] * LEVELS + (d["price"] - LOWEST["bids"]))
        begin, end = _best_quarter(self._asks[1])
        prices = np.arange(LOWEST["asks"] + begin, LOWEST["asks"] + end, dtype=np.float64)
        asks, value = int(self._asks[0, begin:end].sum()), int(prices @ self._asks[1, begin:end])
        begin, end = _best_quarter(self._bids[1].sum(axis=0))
        prices = np.arange(LOWEST["bids"] + begin, LOWEST["bids"] + end, dtype=np.float64)
        counts, values = self._bids[0, :, begin:end].sum(axis=1), self._bids[1, :, begin:end] @ prices
        return [
            (broker, int(count) * value - asks * int(values[broker]))
            for broker, count in enumerate(counts.tolist())
            if asks and count
        ]


class Psp(Handwritten):
    """State of PSP: number and prices of the orders by volume, for each side."""

    def __init__(self, share: int) -> None:
        self._share = share  # an order counts if its volume × share is more than the side's volume
        self._sides = {side: np.zeros((2, MOST_VOLUME + 1)) for side in LOWEST}
        self._volumes = np.arange(MOST_VOLUME + 1, dtype=np.float64)

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return the difference of the prices over all pairs of orders that count."""
        (bids, bid_prices), (asks, ask_prices) = (self._large(side, deltas.get(side)) for side in LOWEST)
        return [(bids * ask_prices - asks * bid_prices if bids and asks else None,)]

    def _large(self, side: str, d: Columns | None) -> tuple[int, int]:
        held = self._sides[side]
        if d is not None:
            held[0] += np.bincount(d["volume"], d["weight"], MOST_VOLUME + 1)
            held[1] += np.bincount(d["volume"], d["weight"] * d["price"], MOST_VOLUME + 1)
        least = int(self._volumes @ held[0]) // self._share + 1
        return int(held[0, least:].sum()), int(held[1, least:].sum())


class Bsv(Handwritten):
    """State of BSV: number and value of the bids by broker."""

    def __init__(self) -> None:
        self._held = np.zeros((2, BROKERS))

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return half the square of each broker's value, in tenths."""
        if "bids" in deltas:
            d = deltas["bids"]
            weight = d["weight"]
            self._held[0] += np.bincount(d["broker_id"], weight, BROKERS)
            self._held[1] += np.bincount(d["broker_id"], weight * d["volume"] * d["price"], BROKERS)
        counts, values = self._held.tolist()
        return [(broker, 5 * int(values[broker]) ** 2) for broker in range(BROKERS) if counts[broker]]


class Axf(Handwritten):
    """State of AXF: number and volume by broker and price, for each side."""

    def __init__(self) -> None:
        self._sides = {side: np.zeros((2, BROKERS, LEVELS)) for side in LOWEST}
        below = np.arange(LEVELS) + LOWEST["asks"] - LOWEST["bids"]  # an ask's level on the scale of the bids
        self._bids_below = np.clip(below - _DISTANCE, 0, LEVELS)
        self._bids_above = np.clip(below + _DISTANCE + 1, 0, LEVELS)
        self._never_above = bool((self._bids_above == LEVELS).all())

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return, per broker, the ask's volume minus the bid's, summed over all pairs that are far apart."""
        for side, d in deltas.items():
            _add(self._sides[side], d, d["broker_id"] * LEVELS + (d["price"] - LOWEST[side]))
        bids, asks = self._sides["bids"], self._sides["asks"]
        upto = np.zeros((2, BROKERS, LEVELS + 1))
        np.cumsum(bids, axis=2, out=upto[:, :, 1:])
        far = upto[:, :, self._bids_below]
        if not self._never_above:
            far += upto[:, :, -1:] - upto[:, :, self._bids_above]
        pairs = np.einsum("bl,bl->b", asks[0], far[0]).tolist()
        sums = (np.einsum("bl,bl->b", asks[1], far[0]) - np.einsum("bl,bl->b", asks[0], far[1])).tolist()
        return [(broker, int(sums[broker])) for broker in range(BROKERS) if pairs[broker]]


class Bsp(Handwritten):
    """State of BSP: the live bids in the order of their times, from which the answer is computed by a sort by broker
    and a product.
    """

    def __init__(self) -> None:
        self._rows = np.zeros((2, 0), np.int64)  # time, value
        self._brokers = np.zeros(0, np.uint8)

    def apply(self, deltas: Mapping[str, Columns]) -> Answer:
        """Return, per broker, the sum over its bids of the value × (number of earlier bids - number of later bids)."""
        if "bids" in deltas:
            self._take(deltas["bids"])
        counts = np.bincount(self._brokers, minlength=BROKERS)
        ends = np.cumsum(counts)
        values = self._rows[1][np.argsort(self._brokers, kind="stable")]  # a radix sort: the brokers are bytes
        found: Answer = []
        for broker, (count, end) in enumerate(zip(counts.tolist(), ends.tolist(), strict=True)):
            if count > 1:
                found.append((broker, int(np.arange(1 - count, count, 2) @ values[end - count : end])))
        return found

    def _take(self, d: Columns) -> None:
        new = d["weight"] > 0
        gone = np.sort(d["t"][~new])
        rows = np.stack([d["t"][new], (d["volume"] * d["price"])[new]])
        rows = np.concatenate([self._rows, rows], axis=1)
        alive = np.ones(rows.shape[1], np.bool_)
        alive[np.searchsorted(rows[0], gone)] = False
        self._rows = rows[:, alive]
        self._brokers = np.concatenate([self._brokers, d["broker_id"][new].astype(np.uint8)])[alive]


def _add(held: npt.NDArray[Any], d: Columns, place: Integers) -> None:
    """Add the deltas at these places to numbers and volumes."""
    size = held[0].size
    held[0] += np.bincount(place, d["weight"], size).reshape(held[0].shape)
    held[1] += np.bincount(place, d["weight"] * d["volume"], size).reshape(held[1].shape)


def _best_quarter(volume: Floats) -> tuple[int, int]:
    """Return the range of levels with some volume above them, but less than a quarter: the best level is excluded."""
    upto = np.cumsum(volume)
    total = upto[-1]
    begin = int(np.searchsorted(upto, 0.75 * total, side="right"))  # upto > total - total/4, exact in binary
    end = int(np.searchsorted(upto, total, side="left"))  # the first level with nothing above
    return min(begin, end), end


HANDWRITTEN: Final[Mapping[str, Any]] = {
    "axf": Axf,
    "bsp": Bsp,
    "bsv": Bsv,
    "mst": Mst,
    "psp": lambda: Psp(10_000),
    "psph": lambda: Psp(20_000),
    "vwap": Vwap,
}
"""Factory of each query's program."""
