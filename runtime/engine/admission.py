"""Admission of sources' inputs to the engine, within bounds on the inputs in flight."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

__all__ = ["Admission", "Ticket", "Window"]


class Ticket:
    """Ticket of one input in flight, or of several inputs that an item was derived from.

    It is accessed with the admission's lock held.
    """

    __slots__ = ("count", "parents", "size", "window")

    def __init__(self, window: Window | None, size: int, parents: Sequence[Ticket], count: int) -> None:
        self.window = window
        """Window of the input's source; None once all of its items are executed, and for a ticket of several inputs."""
        self.size = size
        """Size of the input; 0 for a ticket of several inputs."""
        self.parents = parents
        """Ticket of each input, if this is a ticket of several inputs."""
        self.count = count
        """Number of items derived from the input that are not executed yet."""


class Window:
    """Inputs of one source in flight, in the order in which they came; accessed with the admission's lock held."""

    __slots__ = ("is_granted", "is_refused", "is_withdrawn", "on_empty", "resume", "size", "tickets")

    def __init__(self, resume: Callable[[], None]) -> None:
        self.resume = resume
        self.tickets: deque[Ticket] = deque()
        self.on_empty: list[Callable[[], None]] = []
        """Callbacks to be called once no input of the source is in flight."""
        self.size = 0
        self.is_refused = False
        """True if an input was refused by the source's own bounds."""
        self.is_granted = False
        """True if the source waited for the common bounds, was resumed, and has offered nothing since."""
        self.is_withdrawn = False
        """True if the source has ended."""


