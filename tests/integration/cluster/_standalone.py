"""A standalone cluster of processes that a test kills, stops and starts one by one."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.integration.algo_process import Process

__all__ = ["Standalone"]

DEADLINE_S = 300.0
LOOK_S = 0.05


class Daemon(Process):
    """Process of Spark's, which writes nothing but its log."""

    @property
    def pid(self) -> int:
        """Process id of the command and of the Java that it becomes."""
        return self._process.pid

    def said(self, pattern: str) -> re.Match[str]:
        """Wait until the log matches the pattern; return the match."""
        self.await_(lambda: re.search(pattern, self.errors()) is not None, pattern)
        found = re.search(pattern, self.errors())
        assert found is not None
        return found

    def await_(self, claim: Callable[[], bool], words: str) -> None:
        """Wait until a claim holds; the process must not end meanwhile."""
        for _ in range(int(DEADLINE_S / LOOK_S)):
            if claim():
                return
            try:
                code = self._process.wait(LOOK_S)
            except subprocess.TimeoutExpired:
                continue
            raise AssertionError(f"expected {words}, was an end with {code}\n{self.errors()}")
        raise AssertionError(f"expected {words} within {DEADLINE_S} s, was not\n{self.errors()}")

    def executors(self) -> list[int]:
        """Return the process ids of its executors."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                is_one = b"CoarseGrainedExecutorBackend" in (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if parent == self.pid and is_one:
                found.append(int(folder.name))
        return found

    def kill_with_executors(self) -> None:
        """Kill the process and its executors as in a power loss: the executors do no more work."""
        executors = self.executors()
        for number in executors:
            os.kill(number, signal.SIGSTOP)
        self.kill()
        for number in executors:
            os.kill(number, signal.SIGKILL)


class Standalone:
    """A master, and workers with one core each; all remaining processes are killed at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.secret = directory / "secret"
        self._stack = ExitStack()
        self._port = self._page = 0
        self._workers = 0

    def __enter__(self) -> Standalone:
        self._directory.mkdir()
        self.secret.write_text(os.urandom(24).hex())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def url(self) -> str:
        """URL of the master."""
        return f"spark://127.0.0.1:{self._port}"

    def options(self) -> list[str]:
        """Return the options of a runtime that uses the cluster."""
        return ["--master", self.url, "--spark-secret-file", str(self.secret)]

    def start_master(self) -> Daemon:
        """Start the master; a later one replaces an earlier one."""
        ports = ["--port", str(self._port), "--ui-port", str(self._page)]
        master = self._start("master", "master", *ports)
        self._port = int(master.said(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")[1])
        self._page = int(master.said(r"Bound MasterWebUI to .* started at http://[^ :]+:(\d+)")[1])
        return master

    def add_worker(self) -> Daemon:
        """Start one more worker."""
        self._workers += 1
        worker = self._start(f"worker-{self._workers}", "worker", self.url, "--cores", "1", "--ui-port", "0")
        worker.said("Successfully registered with master")
        return worker

    def state(self) -> dict[str, Any]:
        """Return the state that the master's page reports."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=DEADLINE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _start(self, name: str, *arguments: str) -> Daemon:
        place = ["--dir", str(self._directory / name), "--secret-file", str(self.secret)]
        daemon = Daemon("cluster", *arguments, *place)
        self._stack.callback(daemon.kill)
        return daemon
