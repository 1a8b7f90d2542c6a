"""Events of long-running processes: JSON for programs, text on a terminal."""

from __future__ import annotations

import errno
import io
import os

import pytest

from deltabook.wire.status import Event, Failed, Ready, Status, Stopped, event_text, parse_event, write_event

EVENTS = [
    (Ready("runtime", 7, {"postgres": 5, "http": 4}, "r"),
     "runtime: ready: http port 4, postgres port 5 (pid 7); Ctrl-C stops it"),
    (Ready("algo", 7, {}), "algo: ready: no port (pid 7); Ctrl-C stops it"),
    (Status("algo", {"orders": 12345, "pnl": -1.5, "lag_ms": 2.0, "state": "up", "spark": None}),
     "algo: orders 12,345, pnl -1.5, lag_ms 2, state up"),
    (Stopped("algo", "SIGINT"), "algo: stopped: SIGINT"),
    (Failed("algo", "no feed"), "algo: failed: no feed"),
]  # fmt: skip


@pytest.mark.parametrize(("event", "text"), EVENTS)
def test_a_pipe_gets_json_and_a_terminal_text(event: Event, text: str) -> None:
    pipe = io.BytesIO()
    write_event(pipe, event)
    assert parse_event(pipe.getvalue().removesuffix(b"\n")) == event
    assert event_text(event) == text
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "wb") as terminal:
        write_event(terminal, event)
        assert os.read(ours, 10_000).decode() == text + "\r\n"
    os.close(ours)


def test_a_reader_that_is_gone_is_no_error() -> None:
    pipe = io.BytesIO()
    pipe.close()
    write_event(pipe, Stopped("algo", "SIGINT"))


def test_a_stream_that_cannot_be_written_is_no_error() -> None:
    """A terminal that has hung up and a full disk must not keep a process from its clean stop."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "wb", buffering=0) as terminal:
        os.close(ours)
        write_event(terminal, Stopped("algo", "SIGHUP"))
    full = io.BufferedWriter(FullDisk())
    write_event(full, Stopped("algo", "SIGTERM"))
    write_event(full, Stopped("algo", "SIGTERM"))


class FullDisk(io.RawIOBase):
    """A file on a full disk."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")
