"""Starts the children one after the other, watches them for a while and stops them in their order.

```
for each stage: start ──▶ wait for "ready" ──▶ next          (bounded; a child that ends here fails the demo)
first view update ──▶ run for `seconds` ──▶ stop: SIGTERM ──▶ wait, bounded ──▶ SIGKILL to the group
signals: first = stop now, second = kill now; a child that ends by itself = stop the others and fail
```

One thread, one selector: it sleeps until a child says something, a child ends, a signal comes or a time is up.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from deltabook.demo.child import Child
from deltabook.demo.errors import ChildError, DemoError, InterruptedDemoError
from deltabook.demo.figures import Figures
from deltabook.demo.plan import PEERS_FILE, Stage
from deltabook.demo.screen import Screen
from deltabook.wire.status import Ready
from deltabook.wire.symbols import Instrument

__all__ = ["Limits", "Supervisor"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the supervisor waits, in seconds."""

    ready_s: float = 300.0
    """For a child to say that it is ready; a machine that is busy takes minutes to start Spark."""
    first_update_s: float = 120.0
    """For the first view update once all are ready."""
    stop_s: float = 40.0
    """For a child to end after SIGTERM."""
    kill_s: float = 5.0
    """For a child to end after SIGKILL."""
    tick_s: float = 1.0
    """Between two drawings of the screen when nothing new was said."""


class Supervisor:
    """Runs the children of one demo.

    `run` returns the figures of a demo that ran its time, or raises `ChildError`, `InterruptedDemoError` or
    `DemoError`. However it ends, no child is left: the process groups are killed if need be. Must run on the main
    thread, for it takes the signals while it runs.
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
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stages = stages
        self._folder = folder
        self._screen = screen
        self._seconds = seconds
        self._environ = environ
        self._limits = limits or Limits()
        self._clock = clock
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()
        self._signals: list[int] = []
        self._stopping = False
        self._drawn_at = clock()
        self.figures = Figures(clock, scale)

    def run(self) -> Figures:
        """Start, watch, stop."""
        try:
            with self._taking_signals():
                try:
                    self._start_all()
                    self._watch()
                finally:
                    self._stop_all()
                self._check_ends()
        finally:
            for child in self._children:
                child.close()
            self._selector.close()
            self._screen.close()
        return self.figures

    def _start_all(self) -> None:
        ports: dict[str, int] = {}
        peers: dict[str, str] = {}
        for stage in self._stages:
            self._screen.say(f"starting {stage.role}")
            ready = self._start(stage, ports)
            ports |= {f"{stage.role}.{name}": port for name, port in ready.ports.items()}
            opened = "".join(f", {name} port {port}" for name, port in sorted(ready.ports.items()))
            self._screen.say(f"{stage.role} is up (pid {ready.pid}{opened})")
            if stage.page:
                self.figures.page = f"http://127.0.0.1:{ready.ports[stage.page]}/"
                self._screen.say(f"look at {self.figures.page} in a browser")
            if stage.peer is not None:
                name, port = stage.peer
                peers[name] = f"127.0.0.1:{ready.ports[port]}"
                self._write_peers(peers)

    def _write_peers(self, peers: Mapping[str, str]) -> None:
        """All at once: whoever reads the file sees the old one or the new one."""
        path = self._folder / PEERS_FILE
        draft = path.with_suffix(".draft")
        draft.write_bytes(msgspec.json.encode(peers))
        draft.replace(path)

    def _start(self, stage: Stage, ports: Mapping[str, int]) -> Ready:
        child = Child(stage.role, stage.command(ports), self._folder / f"{stage.role}.log", self._environ)
        self._children.append(child)
        self._selector.register(child.stdout, selectors.EVENT_READ, child)
        what = f"{stage.role} to be ready"
        self._wait(lambda: child.ready is not None, self._limits.ready_s, what, stage.role)
        assert child.ready is not None
        return child.ready

    def _watch(self) -> None:
        first_s = self._limits.first_update_s
        self._wait(lambda: self.figures.view_updates > 0, first_s, "a first view update", "runtime")
        self.figures.start()
        self._screen.say(f"first view update; running for {self._seconds:g} s")
        self._wait(lambda: False, self._seconds)
        self.figures.finish()
        self._screen.say("stopping")

    def _wait(self, done: Callable[[], bool], limit_s: float, what: str = "", role: str = "") -> None:
        """Turn until `done`, or `limit_s` seconds are up, which is an error if `what` was waited for.

        The error names the log of ``role``, which says what it was busy with.
        """
        deadline = self._clock() + limit_s
        while not done():
            remaining = deadline - self._clock()
            if remaining <= 0:
                if what:
                    log = self._folder / f"{role}.log"
                    raise DemoError(
                        f"expected {what} within {limit_s:g} s, was not; {log} says how far it has come, "
                        "`deltabook doctor` what is missing"
                    )
                return
            self._turn(min(remaining, self._limits.tick_s))

    def _turn(self, timeout_s: float) -> None:
        """Sleep until something happens, take it in and look whether all are alive."""
        for key, _ in self._selector.select(timeout_s):
            if isinstance(key.data, Child):
                if not key.data.read():
                    self._selector.unregister(key.fileobj)
            else:
                os.read(key.fd, 4096)
        for child in self._children:
            self.figures.take(child.role, child.figures, child.statuses)
        if self._clock() - self._drawn_at >= self._limits.tick_s:
            self._drawn_at = self._clock()
            self._screen.draw(self.figures)
        if self._stopping:
            return
        if self._signals:
            raise InterruptedDemoError(self._signals[0])
        for child in self._children:
            if child.exit_code is not None:
                self._drain(child)
                raise ChildError(f"{child.role}: {child.reason()}", child.log_lines())

    def _drain(self, child: Child) -> None:
        """Take in what an ended child has said last, a bounded amount."""
        for _ in range(64):
            if not child.read():
                return

    def _stop_all(self) -> None:
        self._stopping = True
        order = {stage.role: stage.stop_order for stage in self._stages}
        for child in sorted(self._children, key=lambda child: order[child.role]):
            self._stop(child)
            self._drain(child)
            self.figures.take(child.role, child.figures, child.statuses)

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
        for child in self._children:
            code = child.exit_code
            if code == -signal.SIGKILL:
                limit = f"{self._limits.stop_s:g} s"
                raise ChildError(f"{child.role}: expected to stop within {limit}, was killed", child.log_lines())
            if code != 0:
                raise ChildError(f"{child.role}: {child.reason()} when it was stopped", child.log_lines())

    @contextmanager
    def _taking_signals(self) -> Iterator[None]:
        # The wake-up socket gets a byte for every signal, SIGCHLD included: so the selector wakes when a child ends.
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        writer.setblocking(False)

        def take(number: int, frame: FrameType | None) -> None:
            del frame
            if number != signal.SIGCHLD:
                self._signals.append(number)

        before = {number: signal.signal(number, take) for number in (*_SIGNALS, signal.SIGCHLD)}
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