class Admission:
    """Admits inputs within bounds, and resumes refused sources once there is room again.

    An input is in flight until all items derived from it, and all items derived from earlier inputs of the same source,
    have been executed. So the engine's inner queues are bounded: while a worker is stuck with an input of a source,
    only a bounded number of further inputs of that source is admitted. If no input is in flight, the next one is
    admitted however large it is. Sources that were refused by the common bounds are resumed in the order of their
    refusals, and other sources queue after them. So a large input is never kept out by many small inputs. While the
    admission is held, nothing is admitted, even if there is room. Thread-safe; `resume` is called without a lock.
    """

    def __init__(self, inputs: int, size: int, source_inputs: int, source_size: int) -> None:
        """Set the bounds in number and size, first for all sources together and then for each source."""
        self._most_inputs = inputs
        self._most_size = size
        self._source_inputs = source_inputs
        self._source_size = source_size
        self._lock = threading.Lock()
        self._inputs = 0
        self._size = 0
        self._windows: set[Window] = set()  # windows of sources that may still offer inputs, or have inputs in flight
        self._refused: dict[Window, int] = {}  # windows refused by the common bounds, in order → size that each offered
        self._is_held = False
        self._waiting: dict[Window, None] = {}  # windows refused while the admission was held

    @property
    def inputs(self) -> int:
        """Number of inputs in flight."""
        return self._inputs

    @property
    def size(self) -> int:
        """Sum of the sizes of the inputs in flight, in the unit of their sources."""
        return self._size

    def open(self, resume: Callable[[], None]) -> Window:
        """Return a window for a new source; ``resume`` is called on a worker when there is room after a refusal."""
        window = Window(resume)
        with self._lock:
            self._windows.add(window)
        return window

    def enter(self, window: Window, size: int, count: int = 1) -> Ticket | None:
        """Admit an input of ``count`` items; return None if there is no room; the source is resumed when there is."""
        with self._lock:
            if window.is_withdrawn:
                return None
            if self._is_held:
                self._waiting[window] = None
                return None
            if window.tickets and (
                len(window.tickets) >= self._source_inputs or window.size + size > self._source_size
            ):
                window.is_refused = True
                return None
            if self._inputs and (
                self._inputs >= self._most_inputs or self._size + size > self._most_size or self._is_behind(window)
            ):
                window.is_granted = False
                self._refused[window] = size
                return None
            window.is_granted = False
            if self._refused:
                self._refused.pop(window, None)
            ticket = Ticket(window, size, (), count)
            window.tickets.append(ticket)
            window.size += size
            self._inputs += 1
            self._size += size
            return ticket

    def hold(self, is_held: bool) -> None:
        """Start or end a hold, during which no input is admitted; the caller calls `resume_held` after the end."""
        with self._lock:
            self._is_held = is_held

    def resume_held(self) -> None:
        """Resume the sources that were refused during a hold, unless another hold has begun."""
        with self._lock:
            if self._is_held:
                return
            calls = [window.resume for window in self._waiting]
            self._waiting.clear()
        for call in calls:
            call()

    def share(self, tickets: Sequence[Ticket], count: int) -> Ticket | None:
        """Return the ticket for ``count`` items derived from the executed inputs that had these tickets."""
        if not count:
            self.leave(tickets)
            return None
        if len(tickets) > 1:
            return Ticket(None, 0, tickets, count)
        if not tickets:
            return None
        if count > 1:
            with self._lock:
                tickets[0].count += count - 1
        return tickets[0]

    def leave(self, tickets: Sequence[Ticket]) -> None:
        """Note that items with these tickets have been executed; this call may resume sources."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            touched = self._subtract(tickets)
            for window in touched:
                self._advance(window, calls)
            if touched and self._refused:
                self._grant(calls)
        for call in calls:
            call()

    def when_empty(self, window: Window, call: Callable[[], None]) -> None:
        """Call ``call``, without a lock held, once no input of a source is in flight, which may be at once."""
        with self._lock:
            if window.tickets:
                window.on_empty.append(call)
                return
        call()

    def withdraw(self, window: Window) -> None:
        """Remove a source that has ended; its inputs in flight stay in flight."""
        calls: list[Callable[[], None]] = []
        with self._lock:
            window.is_withdrawn, window.is_refused, window.is_granted = True, False, False
            window.resume = _nothing  # drop the reference to the source
            self._refused.pop(window, None)
            self._waiting.pop(window, None)
            self._grant(calls)
            self._forget(window)
        for call in calls:
            call()

    def _is_behind(self, window: Window) -> bool:
        """Return True if another source has waited for longer, and the source of this window was not resumed."""
        return bool(self._refused) and not window.is_granted and next(iter(self._refused)) is not window

    def _subtract(self, tickets: Sequence[Ticket]) -> list[Window]:
        """Subtract executed items from their tickets; return the windows whose oldest input is executed."""
        touched: list[Window] = []
        waiting = list(tickets)
        while waiting:
            ticket = waiting.pop()
            ticket.count -= 1
            if ticket.count:
                assert ticket.count > 0, "an item was counted as executed twice"
                continue
            waiting += ticket.parents
            window, ticket.window = ticket.window, None
            if window is not None and window.tickets[0] is ticket:
                touched.append(window)
        return touched

    def _advance(self, window: Window, calls: list[Callable[[], None]]) -> None:
        """Remove the oldest inputs that are executed; append to ``calls`` the callbacks that are now due."""
        tickets = window.tickets
        while tickets and tickets[0].window is None:
            size = tickets.popleft().size
            window.size -= size
            self._size -= size
            self._inputs -= 1
        if window.on_empty and not tickets:
            calls += window.on_empty
            window.on_empty = []
        if window.is_refused:
            window.is_refused = False
            calls.append(window.resume)
        self._forget(window)

    def _forget(self, window: Window) -> None:
        if window.is_withdrawn and not window.tickets:
            self._windows.discard(window)

    def _grant(self, calls: list[Callable[[], None]]) -> None:
        """Grant room, in order, to sources that wait for the common bounds.

        The first source gets room in any case if no input is in flight.
        """
        inputs, size = self._inputs, self._size
        while self._refused:
            window = next(iter(self._refused))
            wanted = self._refused[window]
            inputs += 1
            size += wanted
            if inputs > 1 and (inputs > self._most_inputs or size > self._most_size):
                break
            del self._refused[window]
            window.is_granted = True
            calls.append(window.resume)

    def check(self) -> None:
        """Assert the invariants."""
        with self._lock:
            windows = self._windows
            assert self._inputs == sum(len(window.tickets) for window in windows)
            assert self._size == sum(window.size for window in windows)
            assert self._inputs <= self._most_inputs
            for window in windows:
                assert window.size == sum(ticket.size for ticket in window.tickets)
                assert len(window.tickets) <= self._source_inputs
                assert not window.tickets or window.tickets[0].window is window, "the oldest input has left"
                assert window.tickets or not window.on_empty, "a callback waits although no input is in flight"
            assert windows.issuperset(self._refused)
            assert windows.issuperset(self._waiting)
            if self._refused and not self._inputs:
                assert any(window.is_granted for window in windows), "sources wait for room that exists"


def _nothing() -> None:
    """Resume a source that has ended: do nothing."""
