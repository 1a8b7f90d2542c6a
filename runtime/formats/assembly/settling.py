"""Runs whose cut depends on what stood before them, until that is known."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.formats.assembly.spanning import Unit
from runtime.formats.errors import SequenceGapError

__all__ = ["Settling"]


class Settling:
    """Hands the state at the end of a run on to its right neighbour; the caller has the origin's lock.

    Whoever brings the missing neighbour goes on with all runs that are settled now. What is held: the runs that wait,
    and one state for each place where a run has ended and none has started yet.
    """

    def __init__(self, initial_state: int) -> None:
        self._initial_state = initial_state
        self._waiting: dict[int, Unit] = {}  # by first position
        self._positions: set[int] = set()  # of all raw buffers that wait
        self._states: dict[int, int] = {1: initial_state}  # by position: the state at which that raw buffer starts
        self._started: set[int] = set()  # positions whose state nobody asks for any more, if it is told

    def holds(self, first: int, last: int) -> bool:
        """Whether one of these positions waits."""
        return bool(self._positions) and not self._positions.isdisjoint(range(first, last + 1))

    def settle(self, units: Sequence[Unit]) -> list[Unit]:
        """Those of the units, and of those that have waited for them, whose cut is known now."""
        settled: list[Unit] = []
        for unit in units:
            index = unit.index
            assert index is not None
            if (state := self._states.pop(unit.first, None)) is not None:
                self._hand_on(unit.last + 1, self._settle(unit, state, settled), settled)
            elif (cut := index.settled) is not None:
                unit.cut = cut
                settled.append(unit)
                self._started.add(unit.first)
                self._hand_on(unit.last + 1, cut.end_state, settled)
            else:
                self._waiting[unit.first] = unit
                self._positions.update(range(unit.first, unit.last + 1))
                if (end := index.end_state) is not None:
                    self._hand_on(unit.last + 1, end, settled)
        return settled

    def end_state(self, position: int) -> int:
        """The state at the end of a stream whose last raw buffer has this position."""
        return self._states.get(position + 1, self._initial_state)

    def check_empty(self) -> None:
        """At the end of a stream nothing may wait; raises `SequenceGapError`."""
        if self._waiting:
            raise SequenceGapError(
                f"expected every buffer at the end of the stream, was without the one before {min(self._waiting)}"
            )

    def held_bytes(self) -> int:
        """Bytes of the runs that wait."""
        return sum(unit.run.length for unit in self._waiting.values())

    def _settle(self, unit: Unit, state: int, settled: list[Unit]) -> int:
        """Gives the state at the run's end."""
        assert unit.index is not None
        unit.state, unit.cut = state, unit.index.cut(state)
        settled.append(unit)
        return unit.cut.end_state

    def _hand_on(self, position: int, state: int, settled: list[Unit]) -> None:
        """The state at a position is known: for the run that waits there, and for those behind it."""
        while (unit := self._waiting.pop(position, None)) is not None:
            self._positions.difference_update(range(unit.first, unit.last + 1))
            state = self._settle(unit, state, settled)
            if unit.index is None or unit.index.end_state is not None:
                return  # the next one was told when this one came
            position = unit.last + 1
        if position in self._started:
            self._started.remove(position)
        else:
            self._states[position] = state
