"""A stand-in for a process of the demo: ``fake_child.py ROLE MODE [PATH]``; says what real ones say, then waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from deltabook.wire.status import Failed, Ready, Status, Stopped, write_event

FIGURES: dict[str, dict[str, int | float | str | None]] = {
    "exchange": {"sequence": 1200},
    "runtime": {"messages": 1000, "epoch": 10, "view_updates": 60, "views": 6, "lag_ms": 12.5, "rows_per_s": 900},
    "algo": {"orders_sent": 7, "orders_filled": 3, "position_lots": -2, "pnl": 1.25, "sobi.fills": 2},
}
GRANDCHILD = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); sys.stdin.read()"


def main(role: str, mode: str, path: str = "") -> None:
    """Say ready, do what `mode` says, then wait for SIGTERM or the end of standard input."""
    out = sys.stdout.buffer

    def stop(number: int, frame: FrameType | None) -> NoReturn:
        del number, frame
        write_event(out, Status(role, {"stopping": 1}))
        write_event(out, Stopped(role, "SIGTERM"))
        if mode == "quiet_order":
            with Path(path).open("a") as order:
                order.write(role + "\n")
        os._exit(3 if mode == "unclean" else 0)

    # Held back until everything is said: a handler must not write into the middle of a line.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGTERM, signal.SIG_IGN if mode == "hang" else stop)
    if mode == "fifo":
        # Held until this process has ended: whoever reads the other end sees when that is.
        os.open(path, os.O_WRONLY)
    if mode == "mute":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        sys.stdin.read()
    out.write(b"a library's own chatter\n")
    write_event(out, Ready(role, os.getpid(), {"text": 4711} if role == "exchange" else {}))
    if mode == "grandchild":
        # Holds the write end of the pipe on `path` for as long as it lives.
        held = os.open(path, os.O_WRONLY)
        os.set_inheritable(held, True)
        command = [sys.executable, "-c", GRANDCHILD]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        assert child.stdout is not None
        child.stdout.readline()
    if mode == "crash":
        sys.stderr.write(f"some log line\ndeltabook {role}: failed: out of paper\n")
        sys.exit(1)
    if mode == "failed_event":
        write_event(out, Failed(role, "expected paper, was none"))
        sys.exit(1)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode != "idle":
        write_event(out, Status(role, FIGURES[role]))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
