"""Raw buffers that wait for a worker, and how many of them one call of the formatter takes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Final

from runtime.formats.buffers import RawBuffer

__all__ = ["COALESCE_BYTES", "Pending"]

COALESCE_BYTES: Final = 1 << 21
"""What one call of the formatter takes by default: Arrow's readers reach their full speed from 256 KiB to 1 MiB on,
Python joins bytes outside the interpreter lock from 1 MiB on, and with twice as much a call does half as much a byte
under the lock."""


class Pending:
    """Raw buffers of any number of origins; thread-safe.

    `take` gives the oldest one and its neighbours in the stream, then the next oldest and its neighbours, until there
    are enough bytes: neighbours are formatted as one buffer, so that small ones in any order cost as little as large
    ones in order. The oldest is always among them, nothing waits for ever. The owner bounds what is added.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        # in order of arrival; a plain dict whose first keys are taken again and again looks at all that it once held
        self._raws: OrderedDict[tuple[int, int], RawBuffer] = OrderedDict()
        self._twice: list[RawBuffer] = []  # a number that is there already: the formatter's to complain about
        self._bytes = 0

    def add(self, raw: RawBuffer) -> None:
        """One more."""
        key = raw.origin_id, raw.sequence_number
        with self._lock:
            if key in self._raws:
                self._twice.append(raw)
            else:
                self._raws[key] = raw
            self._bytes += len(raw.data)

    def put_back(self, raws: Sequence[RawBuffer]) -> None:
        """Buffers that the formatter could not take yet, behind all others."""
        for raw in raws:
            self.add(raw)

    def take(self, most_bytes: int = COALESCE_BYTES) -> list[RawBuffer]:
        """The oldest and its neighbours, at least one if there is any, and about so many bytes; none if others took
        them."""
        taken: list[RawBuffer] = []
        with self._lock:
            raws = self._raws
            if self._twice:
                taken, self._twice = self._twice, taken
            room = most_bytes - sum([len(raw.data) for raw in taken])
            while raws and (4 * room >= most_bytes or not taken):  # a small rest is not worth a further run
                origin_id, number = next(iter(raws))
                back = room // 2
                while (before := raws.get((origin_id, number - 1))) is not None:
                    back -= len(before.data) + 1
                    if back < 0:
                        break
                    number -= 1
                while (raw := raws.pop((origin_id, number), None)) is not None:
                    taken.append(raw)
                    room -= len(raw.data)
                    if room <= 0:
                        break
                    number += 1
            self._bytes -= sum([len(raw.data) for raw in taken])
        return taken

    @property
    def bytes(self) -> int:
        """How many bytes wait."""
        return self._bytes

    def __len__(self) -> int:
        with self._lock:
            return len(self._raws) + len(self._twice)
