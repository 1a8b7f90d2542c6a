"""References of the express lane: a program for one message at a time, and the hand-written numpy programs.

Unlike the lane, the references do not compute their input: the program for one message at a time gets parsed messages,
and the numpy programs get deltas of the relations.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from bench.views.handwritten import HANDWRITTEN, Answer, Columns
from bench.views.market import BROKERS, LEVELS, LOWEST
from runtime.native.cache import default_kernels
from runtime.relations import FeedAdaptor, Retention
from runtime.relations.adaptor import Prepared
from runtime.state import MemoryStore, ObjectSpace

__all__ = ["PlainBook", "Timed", "deltas_of", "time_numpy", "time_plain"]

_DISTANCE: Final = 1000
_TOP: Final = 1 << (LEVELS.bit_length() - 1)


class Timed(msgspec.Struct, frozen=True):
    """Result of a timed run of a reference."""

    messages_per_s: float
    """Messages per second."""
    answers: dict[str, Answer]
    """Rows of each view at the end."""


class _Fenwick:
    """Fenwick tree: sums over price levels that change one at a time; levels count from 0."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums = [0] * (LEVELS + 1)

    def add(self, level: int, amount: int) -> None:
        sums, place = self._sums, level + 1
        while place <= LEVELS:
            sums[place] += amount
            place += place & -place

    def below(self, level: int) -> int:
        """Return the sum of the levels below ``level``."""
        sums, place, total = self._sums, min(max(level, 0), LEVELS), 0
        while place > 0:
            total += sums[place]
            place &= place - 1
        return total

    def reaching(self, target: int) -> int:
        """Return the first level at which the sum of the levels up to and including it reaches the target."""
        sums, place, step = self._sums, 0, _TOP
        while step:
            after = place + step
            if after <= LEVELS and sums[after] < target:
                place, target = after, target - sums[after]
            step >>= 1
        return place


class PlainBook:
    """Program that computes VWAP and AXF after every message, by dictionaries and Fenwick trees."""

    def __init__(self) -> None:
        self._orders: dict[int, tuple[bool, int, int, int]] = {}
        self._volume = 0
        self._volumes, self._values = _Fenwick(), _Fenwick()
        self._total_value = 0
        sides = [(_Fenwick(), _Fenwick()) for _ in range(2 * BROKERS)]
        self._sides = {is_bid: sides[is_bid * BROKERS : (is_bid + 1) * BROKERS] for is_bid in (False, True)}
        self._held = {is_bid: [[0, 0] for _ in range(BROKERS)] for is_bid in (False, True)}
        self._axf = [0] * BROKERS
        self._pairs = [0] * BROKERS
        self.vwap: int | None = None
        """Answer of VWAP."""

    def take(self, order_id: int, broker: int, action: str, volume: int, price: int) -> None:
        """Process one message; the answers are up to date afterwards."""
        if action == "B" or action == "S":  # noqa: PLR1714 (quicker than a tuple)
            self._orders[order_id] = action == "B", broker, price, volume
            self._change(action == "B", broker, price, volume, 1)
        else:
            order = self._orders.get(order_id)
            if order is None:
                return
            is_bid, broker, price, held = order
            left = held - volume if action in "EX" else 0
            if left > 0:
                self._orders[order_id] = is_bid, broker, price, left
                self._change(is_bid, broker, price, left - held, 0)
            else:
                del self._orders[order_id]
                self._change(is_bid, broker, price, -held, -1)
        self._answer()

    def _change(self, is_bid: bool, broker: int, price: int, volume: int, count: int) -> None:
        """Change volume and number of orders at a price, and the pairs with distant orders of the other side."""
        level = price - LOWEST["bids" if is_bid else "asks"]
        if is_bid:
            self._volume += volume
            self._volumes.add(level, volume)
            self._values.add(level, price * volume)
            self._total_value += price * volume
        other = "asks" if is_bid else "bids"
        counts, volumes = self._sides[not is_bid][broker]
        total_count, total_volume = self._held[not is_bid][broker]
        low, high = price - _DISTANCE - LOWEST[other], price + _DISTANCE + 1 - LOWEST[other]
        far = counts.below(low) + total_count - counts.below(high)
        far_volume = volumes.below(low) + total_volume - volumes.below(high)
        sign = -1 if is_bid else 1
        self._axf[broker] += sign * (volume * far - count * far_volume)
        self._pairs[broker] += count * far
        own_counts, own_volumes = self._sides[is_bid][broker]
        if count:
            own_counts.add(level, count)
        own_volumes.add(level, volume)
        held = self._held[is_bid][broker]
        held[0] += count
        held[1] += volume

    def _answer(self) -> None:
        """Sum the values of the levels with less than a quarter of the volume above them, without the best level."""
        if not self._volume:
            self.vwap = None
            return
        # A level counts if 4 × (total - upto) < total, which means that the volume up to this level is more than three
        # quarters.
        first = self._volumes.reaching(self._volume - (self._volume - 1) // 4)
        best = self._volumes.reaching(self._volume)
        self.vwap = self._values.below(best) - self._values.below(first) if first < best else None

    @property
    def axf(self) -> Answer:
        """Answer of AXF."""
        return [(broker, self._axf[broker]) for broker in range(BROKERS) if self._pairs[broker]]


def time_plain(table: pa.Table, warm: int) -> Timed:
    """Process the messages of a flow one by one; the warm-up is not timed."""
    columns = [table[name].to_pylist() for name in ("order_id", "broker_id", "action", "volume", "price")]
    rows = list(zip(*columns, strict=True))
    book = PlainBook()
    for row in rows[:warm]:
        book.take(*row)
    gc.collect()
    start = time.perf_counter()
    for row in rows[warm:]:
        book.take(*row)
    seconds = time.perf_counter() - start
    return Timed((len(rows) - warm) / seconds, {"vwap": [(book.vwap,)], "axf": book.axf})


def deltas_of(table: pa.Table, piece: int) -> Iterator[tuple[int, Mapping[str, pa.RecordBatch]]]:
    """Yield the deltas of pieces of ``piece`` messages, with the number of messages."""
    adaptor = FeedAdaptor(ObjectSpace(MemoryStore()), "feed", Retention(), kernels=default_kernels())
    (whole,) = table.combine_chunks().to_batches()
    for begin in range(0, whole.num_rows, piece):
        rows = whole.slice(begin, piece)
        ends = rows["sequence"].to_numpy()  # offsets are not used
        yield rows.num_rows, adaptor.apply(Prepared(rows, ends, ends > 0))


def time_numpy(table: pa.Table, warm: int, piece: int, views: Sequence[str]) -> Timed:
    """Run the hand-written programs over pieces of ``piece`` messages; the warm-up is not timed."""
    programs = {view: HANDWRITTEN[view]() for view in views}
    answers: dict[str, Answer] = {}
    given: list[tuple[int, dict[str, Columns]]] = [
        (messages, {name: _columns(batch) for name, batch in deltas.items() if name != "trades"})
        for messages, deltas in deltas_of(table, piece)
    ]
    seconds, timed, seen = 0.0, 0, 0
    for messages, columns in given:
        start = time.perf_counter()
        for view, program in programs.items():
            answers[view] = program.apply(columns)
        if seen >= warm:
            seconds += time.perf_counter() - start
            timed += messages
        seen += messages
    return Timed(timed / seconds, answers)


def _columns(batch: pa.RecordBatch) -> Columns:
    return {name: batch[name].to_numpy() for name in batch.schema.names if name != "symbol"}
