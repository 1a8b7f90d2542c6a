"""Runs whose cut depends on the bytes before them, held until these are known."""

from __future__ import annotations

from collections.abc import Sequence

from runtime.formats.assembly.spanning import Unit
from runtime.formats.errors import SequenceGapError

__all__ = ["Settling"]


class Settling:
    """Propagation of the state at the end of a run to its right neighbour; the caller has the origin's lock.

    The worker that brings the missing neighbour continues with all runs that are settled then. Memory is bounded by the
    pending runs, and one state for each place where a run has ended and none has started yet.
    """

    def __init__(self, initial_state: int) -> None:
        self._initial_state = initial_state
        self._waiting: dict[int, Unit] = {}  # by first position
        self._positions: set[int] = set()  # of all pending raw buffers
        self._states: dict[int, int] = {1: initial_state}  # by position: the state at which that raw buffer starts
        self._started: set[int] = set()  # positions whose state is not needed any more

    def holds(self, first: int, last: int) -> bool:
        """Return True if one of these positions is pending."""
        return bool(self._positions) and not self._positions.isdisjoint(range(first, last + 1))

    def settle(self, units: Sequence[Unit]) -> list[Unit]:
        """Return those of the units, and of those pending for them, whose cut is known now."""
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
        """Return the state at the end of a stream whose last raw buffer has this position."""
        return self._states.get(position + 1, self._initial_state)

    def check_empty(self) -> None:
        """Raise `SequenceGapError` if a run is pending at the end of a stream."""
        if self._waiting:
            raise SequenceGapError(
                f"expected every buffer at the end of the stream, was without the buffer before {min(self._waiting)}"
            )

    def held_bytes(self) -> int:
        """Return the size of the pending runs in bytes."""
        return sum(unit.run.length for unit in self._waiting.values())

    def _settle(self, unit: Unit, state: int, settled: list[Unit]) -> int:
        """Settle a unit; return the state at the run's end."""
        assert unit.index is not None
        unit.state, unit.cut = state, unit.index.cut(state)
        settled.append(unit)
        return unit.cut.end_state

    def _hand_on(self, position: int, state: int, settled: list[Unit]) -> None:
        """Settle the run pending at a position whose state is known, and those after it."""
        while (unit := self._waiting.pop(position, None)) is not None:
            self._positions.difference_update(range(unit.first, unit.last + 1))
            state = self._settle(unit, state, settled)
            if unit.index is None or unit.index.end_state is not None:
                return  # the next one got its state when this one came
            position = unit.last + 1
        if position in self._started:
            self._started.remove(position)
        else:
            self._states[position] = state
