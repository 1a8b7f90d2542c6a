"""``python -m bench.ingest.load_process``: listens on loopback and sends feed lines to a number of connections.

The process prints its port and waits for all connections. After a line of standard input it sends to the connections in
turns, at a rate for all of them together. At the end it closes the connections and prints the amounts that it sent as
one line of JSON. The process uses sockets and a selector directly, because it shares the machine with its receivers.
10,000 writes per second take a third of a core.
"""

from __future__ import annotations

import argparse
import selectors
import socket
import sys
import time
from typing import Final

from bench.flow import feed_table
from bench.ingest.texts import csv_lines
from bench.processes import print_line

__all__ = ["main"]

_BLOCK_ROWS: Final = 20_000
_PAUSE_SECONDS: Final = 0.002
_SEED: Final = 3


class _Connection:
    """A listener's connection, with its unsent bytes."""

    def __init__(self, sock: socket.socket, lines: bytes) -> None:
        self._sock = sock
        self._view = memoryview(lines)
        self._at = 0
        self._left = 0
        self.sent = 0
        self.file_number = sock.fileno()

    def send_more(self, size: int) -> bool:
        """Send ``size`` further bytes; return False if the socket does not take all of them now."""
        self._left += size
        return self.send()

    def send(self) -> bool:
        """Send the remaining bytes; return False if the socket does not take all of them."""
        while self._left:
            piece = self._view[self._at : self._at + self._left]
            try:
                taken = self._sock.send(piece)
            except BlockingIOError:
                return False
            self._at = (self._at + taken) % len(self._view)
            self._left -= taken
            self.sent += taken
        return True

    def close(self) -> None:
        """Close the connection after the last byte."""
        self._sock.close()


class _Load:
    """All connections, served in turns."""

    def __init__(self, connections: list[_Connection]) -> None:
        self._connections = connections
        self._selector = selectors.DefaultSelector()
        self._behind: set[_Connection] = set()

    def run(self, each: int, piece: int, bytes_per_s: float) -> float:
        """Send ``each`` bytes to every connection, in turns of ``piece`` bytes; return the seconds.

        ``bytes_per_s`` is the rate of all connections together, 0 for no limit.
        """
        start = time.perf_counter()
        turns = -(-each // piece)
        sent = 0
        for turn in range(turns):
            size = min(piece, each - turn * piece)
            for connection in self._connections:
                if bytes_per_s and (ahead := start + sent / bytes_per_s - time.perf_counter()) > _PAUSE_SECONDS:
                    self._serve(ahead)
                if not connection.send_more(size):
                    self._wait_for(connection)
                sent += size
            if not bytes_per_s:
                self._drain()
        self._drain()
        return time.perf_counter() - start

    def _wait_for(self, connection: _Connection) -> None:
        if connection not in self._behind:
            self._behind.add(connection)
            self._selector.register(connection.file_number, selectors.EVENT_WRITE, connection)

    def _serve(self, seconds: float) -> None:
        if not self._behind:
            time.sleep(seconds)
            return
        for key, _ in self._selector.select(seconds):
            connection: _Connection = key.data
            if connection.send():
                self._selector.unregister(connection.file_number)
                self._behind.discard(connection)

    def _drain(self) -> None:
        while self._behind:
            self._serve(1.0)


def main(arguments: list[str]) -> int:
    """Serve connections as the arguments require."""
    parser = argparse.ArgumentParser(prog="load_process")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True, help="bytes to each connection; cut down to whole lines")
    parser.add_argument("--piece", type=int, required=True, help="bytes of one write")
    parser.add_argument(
        "--bytes-per-second", type=float, default=0.0, help="to all together; 0: as fast as they are taken"
    )
    options = parser.parse_args(arguments)
    lines = csv_lines(feed_table(_BLOCK_ROWS, 1000, _SEED))
    whole, rest = divmod(options.bytes, len(lines))
    tail = lines.rfind(b"\n", 0, rest) + 1
    each = whole * len(lines) + tail
    rows = whole * _BLOCK_ROWS + lines.count(b"\n", 0, tail)
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as server:
        print_line({"port": server.getsockname()[1], "bytes_each": each, "rows_each": rows})
        connections = []
        for _ in range(options.connections):
            sock, _ = server.accept()
            sock.setblocking(False)
            connections.append(_Connection(sock, lines))
    print_line({"connected": len(connections)})
    sys.stdin.readline()
    seconds = _Load(connections).run(each, options.piece, options.bytes_per_second)
    sent = sum(connection.sent for connection in connections)
    for connection in connections:
        connection.close()
    print_line({"bytes": sent, "rows": rows * len(connections), "seconds": seconds, "cpu_seconds": time.process_time()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
