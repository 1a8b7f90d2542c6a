# mypy: disable-error-code="no-untyped-call,misc"
# Twisted is typed in part only.
"""A standalone cluster of this machine: a master and workers as processes on loopback, started, watched and stopped.

```
start ──▶ master ──its address──▶ workers ──all registered──▶ ready
a worker ends: reported, counted, not replaced;  the master ends: the cluster has failed
stop ──▶ workers, then the master: SIGTERM, and SIGKILL to those that have not ended in time
```
"""

from __future__ import annotations

import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.cluster import tied
from deltabook.cluster.daemons import DaemonConfig, Launch, prepare, take_directory
from deltabook.cluster.errors import ClusterError

__all__ = ["LocalCluster", "LocalConfig"]

_PORTS: Final = {
    "master": re.compile(rb"Starting Spark master at spark://[^ :]+:(\d+)"),
    "ui": re.compile(rb"Bound MasterWebUI to .* started at http://[^ :]+:(\d+)"),
}
_REGISTERED: Final = re.compile(rb"Successfully registered with master")
_LONGEST_LINE: Final = 64 * 1024
"""Largest number of bytes that are stored of a line whose end has not arrived yet."""
_READY_SECONDS: Final = 120.0
"""Time limit for all workers to be registered."""
_STOP_SECONDS: Final = 10.0
"""Time after which a process that does not end is killed."""


class LocalConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of a cluster of this machine."""

    directory: Path
    """Directory of the cluster, with a folder for the master and one for each worker."""
    workers: int = 2
    """Number of workers."""
    cores: int = 1
    """Cores of each worker: the number of its concurrent tasks."""
    executor_memory: str = "1g"
    """Memory of each worker, for the heaps of its executors."""
    port: int = 0
    """Port of the master, 0 for any."""
    ui_port: int = 0
    """Port of the master's page, 0 for any."""
    secret_file: str = ""
    """File with the secret that all processes share; empty for none."""
    metrics: bool = False
    """True if the pages serve metrics."""
    run_id: str = ""
    """Run id in every log line."""
    logs_json: bool = False
    """True if log lines are JSON."""

    def daemon(self, role: Any, directory: Path, **others: Any) -> DaemonConfig:
        """Return the configuration of one of the processes."""
        return DaemonConfig(
            role=role,
            directory=str(directory),
            secret_file=self.secret_file,
            metrics=self.metrics,
            run_id=self.run_id,
            logs_json=self.logs_json,
            **others,
        )


