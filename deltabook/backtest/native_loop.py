"""The fast path of a backtest: recorded orders, books and views in one compiled loop.

```
records ─columns─▶ ┌─────────────── one call of the kernel ───────────────┐
                   │ books (flat arrays) ─rows─▶ batches ─▶ graph of views │ ─▶ a row of a view changed ─▶ strategies
own orders ──────▶ └──────────────────────────────────────────────────────┘ ─▶ an own order was executed ─▶ desk
```

`columns_of` turns records into arrays, and `NativeLoop` plays them until Python has something to do.
`deltabook.backtest.native_books` has the arrays of the books. It also has `NativeBook`, which replaces
`exchange_server.matching.Book` while the market carries out the requests of strategies. The kernel is
`runtime.native.library.matching`.

The pure-Python market is the reference: both give the same bytes, which a property test compares. The kernel supports
limit, market and immediate orders without further attributes. It does not support auctions, views that DuckDB computes,
or views that are added during the run. For these the run continues on the pure-Python market, in the state that it
would have had without the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from deltabook.backtest.deltas import DeltaEncoder
from deltabook.backtest.flow import FILE_SHIFT
from deltabook.backtest.native_books import Books
from deltabook.backtest.simulation import BacktestLoop
from exchange_server.matching import AnyInput
from exchange_server.matching.inputs import REMAIN, Cancel, Enter, MassCancel, OpenAccount, Reduce, Replace
from exchange_server.matching.order import IOC, MARKET
from exchange_server.replay import Record
from runtime.native.library import matching as m
from runtime.native.tiers import Kernels, plain_kernel
from runtime.views.graph import Change, DrivenGraph

__all__ = ["NativeLoop"]


Words = npt.NDArray[np.int64]

_ACTIONS: Final = {
    "B": m.ADD_BUY,
    "S": m.ADD_SELL,
    "E": m.EXECUTE,
    "F": m.FILL,
    "D": m.DROP,
    "X": m.TAKE_OFF,
    "U": m.REPLACE,
    REMAIN: m.REMAIN,
}
_ATTRIBUTES: Final = (
    (m.C_TIME, attrgetter("time_ns")),
    (m.C_POSITION, attrgetter("position")),
    (m.C_BROKER, attrgetter("broker_id")),
    (m.C_VOLUME, attrgetter("volume")),
    (m.C_PRICE, attrgetter("price_ticks")),
)
_IDS: Final = (
    (m.C_FILE, m.C_ORDER, attrgetter("order_id")),
    (m.C_NEW_FILE, m.C_NEW, attrgetter("new_id")),
)
_MASK: Final = 2**FILE_SHIFT - 1


def columns_of(records: Sequence[Record], locates: Mapping[str, int]) -> list[Words] | None:
    """Return the columns of records, in the order of `matching.C_TIME` and the constants after it.

    ``locates`` maps a symbol to the number of its book. None is returned if a value does not fit a column: a negative
    id, or a number outside 64 bits.
    """
    columns: dict[int, Words] = {}
    try:
        for place, attribute in _ATTRIBUTES:
            columns[place] = np.array(list(map(attribute, records)), np.int64)
        for file, number, attribute in _IDS:
            columns[file], columns[number] = _ids(list(map(attribute, records)))
        columns[m.C_ACTION] = np.array([_ACTIONS.get(r.action, m.OTHER) for r in records], np.int64)
        columns[m.C_LOCATE] = np.array([locates[r.symbol] for r in records], np.int64)
    except OverflowError:
        return None
    return [columns[place] for place in sorted(columns)]


def _ids(ids: Sequence[int]) -> tuple[Words, Words]:
    """Return the numbers of files and the ids in them; raise `OverflowError` for a negative id."""
    try:
        numbers = np.array(ids, np.int64)
    except OverflowError:  # raised for the ids of every file but the first
        files = [number >> FILE_SHIFT for number in ids]
        low = np.array([number & _MASK for number in ids], np.uint64).view(np.int64)
        if min(files) < 0:
            raise
        return np.array(files, np.int64), low
    if len(numbers) and numbers.min() < 0:
        raise OverflowError(f"expected an id of 0 or more, was {numbers.min()}")
    return np.zeros(len(numbers), np.int64), numbers


SOURCE: Final = '''"""Matches recorded orders and runs a graph for each."""

from runtime.native.library.matching import operate
from runtime.native.plain import jit, root


@jit
def step(address):
    return operate(root(address))
'''
_CHUNK: Final = 16_384
"""Number of records that are turned into columns at a time."""
_PLAIN: Final = (OpenAccount, Reduce, Cancel, Replace, MassCancel)
"""Requests that the kernel's books support, in addition to `Enter` of limit, market and immediate orders."""


