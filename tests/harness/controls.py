"""Sources and pipelines that a test controls, and that record their calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from runtime.engine.barriers import Barrier
from runtime.engine.plan import Context, Emitter, Pipeline, Source
from tests.harness.watch import Watch

__all__ = ["Broken", "ControlledPipeline", "ControlledSource"]

GATE_S = 60.0


class Broken(RuntimeError):
    """Error that a control raises when a test has requested a failure."""


class _Gate:
    """Holds a worker until a test opens the gate; open from the start, and only useful with threads."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self.is_reached = False

    def shut(self) -> None:
        """Close the gate: workers wait."""
        self._open.clear()

    def open(self) -> None:
        """Open the gate: workers continue."""
        self._open.set()

    def pass_through(self, watch: Watch) -> None:
        """Wait until the gate is open; called by a worker."""
        self.is_reached = True
        watch.changed()
        assert self._open.wait(GATE_S), "expected the test to open the gate"


class ControlledSource(Source):
    """Source that a test drives from its own thread; `inject` never blocks, and refused items wait for `resume`."""

    def __init__(self, name: str, watch: Watch) -> None:
        self.name = name
        self._watch = watch
        self._lock = (
            threading.RLock()
        )  # guards the attributes below: used by the test's thread and by workers that resume
        self._emit: Emitter | None = None
        self._backlog: list[tuple[object, int]] = []
        self._is_end_wanted = False
        self.open_gate = _Gate()
        """Gate that `open` passes through; shut it for a slow `open`."""
        self.close_gate = _Gate()
        """Gate that `close` passes through; shut it for a slow `close`."""
        self.fails_on_open = ""
        self.fails_on_close = ""
        self.on_accepted: Callable[[object], object] = lambda item: item
        """Called with an item just before the item is offered; the result is offered in its place."""
        self.taken: list[object] = []
        """Items that the engine has accepted, in order."""
        self.opens = 0
        self.closes = 0
        self.resumes = 0
        self.is_open = False
        self.threads: set[int] = set()
        """Ids of the threads that called `close`."""

    def open(self, emit: Emitter) -> None:
        """See `Source`."""
        self.opens += 1
        self.open_gate.pass_through(self._watch)
        if self.fails_on_open:
            raise Broken(self.fails_on_open)
        with self._lock:
            self._emit = emit
            self.is_open = True
        self._watch.changed()
        self._offer()

    def close(self) -> None:
        """See `Source`."""
        self.threads.add(threading.get_ident())
        self.close_gate.pass_through(self._watch)
        with self._lock:
            self.is_open = False
            self.closes += 1
        self._watch.changed()
        if self.fails_on_close:
            raise Broken(self.fails_on_close)

    def resume(self) -> None:
        """See `Source`."""
        self.resumes += 1
        self._offer()
        self._watch.changed()

    @property
    def emitter(self) -> Emitter:
        """Emitter that `open` received."""
        assert self._emit is not None, f"expected source {self.name} to have been opened"
        return self._emit

    @property
    def waiting(self) -> int:
        """Number of items that were refused, or wait for `open`."""
        return len(self._backlog)

    def inject(self, *items: object, size: int = 1) -> None:
        """Inject items, now or when the engine has room for them."""
        with self._lock:
            self._backlog += [(item, size) for item in items]
        self._offer()

    def inject_end(self) -> None:
        """End the stream after the items injected before."""
        with self._lock:
            self._is_end_wanted = True
        self._offer()

    def inject_error(self, reason: str) -> None:
        """Report a failure of the source."""
        self.emitter.failed(reason)

    def _offer(self) -> None:
        with self._lock:
            if self._emit is None:
                return
            while self._backlog:
                item, size = self._backlog[0]
                item = self.on_accepted(item)
                if not self._emit.offer(item, size):
                    return
                self.taken.append(item)
                del self._backlog[0]
            if self._is_end_wanted:
                self._is_end_wanted = False
                self._emit.end_of_stream()


