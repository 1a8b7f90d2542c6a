"""Slots that name the slots before and behind them: what linked lists are kept in."""

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
"""No slot: before the first node and behind the last."""
_NODE: Final = msgspec.msgpack.Decoder(tuple[int, int, msgspec.Raw])
_THREE: Final = b"\x93"
"""What a MessagePack array of three begins with."""
_FREE: Final = -2


class Links(Scattered):
    """Nodes in a line; a node's item is the slots of its neighbours and its value. One owner at a time."""

    _held = "values"

    def __init__(self, home: Home, schema: Schema) -> None:
        super().__init__(home, schema)
        self.first = NONE
        self.last = NONE
        self.count = 0
        self._before = array("q")  # slot → slot, _FREE where there is no node
        self._behind = array("q")
        self._births = array("q")  # slot → a number that no other node has, in this process
        self._born = 0

    @cached_property
    def values(self) -> list[Any]:
        """By slot, encoded where it is bytes. Raises `CorruptStateError` unless the nodes make one line."""
        values: list[Any] = []
        before, behind = array("q"), array("q")
        taken = []
        for slot, data in self.scan():
            for _ in range(slot - len(values)):
                values.append(None)
                before.append(_FREE)
                behind.append(_FREE)
            previous, following, value = self._parts(slot, data)
            before.append(previous)
            behind.append(following)
            values.append(value)
            taken.append(slot)
        first, last = self._expect_line(taken, before, behind)
        self._before, self._behind, self.first, self.last, self.count = before, behind, first, last, len(taken)
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

    def _expect_line(self, taken: list[int], before: array[int], behind: array[int]) -> tuple[int, int]:
        """The ends of the one line that all nodes stand in."""
        slot = first = next((slot for slot in taken if before[slot] == NONE), NONE)
        last, seen = NONE, 0
        while slot != NONE:
            is_node = 0 <= slot < len(before) and before[slot] != _FREE
            self.home.expect(is_node, f"a node behind slot {last}", f"slot {slot}, which is free")
            self.home.expect(before[slot] == last, f"slot {last} before slot {slot}", f"slot {before[slot]}")
            last, slot, seen = slot, behind[slot], seen + 1
        self.home.expect(seen == len(taken), f"{len(taken)} nodes in one line", f"{seen} of them from slot {first}")
        return first, last

    def begin(self) -> None:
        self.values = []

    def insert(self, value: object, before: int, behind: int) -> int:
        """A new node between two neighbours, of which either may be `NONE`; gives its slot."""
        data = self.codec.encode(value)
        values = self.values
        slot = self.free.take()
        if slot == len(values):
            values.append(None)
            for links in (self._before, self._behind, self._births):
                links.append(_FREE)
        values[slot] = data if type(value) is bytes else value
        self._before[slot], self._behind[slot] = before, behind
        self._births[slot] = self._born
        self._born += 1
        self.changes.put(slot, self._node(slot, data), is_new=True)
        self._link(before, slot, behind)
        self.count += 1
        return slot

    def remove(self, slot: int) -> None:
        """Take a node out."""
        before, behind = self._before[slot], self._behind[slot]
        self._before[slot] = self._behind[slot] = _FREE
        self._births[slot] = _FREE
        self.values[slot] = None
        self.changes.drop(slot)
        self.free.give_back(slot)
        self.count -= 1
        if before == NONE:
            self.first = behind
        else:
            self._behind[before] = behind
            self._changed(before)
        if behind == NONE:
            self.last = before
        else:
            self._before[behind] = before
            self._changed(behind)

    def clear(self) -> None:
        """Take all nodes out."""
        for slot in sorted(self.walk()):
            self.changes.drop(slot)
        self.values.clear()
        self.free.clear()
        self._before, self._behind, self._births = array("q"), array("q"), array("q")
        self.first = self.last = NONE
        self.count = 0

    def _link(self, before: int, slot: int, behind: int) -> None:
        if before == NONE:
            self.first = slot
        else:
            self._behind[before] = slot
            self._changed(before)
        if behind == NONE:
            self.last = slot
        else:
            self._before[behind] = slot
            self._changed(behind)

    def value(self, slot: int) -> Any:
        """The value of a node, decoded for good."""
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
        """The neighbour, or `NONE`."""
        return self._before[slot]

    def behind(self, slot: int) -> int:
        """The neighbour, or `NONE`."""
        return self._behind[slot]

    def birth(self, slot: int) -> int:
        """A number of the node in this slot that no other node has or had; below 0 where there is none."""
        return self._births[slot] if 0 <= slot < len(self.values) and self._before[slot] != _FREE else _FREE

    def walk(self) -> Iterator[int]:
        """The slots of all nodes in order."""
        slot = self.first if self.values else NONE  # the values are read first, and the ends with them
        while slot != NONE:
            yield slot
            slot = self._behind[slot]

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
        assert len(self.values) == len(self._before) == len(self._behind) == len(self._births) == self.free.end
        assert self._expect_line(taken, self._before, self._behind) == (self.first, self.last)
        assert self.count == len(taken)

    def _changed(self, slot: int) -> None:
        self.changes.put(slot, self._stored(slot), is_new=False)

    def _stored(self, slot: int) -> bytes:
        value = self.values[slot]
        return self._node(slot, value if type(value) is bytes else self.codec.encode(value))

    def _node(self, slot: int, data: bytes) -> bytes:
        ends = msgspec.msgpack.encode(self._before[slot]), msgspec.msgpack.encode(self._behind[slot])
        return _THREE + ends[0] + ends[1] + data
