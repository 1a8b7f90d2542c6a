"""The rotation: slices of all nets in turn, with a state on disk that says where each net goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from runtime.epochs.disk import LOCAL_DISK, Disk
from tests.endurance.nets import Net, Slice, reserved
from tests.endurance.running import Outcome, RunSlice, counted, replays, run_slice

__all__ = ["STATE", "Failure", "NetState", "Rotation", "State"]

STATE: Final = "state.json"
REPORT: Final = "report.md"
_LOGS: Final = "logs"
_MOST_FAILURES: Final = 100
"""Failing slices of one net that are written down with their output; later ones are only counted."""
_END_LINES: Final = 15
_MOST_GROWTH: Final = 4
_SLACK: Final = 4
"""A slice sized by its rate that takes so many times as long as it should is taken for one that hangs."""


class Failure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A slice that has found something."""

    commit: str
    """Of the code."""
    reason: str
    """How the slice ended."""
    slice_command: str
    """The whole slice."""
    replays: list[str]
    """What repeats the failures alone, or the slice if it does not say."""
    log: str
    """The file with the output, from the directory of the state."""
    end: str
    """Its last lines."""


class NetState(msgspec.Struct, forbid_unknown_fields=True):
    """Where a net has got to."""

    next: int = 0
    """The next seed."""
    slices: int = 0
    """How many were run."""
    done: int = 0
    """Units of the goal, over all commits."""
    items: int = 0
    """What is counted beside, if the unit is seconds."""
    seconds: float = 0.0
    """That the slices took."""
    size: int = 0
    """Seeds of the next slice, 0 before the first."""
    failed: int = 0
    """Slices that have found something."""
    failures: list[Failure] = []
    """The first of them."""
    commit: str = ""
    """Of the latest slice; of a net with only so many seeds, that which runs them."""


class State(msgspec.Struct, forbid_unknown_fields=True):
    """What is on disk."""

    turn: int = 0
    """Slices of all nets."""
    last: str = ""
    """The net whose slice was the latest."""
    nets: dict[str, NetState] = {}
    """By name."""


class Rotation:
    """Runs slices until the time is over; one at a time, and one rotation for a directory.

    A slice counts once its state is on disk. One that is interrupted before was not run, and its seeds come again.
    """

    def __init__(
        self,
        nets: Mapping[str, Net],
        directory: Path,
        commit: str,
        *,
        slice_s: int,
        run: RunSlice = run_slice,
        clock: Callable[[], float] = time.monotonic,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        """Resume from the state in ``directory``, which may be new; raises `ValueError` for one that is not a state."""
        self._nets, self._directory, self._commit = nets, directory, commit
        self._slice_s, self._run, self._clock, self._disk = slice_s, run, clock, disk
        (directory / _LOGS).mkdir(parents=True, exist_ok=True)
        self.state = State()
        path = directory / STATE
        if path.exists():
            try:
                self.state = msgspec.json.decode(path.read_bytes(), type=State)
            except msgspec.DecodeError as error:
                raise ValueError(f"expected the state of a rotation in {path}, was something else: {error}") from None
        self.before = {name: net.done for name, net in self.state.nets.items()}
        """Units of each net before this run."""

    @property
    def has_failures(self) -> bool:
        """Whether a failure is on record, of this run or of an earlier one."""
        return any(net.failed for net in self.state.nets.values())

    def forget_failures(self) -> None:
        """Take all failures off the record; what was done stays."""
        for net in self.state.nets.values():
            net.failed, net.failures = 0, []
        self._write()

    def run(self, seconds: float, after_slice: Callable[[Net, Outcome], None]) -> None:
        """Run slices until the time is over or no net has anything left; the last may take longer than what is left."""
        end = self._clock() + seconds
        while (left := end - self._clock()) > 0 and (net := self._next_net()) is not None:
            outcome = self._run_slice(net, min(self._slice_s, max(1, int(left))))
            after_slice(net, outcome)

    def _next_net(self) -> Net | None:
        """The first behind the latest that has seeds left."""
        names = list(self._nets)
        at = names.index(self.state.last) + 1 if self.state.last in names else 0
        turns = (self._nets[name] for name in names[at:] + names[:at])
        return next((net for net in turns if not self._is_finished(net)), None)

    def _is_finished(self, net: Net) -> bool:
        state = self.state.nets.get(net.name, NetState())
        return net.size is not None and state.next >= net.size and state.commit == self._commit

    def _run_slice(self, net: Net, seconds: int) -> Outcome:
        state = self.state.nets.setdefault(net.name, NetState())
        start = state.next
        if net.size is not None and start >= net.size:
            start = 0  # at another commit
        count = 1 if net.sized_by == "fixed" else state.size or net.first
        if net.size is not None:
            count = min(count, net.size - start)
        part = Slice(start, reserved(net, count), seconds, state.slices)
        command = net.command(part)
        limit_s = net.limit_s if net.sized_by == "fixed" else max(net.limit_s, _SLACK * seconds)
        outcome = self._run(command, limit_s)
        amount = counted(net, outcome.output)
        state.slices += 1
        state.next = start + part.count
        state.seconds += outcome.seconds
        state.commit = self._commit
        if net.unit == "seconds":
            state.done += round(outcome.seconds)
            state.items += amount
        else:
            state.done += amount * net.per_pass
        if net.sized_by == "count":
            fitting = int(count * self._slice_s / max(outcome.seconds, 0.1)) if outcome.code is not None else count // 2
            state.size = max(1, min(fitting, _MOST_GROWTH * count))
        log = f"{_LOGS}/{net.name}.log"
        if (reason := _reason(outcome, amount, limit_s)) is not None:
            state.failed += 1
            if len(state.failures) < _MOST_FAILURES:
                log = f"{_LOGS}/{net.name}-{start}-{state.slices}.failed.log"
                end = "\n".join(outcome.output.splitlines()[-_END_LINES:])
                found = replays(net, command, outcome.output)
                state.failures.append(Failure(self._commit, reason, str(command), found, log, end))
        (self._directory / log).write_text(f"$ {command}\n{outcome.output}", encoding="utf-8")
        self.state.turn += 1
        self.state.last = net.name
        self._write()
        return outcome

    def _write(self) -> None:
        """Put the state on disk, whole and durable, in the place of the one before."""
        hidden = self._directory / f".{STATE}"
        self._disk.write(hidden, [msgspec.json.format(msgspec.json.encode(self.state), indent=1)])
        self._disk.rename(hidden, self._directory / STATE)
        self._disk.sync_directory(self._directory)


def _reason(outcome: Outcome, amount: int, limit_s: int) -> str | None:
    """What is wrong with a slice, None if nothing is: one that has counted nothing has shown nothing."""
    if outcome.code is None:
        return f"no end within {limit_s} s"
    if outcome.code:
        return f"exit code {outcome.code}"
    return None if amount else "exit code 0, but nothing was counted"
