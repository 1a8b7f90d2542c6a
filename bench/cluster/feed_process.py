"""``python -m bench.cluster.feed_process FILE SESSION``: plays a recording as an exchange's text feed.

The process prints its port and accepts one listener. Each line of standard input then requests a number of further
messages, at full speed or at a rate. The process answers each request with a line, which has the time at which each
piece of messages was passed to the socket, by the clock that file systems use for timestamps. It ends at the end of
standard input.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from bench.processes import print_line

__all__ = ["Play", "Played", "main"]

_PIECE_SECONDS: Final = 0.002
_MOST_PIECE: Final = 5_000
_HEARTBEAT_SECONDS: Final = 1.0


class Play(msgspec.Struct, frozen=True):
    """Request to send messages."""

    messages: int
    """Number of further messages."""
    rate: float = 0.0
    """Messages per second; 0 to send them as fast as the listener takes them."""


class Played(msgspec.Struct, frozen=True):
    """Report on sent messages."""

    stamps: list[tuple[int, int]]
    """Number of the last message of each piece, and the time when the piece was begun, in nanoseconds since the UTC
    epoch.
    """
    late_ms: float = 0.0
    """Largest delay of the sender behind its rate, in milliseconds."""


def main(path: Path, session: str) -> int:
    """Play a recording to one listener, as the lines of standard input request."""
    lines = path.read_bytes()
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1
    view = memoryview(lines)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print_line({"port": server.getsockname()[1]})
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.recv(1024)
    connection.sendall(f"A,{session},1\n".encode())
    at = 0
    while line := _next_line(connection, at):
        play = msgspec.json.decode(line, type=Play)
        if at + play.messages > len(ends):
            raise ValueError(f"expected at most {len(ends) - at} further messages of {path.name}, was {play.messages}")
        print_line(_play(connection, view, ends, at, play))
        at += play.messages
    connection.close()
    return 0


def _play(connection: socket.socket, view: memoryview, ends: npt.NDArray[np.int64], at: int, play: Play) -> Played:
    piece = max(1, round(play.rate * _PIECE_SECONDS)) if play.rate else _MOST_PIECE
    start, sent, late_s = time.monotonic(), 0, 0.0
    stamps: list[tuple[int, int]] = []
    while sent < play.messages:
        begin, sent = sent, min(sent + piece, play.messages)
        if play.rate:
            due = start + begin / play.rate
            while (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            late_s = max(late_s, -ahead)
        stamps.append((at + sent, time.time_ns()))
        first = int(ends[at + begin - 1]) if at + begin else 0
        connection.sendall(view[first : int(ends[at + sent - 1])])
    # The heartbeat shows that the last order request has no further messages, so that the listener need not wait for
    # more.
    connection.sendall(_heartbeat(at + sent))
    return Played(stamps, late_s * 1000)


def _next_line(connection: socket.socket, at: int) -> bytes:
    """Return the next line of standard input; send heartbeats meanwhile, because a feed without heartbeats counts as
    lost."""
    while not select.select([sys.stdin.buffer], [], [], _HEARTBEAT_SECONDS)[0]:
        connection.sendall(_heartbeat(at))
    return sys.stdin.buffer.readline()


def _heartbeat(last: int) -> bytes:
    return f"{last + 1},0,0,0,H,0,0,\n".encode()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
