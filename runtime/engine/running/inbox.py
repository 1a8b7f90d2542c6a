"""Inbox of a pipeline: inputs of all ports in the order of arrival, and inputs to repeat."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from runtime.engine.admission import Ticket

__all__ = ["END_OF_PORT", "Entry", "Inbox"]

Entry = tuple[int, object, int, "Ticket | None"]
"""Port, item, size, ticket."""

END_OF_PORT: Final = object()
"""Item of the entry after the last input of a port."""


class Inbox:
    """Inbox of a node, which calls all methods with its lock held."""

    __slots__ = ("_aside", "_is_parallel", "_later", "_most_inputs", "_most_size", "_size", "_waiting", "ends")

    def __init__(self, most_inputs: int, most_size: int, *, is_parallel: bool) -> None:
        """Create an empty inbox; ``most_inputs`` and ``most_size`` bound the inputs of one call, see `Pipeline`."""
        self._most_inputs = most_inputs
        self._most_size = most_size
        self._is_parallel = is_parallel
        self._waiting: deque[Entry] = deque()
        self._size = 0
        self._aside: list[Entry] = []  # to be put back once other entries were executed, or no call is in progress
        self._later: list[tuple[float, Entry]] = []  # to be put back at their time, in seconds
        self.ends = 0
        """Number of entries that are ends of ports."""

    def __len__(self) -> int:
        """Return the number of entries that wait to be executed."""
        return len(self._waiting) + len(self._aside) + len(self._later)

    def __bool__(self) -> bool:
        """Return True if an entry can be taken now."""
        return bool(self._waiting)

    @property
    def has_repeats(self) -> bool:
        """True if inputs that were taken before are still to be repeated."""
        return bool(self._aside or self._later)

    @property
    def is_at_end(self) -> bool:
        """True if the next entry is the end of a port."""
        return bool(self.ends) and self._waiting[0][1] is END_OF_PORT

    @property
    def calls(self) -> int:
        """Number of calls for which the waiting entries suffice."""
        if not self._waiting:
            return 0
        if self._most_size:
            return 1 + self._size // self._most_size
        return 1 + (len(self._waiting) - 1) // self._most_inputs

    def add(self, entry: Entry) -> None:
        """Append an entry."""
        self._waiting.append(entry)
        self._size += entry[2]

    def add_end(self, port: int) -> None:
        """Append the end of a port."""
        self._waiting.append((port, END_OF_PORT, 0, None))
        self.ends += 1

    def take_end(self) -> int:
        """Take the next entry, the end of a port, and return the port."""
        self.ends -= 1
        return self._waiting.popleft()[0]

    def take(self) -> tuple[list[Entry], int]:
        """Take the next inputs (at least one, and all from one port); return them and the sum of their sizes."""
        waiting, most_size = self._waiting, self._most_size
        first = waiting.popleft()
        entries, size, port = [first], first[2], first[0]
        for _ in range(min(self._most_inputs - 1, len(waiting))):
            entry = waiting[0]
            if entry[0] != port or entry[1] is END_OF_PORT or (most_size and size + entry[2] > most_size):
                break
            entries.append(waiting.popleft())
            size += entry[2]
        self._size -= size
        return entries, size

    def repeat(self, entries: Sequence[Entry], later: Sequence[tuple[float, Entry]]) -> None:
        """Put entries back before all others, or put them aside if several calls may be made at a time."""
        self._later += later
        if self._is_parallel:
            self._aside += entries
            return
        self._waiting.extendleft(reversed(entries))
        self._size += sum([entry[2] for entry in entries])

    def return_aside(self) -> None:
        """Put the entries back that `repeat` has put aside."""
        aside, self._aside = self._aside, []
        self._return(aside)

    def return_due(self, now_s: float) -> None:
        """Put back the delayed entries that are due."""
        due = [entry for due_s, entry in self._later if due_s <= now_s]
        self._later = [each for each in self._later if each[0] > now_s]
        self._return(due)

    def _return(self, entries: list[Entry]) -> None:
        """Put entries after all waiting entries, or before the first end of a port if there is one."""
        at = len(self._waiting)
        if self.ends:
            at = next(i for i, entry in enumerate(self._waiting) if entry[1] is END_OF_PORT)
        for entry in reversed(entries):
            self._waiting.insert(at, entry)
            self._size += entry[2]

    def clear(self) -> list[Entry]:
        """Drop all entries; return the inputs among them."""
        entries = [*self._waiting, *self._aside, *[entry for _, entry in self._later]]
        self._waiting.clear()
        self._aside, self._later, self._size, self.ends = [], [], 0, 0
        return [entry for entry in entries if entry[1] is not END_OF_PORT]

    def clear_ends(self) -> None:
        """Drop the ends of ports."""
        if self.ends:
            self._waiting = deque(entry for entry in self._waiting if entry[1] is not END_OF_PORT)
            self.ends = 0

    def check(self) -> None:
        """Assert the invariants."""
        assert self._size == sum(entry[2] for entry in self._waiting)
        assert self.ends == sum(entry[1] is END_OF_PORT for entry in self._waiting)
        assert self._is_parallel or not self._aside
