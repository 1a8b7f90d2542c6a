"""A stand-in for a process of the demo: ``fake_child.py ROLE MODE [PATH]``; reports what real ones do, then waits."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

from deltabook.wire.status import Failed, Ready, Status, Stopped, write_event

FIGURES: dict[str, dict[str, int | float | str | None]] = {
    "dashboard": {"pages": 1},
    "exchange": {"sequence": 1200},
    "runtime": {"messages": 1000, "epoch": 10, "view_updates": 60, "views": 6, "lag_ms": 12.5, "rows_per_s": 900},
    "algo": {"orders_sent": 7, "orders_filled": 3, "position_lots": -2, "pnl": 1.25, "sobi.fills": 2},
}
GRANDCHILD = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); sys.stdin.read()"


def start_grandchild(path: str) -> None:
    """Start a process that ignores SIGTERM and holds the write end of the pipe on `path` for as long as it lives."""
    held = os.open(path, os.O_WRONLY)
    os.set_inheritable(held, True)
    command = [sys.executable, "-c", GRANDCHILD]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
    assert child.stdout is not None
    child.stdout.readline()


def act(role: str, mode: str, path: str) -> None:
    """Do what `mode` says, after the process has said that it is ready."""
    if mode == "grandchild":
        start_grandchild(path)
    if mode == "crash" or (mode == "crash_once" and not Path(path).exists()):
        Path(path or os.devnull).touch()
        sys.stderr.write(f"some log line\ndeltabook {role}: failed: out of paper\n")
        sys.exit(1)
    if mode == "failed_event":
        write_event(sys.stdout.buffer, Failed(role, "expected paper, was none"))
        sys.exit(1)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "spark":
        write_event(sys.stdout.buffer, Status(role, {**FIGURES[role], "spark": "starting"}))
        Path(path).read_bytes()  # a pipe, which is opened when the supervisor has shown that
        write_event(sys.stdout.buffer, Status(role, {"spark": "up"}))
    elif mode != "idle":
        write_event(sys.stdout.buffer, Status(role, FIGURES[role]))


def main(role: str, mode: str, path: str = "") -> None:
    """Say ready, act, then wait for SIGTERM or the end of standard input."""
    # The handler does nothing but wake the wait at the end: it must not write into the middle of a line.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno())
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "hang" else lambda number, frame: None)
    out = sys.stdout.buffer
    if mode == "fifo":
        # Held until this process has ended: whoever reads the other end sees when that is.
        os.open(path, os.O_WRONLY)
    if mode != "mute":
        out.write(b"a library's own chatter\n")
        write_event(out, Ready(role, os.getpid(), {"text": 4711} if role == "exchange" else {"http": 4712}))
        act(role, mode, path)
    select.select([reader, sys.stdin], [], [])
    write_event(out, Status(role, {"stopping": 1}))
    write_event(out, Stopped(role, "SIGTERM or the end of standard input"))
    if mode == "order":
        with Path(path).open("a") as order:
            order.write(role + "\n")
    sys.exit(3 if mode == "unclean" else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
