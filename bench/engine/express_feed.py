"""``python -m bench.engine.express_feed``: an exchange's text feed of generated flow, at a given rate, with timestamps.

The process prints its port, accepts the login of one listener, and sends the warm-up as fast as it is taken. After a
line of standard input it sends the remaining messages at the rate, and records when it passed each piece to the socket.
At the end it prints one line of JSON and writes the timestamps. A timestamp is the number of a piece's last message,
and the time of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.flow import feed_table
from bench.ingest.texts import csv_lines
from bench.processes import print_line

__all__ = ["flow", "main"]

_SPREAD: Final = 10
_BROKERS: Final = 10
_PIECE_SECONDS: Final = 0.001
_MOST_PIECE: Final = 5_000
_SEED: Final = 3


def flow(messages: int, live_orders: int) -> pa.Table:
    """Return feed messages over 2,000 ticks a side: bids up to 9,999, asks from 10,001, as in `bench.views.market`.

    Every broker has orders on both sides, so that AXF has results.
    """
    table = feed_table(messages, live_orders, _SEED)
    price = table["price"]
    spread = pc.if_else(
        pc.less_equal(price, 10_000),
        pc.subtract(9_999, pc.multiply(pc.subtract(10_000, price), _SPREAD)),
        pc.add(10_001, pc.multiply(pc.subtract(price, 10_001), _SPREAD)),
    )
    broker = pa.array(table["order_id"].to_numpy() // 2 % _BROKERS)
    table = table.set_column(table.column_names.index("price"), "price", spread)
    return table.set_column(table.column_names.index("broker_id"), "broker_id", broker)


def main(arguments: list[str]) -> int:
    """Send the generated flow to one listener."""
    parser = argparse.ArgumentParser(prog="express_feed")
    parser.add_argument("--warm", type=int, required=True, help="number of messages before the start")
    parser.add_argument("--messages", type=int, required=True, help="number of messages after the start")
    parser.add_argument("--rate", type=float, required=True, help="messages per second; 0: as fast as they are taken")
    parser.add_argument("--live", type=int, required=True, help="number of live orders")
    parser.add_argument("--stamps", type=Path, required=True, help="file for the timestamps")
    options = parser.parse_args(arguments)
    lines = csv_lines(flow(options.warm + options.messages, options.live))
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1
    view = memoryview(lines)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print_line({"port": server.getsockname()[1]})
        connection, _ = server.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.recv(1024)
    connection.sendall(b"A,bench,1\n")
    connection.sendall(view[: ends[options.warm - 1]])
    connection.sendall(_heartbeat(options.warm))
    sys.stdin.readline()
    piece = max(1, round(options.rate * _PIECE_SECONDS)) if options.rate else _MOST_PIECE
    last, stamps = options.warm, []
    start = time.monotonic()
    while last < options.warm + options.messages:
        begin, last = last, min(last + piece, options.warm + options.messages)
        if options.rate:
            due = start + (begin - options.warm) / options.rate
            while (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
        stamps.append((last, time.monotonic_ns()))
        connection.sendall(view[ends[begin - 1] : ends[last - 1]])
    connection.sendall(_heartbeat(last))
    print_line({"seconds": time.monotonic() - start, "cpu_seconds": time.process_time()})
    np.save(options.stamps, np.array(stamps, np.int64))
    print_line({"saved": len(stamps)})
    sys.stdin.readline()  # keeps the connection open until everything is read
    connection.close()
    return 0


def _heartbeat(last: int) -> bytes:
    """Return a heartbeat, which states that all requests so far are complete, so that the last request need not
    wait."""
    return f"{last + 1},0,0,0,H,0,0,\n".encode()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