class NativeLoop:
    """Plays the records of a backtest through the kernel, up to a request that only the pure-Python market supports."""

    def __init__(
        self,
        simulation: BacktestLoop,
        encoder: DeltaEncoder,
        graph: DrivenGraph,
        on_changes: Callable[[list[Change]], None],
        kernel: Callable[[Any], int],
    ) -> None:
        """Make a loop; ``on_changes`` receives the changes of views of each step, and ``kernel`` is compiled if and
        only if the graph is compiled.
        """
        self._simulation, self._graph, self._on_changes = simulation, graph, on_changes
        market = self._market = simulation.market
        self._books = Books(market, encoder, graph, kernel, is_compiled=graph.is_compiled)
        self._locates = {instrument.symbol: n for n, instrument in enumerate(market.rules.instruments, 1)}
        self._chunk: list[Record] = []

    @staticmethod
    def kernel(kernels: Kernels | None, graph: DrivenGraph, wait_s: float) -> Callable[[Any], int] | None:
        """Return the kernel in the tier of the graph; None if it is not compiled within ``wait_s`` seconds.

        Without ``kernels`` the kernel is interpreted.
        """
        if kernels is None:
            return plain_kernel(SOURCE)
        kernels.wait([SOURCE, *graph.sources()], wait_s)
        return kernels.get(SOURCE) if graph.complete() else None

    def play(self, records: Iterator[Record], number: int = 0) -> int:
        """Play at most ``number`` records (0: all), with all their consequences; return how many were played.

        Ends early if the simulation is stopped or the remaining records are handed over.
        """
        played, n, simulation = 0, self._books.numbers, self._simulation
        while not self._has_left() and not simulation.is_stopped and not (number and played == number):
            if n[m.RECORD] >= len(self._chunk) and not self._next_chunk(records):
                break
            begin = n[m.RECORD]
            last = min(len(self._chunk), begin + number - played) if number else len(self._chunk)
            self._play_chunk(last)
            count = n[m.RECORD] - begin
            played += count
            simulation.records += count
        if not self._has_left():
            self._books.counters()
        return played

    def _next_chunk(self, records: Iterable[Record]) -> bool:
        """Make the next records the present chunk; return False if there are none or the records are handed over."""
        self._chunk = list(islice(records, _CHUNK))
        if not self._chunk:
            return False
        columns = columns_of(self._chunk, self._locates)
        if columns is None:
            self._books.numbers[m.RECORD] = 0
            self.hand_over()
            return False
        self._books.set_records(columns)
        return True

    def _play_chunk(self, last: int) -> None:
        """Play records of the present chunk up to record number ``last``."""
        simulation, books, clock = self._simulation, self._books, self._simulation.clock
        n, chunk, soon = books.numbers, self._chunk, self._simulation.clock.soon
        while n[m.RECORD] < last and not self._has_left() and not simulation.is_stopped:
            if (time_ns := chunk[n[m.RECORD]].time_ns) >= clock.next_ns:
                clock.advance(time_ns)
                if self._has_left():
                    return
            status = books.play(last, clock.next_ns, simulation.last_ns)
            simulation.last_ns = n[m.TIME]
            if n[m.RECORD] and n[m.TIME] > clock.now_ns:
                clock.now_ns = n[m.TIME]
            if status == m.MATCHED_OWN:
                books.report_executions()
                simulation.notify_accounts()
                status = books.run_graph()
            self._attend(status)
            if soon:
                clock.run_turn()

    def _has_left(self) -> bool:
        """Return True once the pure-Python market has taken over."""
        return not self._simulation.is_native

    def _attend(self, status: int) -> None:
        """Run the graph to the end of its step, and pass on the changes of views."""
        errors: dict[str, Exception] = {}
        while status == m.STOPPED:
            self._graph.attend(errors)
            status = self._books.run_graph()
        if status == m.CHANGED or errors:
            self._on_changes(self._graph.finish(errors))

    def step(self) -> None:
        """Run the graph over the changes that requests made."""
        self._attend(self._books.run_graph())
        self._books.counters()

    def takes(self, batch: Sequence[AnyInput]) -> bool:
        """Bring the market's ids and time up to date; return True if the kernel's books support these requests."""
        self._books.update_market()
        for item in batch:
            if isinstance(item, Enter):
                if item.flags & ~(MARKET | IOC):
                    return False
            elif not isinstance(item, _PLAIN):
                return False
        return True

    def hand_over(self) -> None:
        """Give the pure-Python market the state of the books, and the remaining records of the present chunk."""
        self._books.hand_over()
        self._simulation.leave_native(self._chunk[self._books.numbers[m.RECORD] :])
