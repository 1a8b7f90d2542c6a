"""Faults of the runtimes, their machines and their logs: one method a fault."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.trace import Trace
from tests.simulation.upstreams.audit import Audit, AuditError
from tests.simulation.upstreams.processes import Runtime
from tests.simulation.upstreams.sites import Site

__all__ = ["Mishaps"]

_REWOUND: Final = ("an older copy", "rewound, restored or replaced")


class Mishaps:
    """Faults of a world. Any may be drawn in any step; its method returns False if it is not possible now."""

    chance: random.Random
    trace: Trace
    counts: Counter[str]
    _tree: dict[str, tuple[str, ...]]
    _sites: dict[str, Site]
    _audits: dict[str, Audit]
    _running: dict[str, Runtime]
    _standing: list[Runtime]
    _saved: dict[str, tuple[int, Any]]
    _is_calm: bool

    @abstractmethod
    def _one(self) -> Runtime | None:
        """Return a random running process, None if there is none."""

    @abstractmethod
    def _cut_power(self, name: str) -> None:
        """Stop a machine without a running process."""

    @abstractmethod
    def _start(self, name: str) -> None:
        """Start a process."""

    @abstractmethod
    def _guarded(self, runtime: Runtime, call: Callable[[], object]) -> bool:
        """Call a function of a process; return False if the process died of it."""

    @abstractmethod
    def _gone(self, name: str) -> None:
        """Process the end of a process."""

    def _do_crash(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            self._guarded(runtime, lambda: runtime.faults.kill("any time"))
        return runtime is not None

    def _do_power(self) -> bool:
        """Cut the power of a machine whose process is dead: others have read unsynced data meanwhile."""
        down = [name for name in self._tree if name not in self._running]
        if down:
            self._cut_power(self.chance.choice(down))
        return bool(down)

    def _do_arm(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            runtime.faults.crash_in = self.chance.randint(0, 30)
        return runtime is not None

    def _do_error(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            self.counts["disk errors"] += 1
            runtime.faults.error_in = self.chance.randint(0, 10)
        return runtime is not None

    def _do_full(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            runtime.faults.is_full = True
        return runtime is not None

    def _do_stop(self) -> bool:
        runtime = self._one()
        if runtime is not None:
            self.counts["stops"] += 1
            self.trace.say("{} stops", runtime.site.name)
            self._halt([runtime.site.name])
        return runtime is not None

    def _do_usurp(self) -> bool:
        """Let a lock lapse: another process starts in the directory while the first one is paused."""
        runtime = self._one()
        if runtime is None or runtime.failure is not None:
            return False
        name = runtime.site.name
        self.counts["usurpations"] += 1
        self.trace.say("another process takes the directory of {}", name)
        del self._running[name]
        self._standing = [*self._standing[-2:], runtime]
        self._sites[name].shelf.is_open = False
        self._start(name)
        return True

    def _do_save(self) -> bool:
        name = self.chance.choice([name for above in self._tree.values() for name in above])
        epochs = len(self._audits[name].footers)
        # A committed epoch without its final name is in the copy too: the next start there publishes it.
        epochs += self._sites[name].holds(f".{epochs:012}.segment")
        self._saved[name] = epochs, self._sites[name].saved()
        return True

    def _do_rewind(self) -> bool:
        """Replace an upstream by an older copy: a runtime that has read further refuses it, and reads nothing."""
        names = [
            name
            for name, (epochs, _) in self._saved.items()
            if not any(runtime.site.name == name for runtime in self._standing)
            and 0 < epochs < len(self._audits[name].footers)
        ]
        if not names:
            return False
        name = self.chance.choice(names)
        readers = [
            reader
            for reader, above in self._tree.items()
            if name in above and (cut := self._audits[reader].cuts.get(name)) and cut.sequence >= self._saved[name][0]
        ]
        if not readers:
            return False
        self._rewound(name, readers)
        return True

    def _rewound(self, name: str, readers: list[str]) -> None:
        self.counts["rewinds"] += 1
        self.trace.say("an older copy of {} stands in its place", name)
        if not self._halt([name, *readers]):
            return
        site, was_calm = self._sites[name], self._is_calm
        newest = site.saved()
        site.restore(self._saved[name][1])
        self._is_calm = True
        for reader in readers:
            self._expect_refusal(name, reader)
        self._is_calm = was_calm
        site.restore(newest)

    def _expect_refusal(self, name: str, reader: str) -> None:
        self._start(reader)
        runtime = self._running[reader]
        self._audits[reader].look()  # its stop may have sealed an epoch, and its start publishes what was committed
        epochs = len(self._audits[reader].footers)
        for _ in range(200):
            self._guarded(runtime, runtime.look)
            runtime.crews.step()
            if runtime.failure is not None:
                break
        self._audits[reader].look()
        reason = runtime.failure or ""
        if not any(words in reason for words in _REWOUND) or len(self._audits[reader].footers) > epochs:
            raise AuditError(f"expected {reader} to refuse the older copy of {name}, was {reason!r}")
        self._halt([reader])

    def _halt(self, names: list[str]) -> bool:
        """Stop these processes in order; return False if one has died of it."""
        for name in names:
            runtime = self._running.get(name)
            if runtime is None:
                continue
            if not self._guarded(runtime, runtime.stop):
                return False
            self._gone(name)
        return True
