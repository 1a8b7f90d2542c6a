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
    """A process of Spark's: it says nothing but its log."""

    @property
    def pid(self) -> int:
        """Process id, of the command and of the Java that it becomes."""
        return self._process.pid

    def said(self, pattern: str) -> re.Match[str]:
        """Wait until its log has this; what was found."""
        self.await_(lambda: re.search(pattern, self.errors()) is not None, pattern)
        found = re.search(pattern, self.errors())
        assert found is not None
        return found

    def await_(self, claim: Callable[[], bool], words: str) -> None:
        """Wait until something is so; it must not end meanwhile."""
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
        """Process ids of its executors."""
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
        """As if its machine had lost its power: the executors do not learn of it and do no more."""
        executors = self.executors()
        for number in executors:
            os.kill(number, signal.SIGSTOP)
        self.kill()
        for number in executors:
            os.kill(number, signal.SIGKILL)


class Standalone:
    """A master, and workers with one core each; all that is left is killed at the end."""

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
        """The master's."""
        return f"spark://127.0.0.1:{self._port}"

    def options(self) -> list[str]:
        """Of a runtime that uses it."""
        return ["--master", self.url, "--spark-secret-file", str(self.secret)]

    def start_master(self) -> Daemon:
        """The master; a later one takes the place of an earlier one."""
        ports = ["--port", str(self._port), "--ui-port", str(self._page)]
        master = self._start("master", "master", *ports)
        self._port = int(master.said(r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")[1])
        self._page = int(master.said(r"Bound MasterWebUI to .* started at http://[^ :]+:(\d+)")[1])
        return master

    def add_worker(self) -> Daemon:
        """One more worker."""
        self._workers += 1
        worker = self._start(f"worker-{self._workers}", "worker", self.url, "--cores", "1", "--ui-port", "0")
        worker.said("Successfully registered with master")
        return worker

    def state(self) -> dict[str, Any]:
        """What the master's page says."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=DEADLINE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _start(self, name: str, *arguments: str) -> Daemon:
        place = ["--dir", str(self._directory / name), "--secret-file", str(self.secret)]
        daemon = Daemon("cluster", *arguments, *place)
        self._stack.callback(daemon.kill)
        return daemon
