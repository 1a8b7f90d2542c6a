"""Memories of a strategy over a restart, and the order events after each of them.

```
journal ──Memory──▶ data by name ──────────────┐
   └──Received, Intent──▶ order events since ──┴─▶ Recovered ──▶ Strategy.on_start
```

A memory is written after the events that it takes into account. After the end of a process, the memory and the later
events in the journal and in the private stream restore the lost state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from algo_engine.desk.order import OrderEvent
from algo_engine.desk.records import Memory

__all__ = ["MOST_MEMORY_BYTES", "Memories", "Recovered"]

MOST_MEMORY_BYTES: Final = 16 * 1024 * 1024
"""Largest sum of all data that a strategy remembers, and of the names, in bytes.

A checkpoint of the journal has all of them in one record.
"""


class Recovered(msgspec.Struct, frozen=True):
    """Memory of an earlier run."""

    name: str
    """Name under which the data was remembered."""
    data: bytes
    """Remembered data."""
    events: tuple[OrderEvent, ...]
    """Events of all own orders after the data was remembered, oldest first."""


class Memories:
    """Memories of one desk, folded from its journal.

    Events of own orders are collected until `end_recovery`. The size of the journal bounds their number, because the
    journal is not compacted meanwhile.
    """

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        """Remembered data by name."""
        self._events: list[OrderEvent] = []
        self._since: dict[str, int] = {}
        """Number of events that came before each memory, by name."""
        self._is_starting = True
        self._is_read = False

    def __contains__(self, name: str) -> bool:
        return name in self.data

    @property
    def is_recovering(self) -> bool:
        """True while there are memories that the strategy has not seen."""
        return self._is_starting and bool(self.data)

    def restore(self, data: Mapping[str, bytes]) -> None:
        """Start with the memories of a checkpoint."""
        self.data, self._events, self._since = dict(data), [], dict.fromkeys(data, 0)

    def record(self, name: str, data: bytes) -> Memory:
        """Return the record of data under a name.

        Raise `ValueError` if it would make the memories larger than `MOST_MEMORY_BYTES`, `TypeError` for a name or data
        of another type: the record could not be read again.
        """
        for given, types in ((name, (str,)), (data, (bytes, bytearray, memoryview))):
            if not isinstance(given, types):
                raise TypeError(f"expected a name as str and data as bytes to remember, was {type(given).__name__}")
        memory = Memory(str(name), bytes(data))
        after = {**self.data, memory.name: memory.data}
        size_bytes = sum(len(each.encode()) + len(value) for each, value in after.items())
        if data and size_bytes > MOST_MEMORY_BYTES:
            raise ValueError(f"expected at most {MOST_MEMORY_BYTES} remembered bytes, was {size_bytes} with {name:.40}")
        return memory

    def enter(self, record: Memory) -> None:
        """Apply a record."""
        if record.data:
            self.data[record.name] = record.data
            self._since[record.name] = len(self._events)
        else:
            self.data.pop(record.name, None)
            self._since.pop(record.name, None)
            if not self.data:
                self._events.clear()

    def received(self, events: Sequence[OrderEvent]) -> None:
        """Collect events of own orders."""
        if self.is_recovering:
            self._events += events

    def recovered(self) -> list[Recovered]:
        """Return all memories, in the order in which their names were first used; none after `end_recovery`."""
        if not self._is_starting:
            return []
        self._is_read = True
        return [Recovered(name, data, tuple(self._events[self._since[name] :])) for name, data in self.data.items()]

    def end_recovery(self) -> list[str]:
        """Stop collecting events; return the names of memories that were not read."""
        names = [] if self._is_read else list(self.data)
        self._is_starting = False
        self._events.clear()
        self._since.clear()
        return names