class ControlledPipeline(Pipeline):
    """Pipeline that passes on its inputs; without successors it is a sink. The test reads its records at the end."""

    def __init__(self, name: str, watch: Watch, *, concurrency: int = 1, most_inputs: int = 1) -> None:
        self.name = name
        self.concurrency = concurrency
        self.most_inputs = most_inputs
        self._watch = watch
        self._lock = threading.Lock()  # guards the counts, since calls of `execute` may overlap
        self._is_stateful = False
        self._held: list[object] = []
        self.gate = _Gate()
        """Gate that `execute` passes through; shut it for a slow `execute`."""
        self.start_gate = _Gate()
        self.stop_gate = _Gate()
        self.fails_on_start = ""
        self.fails_on_call = 0
        """Number of the call of `execute` that raises, from 1."""
        self.fails_on_drain = 0
        """Number of the call of `start_drain` that raises, from 1."""
        self.fails_on_stop = ""
        self.fails_on_discard = ""
        self.on_execute: Callable[[Sequence[object], Context], None] | None = None
        """Called instead of passing on the inputs."""
        self.advance: Callable[[], None] = lambda: None
        """Called in every call of `execute`; it may advance the clock, so that the call takes time."""
        self.events: list[str] = []
        """Calls of a sequential pipeline, in their order."""
        self.received: list[object] = []
        self.batches: list[list[object]] = []
        self.drained: list[tuple[Barrier, int]] = []
        """Barriers, each with the number of items received by then."""
        self.ended_ports: list[int] = []
        self.starts = self.calls = self.stops = self.discards = 0
        self.overlapping = self.most_overlapping = 0
        self.workers: set[int] = set()

    def hold_until_barrier(self) -> ControlledPipeline:
        """Keep the inputs, and emit them at barriers and at the end; return this pipeline."""
        self._is_stateful = True
        return self

    @property
    def is_running(self) -> bool:
        """True if it was started, and neither stopped nor discarded."""
        return self.starts > self.stops + self.discards

    def start(self, context: Context) -> None:
        """See `Pipeline`."""
        del context
        self.start_gate.pass_through(self._watch)
        if self.fails_on_start:
            raise Broken(self.fails_on_start)
        self.starts += 1
        self._happened("start")

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """See `Pipeline`."""
        with self._lock:
            self.calls += 1
            call = self.calls
            self.overlapping += 1
            self.most_overlapping = max(self.most_overlapping, self.overlapping)
            self.workers.add(context.worker)
        try:
            self.gate.pass_through(self._watch)
            self.advance()
            if call == self.fails_on_call:
                raise Broken(f"call {call}")
            if self.on_execute is not None:
                self.on_execute(inputs, context)
            elif self._is_stateful:
                self._held += inputs
            else:
                for each in inputs:
                    context.emit(each)
            with self._lock:
                self.received += inputs
                self.batches.append(list(inputs))
            self._happened("execute")
        finally:
            with self._lock:
                self.overlapping -= 1

    def end_of_input(self, port: int, context: Context) -> None:
        """See `Pipeline`."""
        del context
        self.ended_ports.append(port)
        self._happened(f"end {port}")

    def start_drain(self, barrier: Barrier, context: Context) -> None:
        """See `Pipeline`."""
        assert not self.overlapping, "expected nothing under way at a drain"
        if len(self.drained) + 1 == self.fails_on_drain:
            raise Broken(f"drain {self.fails_on_drain}")
        if self.is_cut_point:
            context.begin_barrier(barrier)
        self._emit_held(context)
        self.drained.append((barrier, len(self.received)))
        self._happened(f"drain {barrier.number}")

    def stop(self, context: Context) -> None:
        """See `Pipeline`."""
        assert not self.overlapping, "expected nothing under way at a stop"
        self.stops += 1
        self.stop_gate.pass_through(self._watch)
        self._emit_held(context)
        self._happened("stop")
        if self.fails_on_stop:
            raise Broken(self.fails_on_stop)

    def discard(self) -> None:
        """See `Pipeline`."""
        assert not self.overlapping, "expected nothing under way at a discard"
        self.discards += 1
        self._happened("discard")
        if self.fails_on_discard:
            raise Broken(self.fails_on_discard)

    def _emit_held(self, context: Context) -> None:
        held, self._held = self._held, []
        for each in held:
            context.emit(each)

    def _happened(self, what: str) -> None:
        self.events.append(what)
        self._watch.changed()