class LocalCluster:
    """Runs the processes of one cluster. Everything happens on the reactor's thread.

    ``on_failure`` is called at most once, with the reason in one line, when a cluster that was ready cannot continue;
    `stop` must still be called. ``on_line`` receives the name of a process and every line that it writes.
    """

    def __init__(
        self,
        reactor: Any,
        config: LocalConfig,
        environ: Mapping[str, str],
        on_failure: Callable[[str], None],
        on_line: Callable[[str, bytes], None],
    ) -> None:
        self._reactor, self._config, self._environ = reactor, config, environ
        self._on_failure, self._on_line = on_failure, on_line
        self._log = Logger()
        self._master: _Process | None = None
        self._workers: list[_Process] = []
        self._ports: dict[str, int] = {}
        self._started: Deferred[dict[str, int]] = Deferred()
        self._deadline: Any = None
        self._is_ready = self._is_stopping = self._has_failed = False
        self.lost_workers = 0
        """Number of workers that have ended unexpectedly."""
        config.directory.mkdir(parents=True, exist_ok=True)
        self._lock = take_directory(config.directory)

    def start(self) -> Deferred[dict[str, int]]:
        """Start the master and the workers.

        The result fires with the ports ``master`` and ``ui`` once every worker is registered, and fails with
        `ClusterError`.
        """
        config = self._config
        self._deadline = self._reactor.callLater(_READY_SECONDS, self._late)
        daemon = config.daemon("master", config.directory / "master", port=config.port, ui_port=config.ui_port)
        self._master = self._run("master", daemon, self._read_master_line, self._master_ended)
        return self._started

    def stop(self) -> Deferred[None]:
        """Stop all processes; the result fires once none is left."""
        self._is_stopping = True
        self._cancel_deadline()
        stopped: Deferred[None] = Deferred()
        left = [process for process in (*self._workers, self._master) if process is not None and not process.has_ended]
        if not left:
            stopped.callback(None)
            return stopped

        def kill() -> None:
            for process in left:
                process.signal(signal.SIGKILL)

        late = self._reactor.callLater(_STOP_SECONDS, kill)

        def gone() -> None:
            if any(not process.has_ended for process in left):
                return
            if late.active():
                late.cancel()
            stopped.callback(None)

        for process in left:
            process.on_gone = gone
            process.signal(signal.SIGTERM)
        return stopped

    def figures(self) -> dict[str, int | float | str | None]:
        """Return the figures for status lines."""
        alive = sum(1 for worker in self._workers if worker.is_registered and not worker.has_ended)
        return {"workers": alive, "cores": alive * self._config.cores, "lost_workers": self.lost_workers}

    def _run(
        self, name: str, config: DaemonConfig, on_text: Callable[[bytes], None], ended: Callable[[str], None]
    ) -> _Process:
        launch = prepare(config, self._environ)
        shutil.rmtree(launch.directory / "scratch", ignore_errors=True)  # left by a process that could not clean up

        def line(text: bytes) -> None:
            self._on_line(name, text)
            on_text(text)

        process = _Process(line, ended)
        process.start(self._reactor, launch)
        (launch.directory / "pid").write_text(f"{process.pid}\n")
        return process

    def _read_master_line(self, line: bytes) -> None:
        for name, pattern in _PORTS.items():
            if match := pattern.search(line):
                self._ports[name] = int(match[1])
        if not self._workers and len(self._ports) == len(_PORTS):
            self._start_workers()

    def _start_workers(self) -> None:
        config, master = self._config, f"spark://127.0.0.1:{self._ports['master']}"
        for number in range(1, config.workers + 1):
            place = config.directory / "workers" / str(number)
            daemon = config.daemon(
                "worker", place, master=master, cores=config.cores, executor_memory=config.executor_memory
            )
            name = f"worker {number}"
            worker = self._run(name, daemon, self._reader_of_worker(number), self._end_of_worker(number))
            self._workers.append(worker)

    def _reader_of_worker(self, number: int) -> Callable[[bytes], None]:
        def read(line: bytes) -> None:
            if _REGISTERED.search(line):
                self._workers[number - 1].is_registered = True
                if not self._is_ready and all(worker.is_registered for worker in self._workers):
                    self._ready()

        return read

    def _end_of_worker(self, number: int) -> Callable[[str], None]:
        def ended(how: str) -> None:
            if self._is_stopping:
                return
            self.lost_workers += 1
            self._log.error("worker {number} {how}; it is not started again", number=number, how=how)
            if not self._is_ready:
                self._fail(f"expected worker {number} to be there, was: {how}")

        return ended

    def _master_ended(self, how: str) -> None:
        if not self._is_stopping:
            self._fail(f"expected the master to run, was: {how}")

    def _ready(self) -> None:
        self._is_ready = True
        self._cancel_deadline()
        self._started.callback(dict(self._ports))

    def _late(self) -> None:
        missing = "a worker" if len(self._ports) == len(_PORTS) else "the master"
        self._fail(f"expected {missing} to be ready within {_READY_SECONDS:g} s, was not")

    def _cancel_deadline(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()

    def _fail(self, reason: str) -> None:
        self._cancel_deadline()
        if self._has_failed:
            return
        self._has_failed = True
        if self._is_ready:
            self._on_failure(reason)
        else:
            self._started.errback(Failure(ClusterError(reason)))


class _Process(ProcessProtocol):
    """One process, with its output and its end."""

    def __init__(self, on_line: Callable[[bytes], None], on_end: Callable[[str], None]) -> None:
        self._on_line, self._on_end = on_line, on_end
        self._rest = b""
        self._transport: Any = None
        self.on_gone: Callable[[], None] = lambda: None
        self.has_ended = False
        self.is_registered = False

    @property
    def pid(self) -> int:
        """Process id, which stays the same when the process executes another program."""
        return int(self._transport.pid)

    def start(self, reactor: Any, launch: Launch) -> None:
        """Start the child process; on Linux it ends when its parent ends, even if the parent is killed."""
        command: Sequence[str] = (sys.executable, str(tied.__file__), *launch.command)
        self._transport = reactor.spawnProcess(self, command[0], command, env=launch.environ, path=launch.directory)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the process has not ended."""
        try:
            self._transport.signalProcess(number.name.removeprefix("SIG"))
        except ProcessExitedAlready:
            return

    def outReceived(self, data: bytes) -> None:
        """Treat standard output like log lines."""
        self.errReceived(data)

    def errReceived(self, data: bytes) -> None:
        """Pass each complete line to the listener."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            self._on_line(line)

    def processEnded(self, reason: Failure) -> None:
        """Report the end of the process and of its output."""
        self.has_ended = True
        status: Any = reason.value
        how = f"ended by {signal.Signals(status.signal).name}" if status.signal else f"ended with {status.exitCode}"
        self._on_end(how)
        self.on_gone()
