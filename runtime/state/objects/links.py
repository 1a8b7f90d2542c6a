"""Slots with links to their neighbours, in which linked lists are stored."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Final

import msgspec

from runtime.state.codec import Codec
from runtime.state.errors import CorruptStateError
from runtime.state.objects.scattered import Scattered
from runtime.state.objects.slots import Home, Schema

__all__ = ["NONE", "Links"]

NONE: Final = -1
"""Absent neighbour: before the first node and after the last."""
_NODE: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw])
_THREE: Final = b"\x93"
"""First byte of a MessagePack array of three."""
_FREE: Final = -2


class Links(Scattered):
    """Nodes of a list; a node's item is the slots of its neighbours and its value. One owner at a time."""

    _loaded = "values"

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, schema)
        self.first = NONE
        self.last = NONE
        self.count = 0
        self._before = array("q")  # slot → slot, _FREE where there is no node
        self._after = array("q")
        self._births = array("q")  # slot → a number that no other node has, in this process
        self._born = 0

    @cached_property
    def values(self) -> list[Any]:
        """Values by slot, encoded if they are bytes. Raises `CorruptStateError` unless the nodes make one list."""
        values: list[Any] = []
        before, after = array("q"), array("q")
        taken = []
        for slot, data in self.scan():
            for _ in range(slot - len(values)):
                values.append(None)
                before.append(_FREE)
                after.append(_FREE)
            previous, following, value = self._parts(slot, data)
            before.append(previous)
            after.append(following)
            values.append(value)
            taken.append(slot)
        first, last = self._expect_line(taken, before, after)
        self._before, self._after, self.first, self.last, self.count = before, after, first, last, len(taken)
        self._births = array("q", range(self._born, self._born + len(values)))
        self._born += len(values)
        self.free.restore(taken)
        return values

    def _parts(self, slot: int, data: bytes) -> tuple[int, int, bytes]:
        try:
            previous, following, value = _NODE.decode(data)
        except msgspec.DecodeError as error:
            raise CorruptStateError(
                f"object {self.home.name}: expected a node in slot {slot}, was {data[:40]!r}: {error}"
            ) from None
        return previous, following, bytes(value)

    def _expect_line(self, taken: list[int], before: array[int], after: array[int]) -> tuple[int, int]:
        """Return the ends of the one list of all nodes."""
        slot = first = next((slot for slot in taken if before[slot] == NONE), NONE)
        last, seen = NONE, 0
        while slot != NONE:
            is_node = 0 <= slot < len(before) and before[slot] != _FREE
            self.home.expect(is_node, f"a node behind slot {last}", f"slot {slot}, which is free")
            self.home.expect(before[slot] == last, f"slot {last} before slot {slot}", f"slot {before[slot]}")
            last, slot, seen = slot, after[slot], seen + 1
        self.home.expect(seen == len(taken), f"{len(taken)} nodes in one line", f"{seen} of them from slot {first}")
        return first, last

    def begin(self) -> None:
        self.values = []

    def insert(self, value: object, before: int, after: int) -> int:
        """Insert a node between two neighbours, of which either may be `NONE`; return its slot."""
        data = self.codec.encode(value)
        values = self.values
        slot = self.free.take()
        if slot == len(values):
            values.append(None)
            for links in (self._before, self._after, self._births):
                links.append(_FREE)
        values[slot] = data if type(value) is bytes else value
        self._before[slot], self._after[slot] = before, after
        self._births[slot] = self._born
        self._born += 1
        self.changes.put(slot, self._node(slot, data), is_new=True)
        self._link(before, slot, after)
        self.count += 1
        return slot

    def remove(self, slot: int) -> None:
        """Remove a node."""
        before, after = self._before[slot], self._after[slot]
        self._before[slot] = self._after[slot] = _FREE
        self._births[slot] = _FREE
        self.values[slot] = None
        self.changes.drop(slot)
        self.free.give_back(slot)
        self.count -= 1
        if before == NONE:
            self.first = after
        else:
            self._after[before] = after
            self._changed(before)
        if after == NONE:
            self.last = before
        else:
            self._before[after] = before
            self._changed(after)

    def clear(self) -> None:
        """Remove all nodes."""
        for slot in sorted(self.walk()):
            self.changes.drop(slot)
        self.values.clear()
        self.free.clear()
        self._before, self._after, self._births = array("q"), array("q"), array("q")
        self.first = self.last = NONE
        self.count = 0

    def _link(self, before: int, slot: int, after: int) -> None:
        if before == NONE:
            self.first = slot
        else:
            self._after[before] = slot
            self._changed(before)
        if after == NONE:
            self.last = slot
        else:
            self._before[after] = slot
            self._changed(after)

    def value(self, slot: int) -> Any:
        """Return the value of a node, and keep it decoded."""
        value = self.values[slot]
        if type(value) is bytes:
            value = self.codec.decode(value)
            if type(value) is not bytes:
                self.values[slot] = value
        return value

    def change(self, slot: int, value: object) -> None:
        """Set the value of a node."""
        data = self.codec.encode(value)
        self.values[slot] = data if type(value) is bytes else value
        self.changes.put(slot, self._node(slot, data), is_new=False)

    def before(self, slot: int) -> int:
        """Return the slot before, or `NONE`."""
        return self._before[slot]

    def after(self, slot: int) -> int:
        """Return the slot after, or `NONE`."""
        return self._after[slot]

    def birth(self, slot: int) -> int:
        """Return a number that no other node has or had; below 0 if the slot is free."""
        return self._births[slot] if 0 <= slot < len(self.values) and self._before[slot] != _FREE else _FREE

    def walk(self) -> Iterator[int]:
        """Yield the slots of all nodes in order."""
        slot = self.first if self.values else NONE  # the values are read first, and the ends with them
        while slot != NONE:
            yield slot
            slot = self._after[slot]

    def encoded(self) -> Iterator[tuple[int, bytes]]:
        for slot in sorted(self.walk()):
            yield slot, self._stored(slot)

    def migrate(self, version: int, migrate: Callable[[int, Any], Any]) -> None:
        plain = Codec(Any, self.home.name)
        values = self.values
        for slot in self.walk():
            self.change(slot, migrate(version, plain.decode(values[slot])))

    def check(self) -> None:
        if not self.is_in_memory:
            return
        taken = [slot for slot, before in enumerate(self._before) if before != _FREE]
        self.free.check(set(taken))
        assert len(self.values) == len(self._before) == len(self._after) == len(self._births) == self.free.end
        assert self._expect_line(taken, self._before, self._after) == (self.first, self.last)
        assert self.count == len(taken)

    def _changed(self, slot: int) -> None:
        self.changes.put(slot, self._stored(slot), is_new=False)

    def _stored(self, slot: int) -> bytes:
        value = self.values[slot]
        return self._node(slot, value if type(value) is bytes else self.codec.encode(value))

    def _node(self, slot: int, data: bytes) -> bytes:
        ends = msgspec.msgpack.encode(self._before[slot]), msgspec.msgpack.encode(self._after[slot])
        return _THREE + ends[0] + ends[1] + data
