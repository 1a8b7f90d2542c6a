"""Processes for the tests of the algorithm engine, and a results service in the test's own process."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from deltabook.wire import status, text
from deltabook.wire.results import CONTENT_TYPE, FrameHeader, encode_frame

__all__ = ["ASK_TICKS", "BID_TICKS", "FakeResults", "Process", "private_stream", "trades"]

BID_TICKS = 9_990
ASK_TICKS = 10_010
QUOTE = {"symbol": "ACME", "bid_price": BID_TICKS, "bid_volume": 1_000, "ask_price": ASK_TICKS, "ask_volume": 1_000}


_SET_CLOCK = """
import runpy, sys, time
shift_ns = int(sys.argv.pop(1))
real_ns = time.time_ns
time.time_ns = lambda: real_ns() + shift_ns
time.time = lambda: time.time_ns() / 1e9
runpy.run_module("deltabook", run_name="__main__", alter_sys=True)
"""


class Process:
    """One `deltabook` process, whose events are read from its standard output.

    Its wall clock is ``clock_s`` ahead of the machine's; its clocks for durations are unchanged.
    """

    def __init__(self, *arguments: str, clock_s: float = 0.0) -> None:
        start = ["-c", _SET_CLOCK, str(int(clock_s * 1e9))] if clock_s else ["-m", "deltabook"]
        self._process = subprocess.Popen(
            [sys.executable, *start, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._errors: list[bytes] = []
        assert self._process.stderr is not None
        self._drain = threading.Thread(target=self._errors.extend, args=(self._process.stderr,), daemon=True)
        self._drain.start()

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if kind is not None:  # a test that has failed, also by its time limit, shows what the process has logged
            sys.stderr.write(self.errors())

    def next_event(self) -> status.Event | None:
        """Return the next event, None after the last."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return status.parse_event(line) if line else None

    def ready(self) -> status.Ready:
        """Wait until the process is connected or serves."""
        while (event := self.next_event()) is not None:
            if isinstance(event, status.Ready):
                return event
        raise AssertionError(f"ended before it was ready:\n{self.errors()}")

    def wait_for(self, figure: str, at_least: int) -> dict[str, Any]:
        """Wait for a status line whose figure has reached a value; return its figures."""
        while (event := self.next_event()) is not None:
            if isinstance(event, status.Status) and int(event.figures[figure] or 0) >= at_least:
                return dict(event.figures)
        raise AssertionError(f"ended before {figure} was {at_least}:\n{self.errors()}")

    def wait_for_log(self, words: str) -> None:
        """Wait until standard error contains these words."""
        while words not in self.errors():
            assert self.next_event() is not None, f"ended before it said {words}:\n{self.errors()}"

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def stop(self) -> dict[str, Any]:
        """Terminate the process with SIGTERM; return the last figures."""
        self._process.terminate()
        return self.finish()

    def finish(self) -> dict[str, Any]:
        """Wait for a clean end; return the last figures."""
        figures: dict[str, Any] = {}
        while (event := self.next_event()) is not None:
            if isinstance(event, status.Status):
                figures = dict(event.figures)
        assert self._process.wait(20) == 0, self.errors()
        return figures

    def close_input(self) -> None:
        """Close standard input, as the death of a supervisor does."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.wait(20)
        self._drain.join(20)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def fails(self) -> str:
        """Wait for a failure; return the text of standard error."""
        assert self._process.wait(30) == 1
        self._drain.join(20)
        return self.errors()

    def errors(self) -> str:
        """Return the text of standard error so far."""
        return b"".join(self._errors).decode()


class FakeResults:
    """Offers ``best_quote`` with one row that never changes."""

    def __init__(
        self, views: tuple[str, ...] = ("best_quote",), *, token: str = "", certificate: tuple[Path, Path] | None = None
    ) -> None:
        """Start the service.

        With a ``certificate`` (its file and its key's) over TLS; with a ``token`` that it requires.
        """
        closing = self._closing = threading.Event()
        offer = json.dumps([{"name": view, "columns": [{"name": name} for name in QUOTE]} for view in views]).encode()
        rows = pa.table({**{name: [value] for name, value in QUOTE.items()}, "weight": [1]})

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if token and self.headers.get("Authorization") != f"Bearer {token}":
                    self.send_error(401)
                    return
                self.send_response(200)
                if self.path == "/v1/views":
                    self.send_header("Content-Length", str(len(offer)))
                    self.end_headers()
                    self.wfile.write(offer)
                    return
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                frame = encode_frame(FrameHeader("snapshot", "best_quote", 0, 1), rows)
                try:
                    while True:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(frame), frame))
                        if closing.wait(1):
                            return
                        frame = encode_frame(FrameHeader("heartbeat", ""))
                except OSError:
                    self.close_connection = True

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base's own name
                del format, arguments

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def address(self) -> str:
        """Address as HOST:PORT."""
        return f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeResults:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


def private_stream(port: int, broker_id: int) -> list[text.Response]:
    """Return all messages that the exchange has sent to a broker so far."""
    told: list[text.Response] = []
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(text.encode_login(text.InteractiveLogin(broker_id, "", 1)))
        lines = connection.makefile("rb")
        reply = text.parse_login_reply(lines.readline())
        assert isinstance(reply, text.Accepted), reply
        while (response := text.parse_response(lines.readline())).action != "H":
            told.append(response)
    return told


def trades(directory: Path) -> list[dict[str, str]]:
    """Return the rows of trades.csv."""
    header, *lines = (directory / "trades.csv").read_text().splitlines()
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
