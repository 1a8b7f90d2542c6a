"""Supervisor of a demo: starts its children in turn, monitors them and stops them in the order of `stop_order`.

```
for each stage: start ──▶ wait for "ready" ──▶ next          (bounded; a child that ends here fails the demo)
first view update ──▶ Spark is up ──▶ run for `seconds` ──▶ stop: SIGTERM ──▶ wait, bounded ──▶ SIGKILL to the group
a child that dies later: start it again on its ports, see `RestartLimit`; a child that is given up fails the demo
signals: first = stop now, second = kill now
```

The supervisor has one thread and one selector. It sleeps until a child writes something, a child ends, a signal arrives
or a timeout expires.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from deltabook.demo.child import Child
from deltabook.demo.errors import ChildError, DemoError, InterruptedDemoError
from deltabook.demo.figures import DemoFigures
from deltabook.demo.plan import PEERS_FILE, Stage
from deltabook.demo.screen import Screen
from deltabook.wire.process import stop_signals
from deltabook.wire.status import Ready
from deltabook.wire.symbols import Instrument

__all__ = ["DemoTimeouts", "Supervisor"]

_MOST_EARLY_DEATHS: Final = 3
_SETTLED_S: Final = 20.0
"""Age of a child, in seconds, at and above which its death is not early."""


class RestartLimit:
    """Counts the consecutive early deaths of the children of one stage.

    A child that has run for a while is replaced by a new child whenever it ends. If children of the stage repeatedly
    end soon after their start, no further child is started, because the stage is not expected to recover.

    >>> limit = RestartLimit()
    >>> [limit.may_restart(lived_s) for lived_s in (1.0, 1.0, 60.0, 1.0, 1.0, 1.0, 1.0)]
    [True, True, True, True, True, True, False]
    """

    def __init__(self, most: int = _MOST_EARLY_DEATHS, settled_s: float = _SETTLED_S) -> None:
        """Make a limit. Up to ``most`` consecutive early deaths, the child is restarted; a death at an age of
        ``settled_s`` seconds or more is not early.
        """
        self._most, self._settled_s = most, settled_s
        self._early = 0

    def may_restart(self, lived_s: float) -> bool:
        """Record that the child died at the age of ``lived_s`` seconds; return True if it is to be restarted."""
        self._early = self._early + 1 if lived_s < self._settled_s else 0
        return self._early <= self._most


@dataclass(frozen=True, slots=True)
class DemoTimeouts:
    """Timeouts of the supervisor, in seconds."""

    ready_s: float = 300.0
    """Time for a child to become ready; on a busy machine, the start of Spark takes minutes."""
    first_update_s: float = 120.0
    """Time for the first view update once all children are ready."""
    stop_s: float = 40.0
    """Time for a child to end after SIGTERM."""
    kill_s: float = 5.0
    """Time for a child to end after SIGKILL."""
    tick_s: float = 1.0
    """Least time between two drawings of the screen."""


class _Part:
    """A stage and its present child."""

    def __init__(self, stage: Stage, child: Child, now_s: float) -> None:
        self.stage, self.child = stage, child
        self.started_s = now_s
        self.limit = RestartLimit()
        self.has_been_ready = False
        self.is_coming_back = False
        """True if the child has died, and its successor is not ready yet."""
        self.is_killed = False
        """True if the child was killed on purpose."""


class Supervisor:
    """Runs the children of one demo.

    `run` returns the figures of a demo that ran its time, or raises `ChildError`, `InterruptedDemoError` or
    `DemoError`. However the demo ends, no child is left: process groups are killed if necessary. `run` must be called
    on the main thread, because it handles signals until it returns.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        folder: Path,
        screen: Screen,
        *,
        seconds: float,
        environ: Mapping[str, str],
        scale: Instrument | None = None,
        limits: DemoTimeouts | None = None,
        clock: Callable[[], float] = time.monotonic,
        chaos_s: float = 0.0,
    ) -> None:
        """Make a supervisor; ``chaos_s`` is the time between two kills of the runtime in seconds, 0 for none."""
        self._stages = stages
        self._folder = folder
        self._screen = screen
        self._seconds = seconds
        self._environ = environ
        self._limits = limits or DemoTimeouts()
        self._clock = clock
        self._chaos_s = chaos_s
        self._chaos_at = 0.0
        self._parts: dict[str, _Part] = {}
        self._ports: dict[str, int] = {}
        self._peers: dict[str, str] = {}
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._stopping = False
        self._drawn_at = clock()
        self.figures = DemoFigures(clock, scale)

    def run(self) -> DemoFigures:
        """Start the children, monitor them and stop them; return the figures."""
        try:
            with self._taking_signals():
                try:
                    self._start_all()
                    self._watch()
                finally:
                    self._stop_all()
                self._check_ends()
        finally:
            for part in self._parts.values():
                part.child.close()
            self._selector.close()
            with suppress(OSError):  # as above, of the end of a demo whose terminal has been closed
                self._screen.close()
        return self.figures

    def _start_all(self) -> None:
        for stage in self._stages:
            self._screen.report(f"starting {stage.role}")
            ready = self._start(stage)
            opened = "".join(f", {name} port {port}" for name, port in sorted(ready.ports.items()))
            self._screen.report(f"{stage.role} is up (pid {ready.pid}{opened})")
            if stage.page:
                self.figures.page = f"http://127.0.0.1:{ready.ports[stage.page]}/"
                self._screen.report(f"open {self.figures.page} in a browser")

    def _write_peers(self) -> None:
        """Write the peers' file atomically: a reader sees the old or the new one."""
        path = self._folder / PEERS_FILE
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(self._peers))
        draft.replace(path)

    def _launch(self, stage: Stage) -> Child:
        child = Child(stage.role, stage.command(self._ports), self._folder / f"{stage.role}.log", self._environ)
        self._selector.register(child.stdout, selectors.EVENT_READ, child)
        return child

    def _start(self, stage: Stage) -> Ready:
        part = self._parts[stage.role] = _Part(stage, self._launch(stage), self._clock())
        what = f"{stage.role} to be ready"
        self._wait(lambda: part.child.ready is not None, self._limits.ready_s, what, stage.role)
        return self._take_ready(part)

    def _take_ready(self, part: _Part) -> Ready:
        ready = part.child.ready
        assert ready is not None
        part.has_been_ready, part.is_coming_back = True, False
        self._ports |= {f"{part.stage.role}.{name}": port for name, port in ready.ports.items()}
        if part.stage.peer is not None:
            name, port_name = part.stage.peer
            self._peers[name] = f"127.0.0.1:{ready.ports[port_name]}"
            self._peers.pop(f"{name}.news", None)
            self._write_peers()
        return ready

    def _check_part(self, part: _Part) -> None:
        """Restart a part that has ended, and notice when it is ready again."""
        role = part.stage.role
        if part.child.exit_code is not None:
            self._drain(part.child)
            if part.child.ready is not None and not part.has_been_ready:  # it ended before its "ready" was read
                self._take_ready(part)
            self._restart(part)
        elif part.is_coming_back and part.child.ready is not None:
            ready = self._take_ready(part)
            self._screen.report(f"{role} is up again (pid {ready.pid}) after {self._clock() - part.started_s:.1f} s")
        elif part.is_coming_back and self._clock() - part.started_s > self._limits.ready_s:
            raise DemoError(f"expected {role} to be up again within {self._limits.ready_s:g} s, was not")

    def _restart(self, part: _Part) -> None:
        """Restart a part; raise `ChildError` if it is given up."""
        child, role = part.child, part.stage.role
        lived_s = self._clock() - part.started_s
        if not part.has_been_ready:
            raise ChildError(f"{role}: {child.reason()}", child.log_lines())
        if not part.is_killed and not part.limit.may_restart(lived_s):
            raise ChildError(f"{role}: {child.reason()}, repeatedly", child.log_lines())
        reason = child.reason()
        if part.stage.peer is not None:
            self._peers[f"{part.stage.peer[0]}.news"] = f"It died ({reason}) and is being restarted."
            self._write_peers()
        self._screen.report(f"{role} died ({reason}) and is being restarted")
        with suppress(KeyError):  # its output has ended and was removed from the selector
            self._selector.unregister(child.stdout)
        child.close()
        part.child, part.started_s, part.is_coming_back, part.is_killed = (
            self._launch(part.stage),
            self._clock(),
            True,
            False,
        )

    def _cause_chaos(self) -> None:
        """Kill the runtime if a kill is due."""
        part = self._parts.get("runtime")
        if not self._chaos_s or part is None or part.is_coming_back or not self.figures.is_started:
            return
        self._chaos_at = self._chaos_at or self._clock() + self._chaos_s
        if self._clock() >= self._chaos_at:
            self._chaos_at = self._clock() + self._chaos_s
            self._screen.report(f"chaos: kill -9 {part.child.pid} (runtime)")
            part.is_killed = True
            part.child.kill()

    def _watch(self) -> None:
        figures, first_s = self.figures, self._limits.first_update_s
        self._wait(lambda: figures.view_updates > 0, first_s, "a first view update", "runtime")
        self._screen.report(f"first view update after {figures.waited_s:.1f} s")
        if figures.spark == "starting":
            self._screen.report("Spark is starting, usually 20 s; the express lane publishes until then")
            self._wait(lambda: figures.spark != "starting", self._limits.ready_s, "Spark to be up", "runtime")
            self._screen.report(f"Spark is up after {figures.waited_s:.1f} s")
        figures.start()
        self._screen.report(f"running for {self._seconds:g} s")
        self._wait(lambda: False, self._seconds)
        figures.finish()
        self._screen.report("stopping")

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str = "", role: str = "") -> None:
        """Run until ``done`` returns True or ``limit_s`` seconds are over.

        ``what`` describes the expected event. If it is not empty, `DemoError` is raised after ``limit_s`` seconds, with
        the log of ``role`` in its message.
        """
        deadline = self._clock() + limit_s
        while not done():
            remaining = deadline - self._clock()
            if remaining <= 0:
                if what:
                    log = self._folder / f"{role}.log"
                    raise DemoError(
                        f"expected {what} within {limit_s:g} s, was not; {log} shows its progress, "
                        "`deltabook doctor` what is missing"
                    )
                return
            self._turn(min(remaining, self._limits.tick_s))

    def _turn(self, timeout_s: float) -> None:
        """Sleep until something happens, process it and check that all children are alive."""
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, Child):
                if not key.data.read():
                    self._selector.unregister(key.fileobj)
            else:
                os.read(key.fd, 4096)
        for part in self._parts.values():
            self.figures.take(part.stage.role, part.child.figures, part.child.statuses)
        if self._clock() - self._drawn_at >= self._limits.tick_s:
            self._drawn_at = self._clock()
            # A terminal that has been closed does not keep the children from a clean stop.
            with suppress(OSError) if self._stopping or self._signals else nullcontext():
                self._screen.draw(self.figures)
        if self._stopping:
            return
        if self._signals:
            raise InterruptedDemoError(self._signals[0])
        self._cause_chaos()
        for part in tuple(self._parts.values()):
            self._check_part(part)

    def _drain(self, child: Child) -> None:
        """Read the last output of an ended child, up to a limit."""
        for _ in range(64):
            if not child.read():
                return

    def _stop_all(self) -> None:
        self._stopping = True
        for part in sorted(self._parts.values(), key=lambda part: part.stage.stop_order):
            child = part.child
            self._stop(child)
            self._drain(child)
            self.figures.take(part.stage.role, child.figures, child.statuses)

    def _stop(self, child: Child) -> None:
        def ended() -> bool:
            return child.exit_code is not None

        if not ended() and not self._is_hurried:
            child.terminate()
            self._wait(lambda: ended() or self._is_hurried, self._limits.stop_s)
        if not ended():
            child.kill()
            self._wait(ended, self._limits.kill_s)

    @property
    def _is_hurried(self) -> bool:
        return len(self._signals) > 1

    def _check_ends(self) -> None:
        for part in self._parts.values():
            child = part.child
            if part.is_coming_back:
                continue  # a signal interrupted its start
            code = child.exit_code
            if code == -signal.SIGKILL:
                limit = f"{self._limits.stop_s:g} s"
                raise ChildError(f"{child.role}: expected to stop within {limit}, was killed", child.log_lines())
            if code != 0:
                raise ChildError(f"{child.role}: {child.reason()} when it was stopped", child.log_lines())

    @contextmanager
    def _taking_signals(self) -> Iterator[None]:
        # The wake-up socket gets a byte for every signal, including SIGCHLD, so the selector wakes when a child ends.
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)

        def take(number: int, frame: FrameType | None) -> None:
            del frame
            # A terminal that is closed sends SIGHUP more than once: it is never the second signal, which hurries.
            if number != signal.SIGCHLD and not (self._signals and number == signal.SIGHUP):
                self._signals.append(number)

        before = {number: signal.signal(number, take) for number in (*stop_signals(), signal.SIGCHLD)}
        wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        self._selector.register(reader, selectors.EVENT_READ)
        try:
            yield
        finally:
            self._selector.unregister(reader)
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            reader.close()
            writer.close()
