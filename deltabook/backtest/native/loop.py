"""Plays records through the kernel, and stops wherever Python has something to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final

from deltabook.backtest.deltas import DeltaEncoder
from deltabook.backtest.native.books import Books
from deltabook.backtest.native.columns import columns_of
from deltabook.backtest.simulation import Simulation
from exchange_server.matching import AnyInput
from exchange_server.matching.inputs import Cancel, Enter, MassCancel, OpenAccount, Reduce, Replace
from exchange_server.matching.order import IOC, MARKET
from exchange_server.replay import Record
from runtime.native.library import matching as m
from runtime.native.tiers import Kernels, plain_kernel
from runtime.views.shard import Change, DrivenGraph

__all__ = ["SOURCE", "NativeLoop"]

SOURCE: Final = '''"""Matches recorded orders and runs a graph for each."""

from runtime.native.library.matching import operate
from runtime.native.plain import jit, root


@jit
def step(address):
    return operate(root(address))
'''
_CHUNK: Final = 16_384
"""Records that are made columns at a time."""
_PLAIN: Final = (OpenAccount, Reduce, Cancel, Replace, MassCancel)
"""Requests that the kernel's books take, beside `Enter` without attributes."""


class NativeLoop:
    """The kernel of a simulation, from its first record to a request that only the pure-Python market knows."""

    def __init__(
        self,
        simulation: Simulation,
        encoder: DeltaEncoder,
        graph: DrivenGraph,
        on_changes: Callable[[list[Change]], None],
        kernel: Callable[[Any], int],
    ) -> None:
        """``on_changes`` gets what a step has changed in views; ``kernel`` is compiled if the graph is."""
        self._simulation, self._graph, self._on_changes = simulation, graph, on_changes
        market = self._market = simulation.market
        self._books = Books(market, encoder, graph, kernel, is_compiled=graph.is_compiled)
        self._locates = {instrument.symbol: n for n, instrument in enumerate(market.rules.instruments, 1)}
        self._chunk: list[Record] = []

    @staticmethod
    def kernel(kernels: Kernels | None, graph: DrivenGraph, wait_s: float) -> Callable[[Any], int] | None:
        """Return the kernel in the tier of the graph, None if it is not compiled within a time.

        Without ``kernels`` it is interpreted.
        """
        if kernels is None:
            return plain_kernel(SOURCE)
        kernels.wait([SOURCE, *graph.sources()], wait_s)
        return kernels.get(SOURCE) if graph.complete() else None

    def play(self, records: Iterator[Record], number: int = 0) -> int:
        """Play so many records at most (0: all), with everything that comes of them; return how many were played.

        Ends early when the simulation is stopped and when the rest is handed over.
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
        """Make the next records the present ones; False if there are none, or if they are handed over."""
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
        """Play records of the present chunk up to a number of them."""
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
                simulation.tell_accounts()
                status = books.run_graph()
            self._attend(status)
            if soon:
                clock.run_turn()

    def _has_left(self) -> bool:
        """True once the pure-Python market has taken over."""
        return not self._simulation.is_native

    def _attend(self, status: int) -> None:
        """Run the graph to the end of its step, and hand out what views have changed."""
        errors: dict[str, Exception] = {}
        while status == m.STOPPED:
            self._graph.attend(errors)
            status = self._books.run_graph()
        if status == m.CHANGED or errors:
            self._on_changes(self._graph.finish(errors))

    def step(self) -> None:
        """Run the graph over what requests have changed."""
        self._attend(self._books.run_graph())
        self._books.counters()

    def takes(self, batch: Sequence[AnyInput]) -> bool:
        """True if the kernel's books take all of these requests; the market is up to date then."""
        self._books.update_market()
        for item in batch:
            if isinstance(item, Enter):
                if item.flags & ~(MARKET | IOC):
                    return False
            elif not isinstance(item, _PLAIN):
                return False
        return True

    def hand_over(self) -> None:
        """Give the pure-Python market the state of the books, and the records of the present chunk that are left."""
        self._books.hand_over()
        self._simulation.leave_native(self._chunk[self._books.numbers[m.RECORD] :])
