"""Start and end of the processes from the exchange to the algorithm engine, for measurements."""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from deltabook.demo.child import Child

__all__ = ["deltabook", "running", "until_ready"]

_READY_S: Final = 300.0
_STOP_S: Final = 30.0
_POLL_S: Final = 0.02


def deltabook(*arguments: str) -> list[str]:
    """Return the command line of a process that ends when its parent does."""
    return [sys.executable, "-m", "deltabook", *arguments, "--exit-with-stdin", "--status-interval", "0"]


@contextmanager
def running(role: str, command: list[str], folder: Path) -> Iterator[Child]:
    """Run a process; yield when it is ready, and end it afterwards."""
    child = Child(role, command, folder / f"{role}.log", {**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        until_ready(child)
        yield child
        child.terminate()
        _wait(child, lambda: child.exit_code is not None, _STOP_S, "to end")
    finally:
        child.close()


def until_ready(child: Child) -> dict[str, int]:
    """Wait until a process serves and, if it is a runtime with Spark, until Spark is up; return the process's ports.

    Raise `RuntimeError` if the process ends, or is not ready in time.
    """
    _wait(child, lambda: child.ready is not None, _READY_S, "to be ready")
    if child.role == "runtime":
        port = child.ready.ports["http"] if child.ready else 0
        _wait(child, lambda: _is_spark_up(port), _READY_S, "to have its Spark up")
    assert child.ready is not None
    return child.ready.ports


def _is_spark_up(port: int) -> bool:
    """Return True if a runtime's Spark has joined, or if the runtime has no Spark."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status", timeout=_READY_S) as answer:
        return bool(json.load(answer)["spark"] != "starting")


def _wait(child: Child, done: Callable[[], bool], limit_s: float, what: str) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        child.read()
        if done():
            return
        if child.exit_code is not None or time.monotonic() > deadline:
            lines = "\n".join(child.log_lines())
            raise RuntimeError(f"expected {child.role} {what}, was {child.reason()}\n{lines}")
        time.sleep(_POLL_S)
