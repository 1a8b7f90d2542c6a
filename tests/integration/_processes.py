"""The processes of the whole loop, and readers of their services."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec

from deltabook.wire import status, text
from deltabook.wire.results import FrameDecoder
from tests.harness.moments import Moment
from tests.integration.algo_process import Process

__all__ = [
    "ITCH_BEGINNING",
    "Figures",
    "Results",
    "Running",
    "Version",
    "await_end_of_java",
    "exchange",
    "feed",
    "feed_position",
    "runtime",
]

DEADLINE_S = 300.0
"""Longest wait for a process in seconds; a slow machine is not a failure, a stuck process is."""
LOOK_S = 0.02

ITCH_BEGINNING = 5
"""Number of messages of an ITCH feed of one symbol that the text feed lacks: three events, and two for the symbol."""

Figures = dict[str, Any]


class Running(Process):
    """Process whose standard output is always read, so that it never waits for the test."""

    def __init__(self, *arguments: str, clock_s: float = 0.0) -> None:
        super().__init__(*arguments, clock_s=clock_s)
        self._news = threading.Condition()
        self._ready: status.Ready | None = None
        self._figures: Figures = {}
        self._has_ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Running:
        return self

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def _read(self) -> None:
        while (event := self.next_event()) is not None:
            with self._news:
                if isinstance(event, status.Ready):
                    self._ready = event
                elif isinstance(event, status.Status):
                    self._figures = dict(event.figures)
                self._news.notify_all()
        with self._news:
            self._has_ended = True
            self._news.notify_all()

    def _await(self, claim: Callable[[], bool], words: str) -> None:
        with self._news:
            self._news.wait_for(lambda: self._has_ended or claim(), DEADLINE_S)
            assert claim(), f"expected {words}, was {self._figures}, ended: {self._has_ended}\n{self.errors()}"

    def ready(self) -> status.Ready:
        """Wait until the process is connected or serves."""
        self._await(lambda: self._ready is not None, "a process that becomes ready")
        assert self._ready is not None
        return self._ready

    def joined(self) -> status.Ready:
        """Wait until a runtime serves, and its Spark, if it has one, is up."""
        ready = self.ready()
        self.figures(lambda figures: figures.get("spark") != "starting", "Spark that is up")
        return ready

    def figures(self, claim: Callable[[Figures], bool] = bool, words: str = "figures") -> Figures:
        """Wait until the claim holds for the figures, and return them."""
        self._await(lambda: bool(self._figures) and claim(self._figures), words)
        return self._figures

    def wait_for(self, figure: str, at_least: int) -> Figures:
        """Wait until a figure has reached a value, and return the figures."""
        return self.figures(lambda figures: int(figures[figure] or 0) >= at_least, f"{figure} of {at_least} or more")

    def wait_for_file(self, is_there: Callable[[], bool]) -> None:
        """Wait until a directory of the process shows something, while the process runs."""
        with self._news:
            for _ in range(int(DEADLINE_S / LOOK_S)):
                if is_there():
                    return
                self._news.wait_for(lambda: self._has_ended, LOOK_S)
                assert not self._has_ended, f"it ended before the file was there\n{self.errors()}"
        raise AssertionError(f"expected a file within {DEADLINE_S} s, was none\n{self.errors()}")

    def wait_for_end(self) -> None:
        """Wait until the process has ended, with any exit code."""
        self._await(lambda: self._has_ended, "an end")

    def finish(self) -> Figures:
        """Wait for a clean end; return the last figures."""
        self._await(lambda: self._has_ended, "a clean end")
        assert self._process.wait(DEADLINE_S) == 0, self.errors()
        return self._figures

    def runs_for(self, seconds: float) -> None:
        """Let the process run for ``seconds``; it must not end by itself."""
        with self._news:
            self._news.wait_for(lambda: self._has_ended, seconds)
            assert not self._has_ended, f"it ended by itself\n{self.errors()}"

    def pause(self) -> None:
        """Stop the process with SIGSTOP until `go_on`."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Resume the process with SIGCONT."""
        self._process.send_signal(signal.SIGCONT)

    def await_end(self) -> int:
        """Wait for the end; return the exit code."""
        self._await(lambda: self._has_ended, "an end")
        return self._process.wait(DEADLINE_S)

    def interrupt(self) -> Figures:
        """Interrupt the process with SIGINT, like Ctrl-C; return the last figures."""
        self._process.send_signal(signal.SIGINT)
        return self.finish()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._reader.join(20)
        super().kill()


def exchange(directory: Path, *options: str, port: int = 0, clock_s: float = 0.0) -> Running:
    """Start an exchange; its port is in `ready().ports`."""
    where = ["--dir", str(directory), "--port", str(port), "--status-interval", "0.1"]
    return Running("exchange", *where, *options, clock_s=clock_s)


def runtime(directory: Path, feed_port: int, views: Iterable[Path], *options: str, clock_s: float = 0.0) -> Running:
    """Start a runtime with small epochs and Spark on two threads."""
    files = ",".join(map(str, views))
    where = ["--feed", f"127.0.0.1:{feed_port}", "--dir", str(directory), "--views", files]
    return Running("runtime", *where, "--status-interval", "0.1", "--epoch-ms", "50", *options, clock_s=clock_s)


def feed(port: int, until: int, begin: int = 1) -> list[text.FeedMessage]:
    """Return the messages that a late listener reads from number ``begin`` to ``until``."""
    told: list[text.FeedMessage] = []
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(text.encode_login(text.PassiveLogin("", begin)))
        lines = connection.makefile("rb")
        reply = text.parse_login_reply(lines.readline())
        assert isinstance(reply, text.Accepted), reply
        while len(told) <= until - begin:
            message = text.parse_feed_message(lines.readline())
            if message.action != "H":
                told.append(message)
    return told


def feed_position(port: int) -> int:
    """Return the number of the newest message of the feed, from the answer to a login."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(text.encode_login(text.PassiveLogin()))
        reply = text.parse_login_reply(connection.makefile("rb").readline())
        assert isinstance(reply, text.Accepted), reply
        return reply.sequence - 1


class Version(msgspec.Struct, frozen=True):
    """Views at one version."""

    epoch: int
    """Epoch of the version."""
    sequence: int
    """Number of the last feed message that the version covers."""
    rows: dict[str, Counter[tuple[Any, ...]]]
    """View → its rows with their multiplicities."""


class Results:
    """Reader of a runtime's results."""

    def __init__(self, process: Running) -> None:
        self._process = process
        self._port = process.joined().ports["http"]

    def get(self, path: str) -> Any:
        """Return the answer of a path, from JSON."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/v1/{path}", timeout=DEADLINE_S) as answer:
            return json.load(answer)

    def newest(self, names: Sequence[str], by: str = "version") -> Version:
        """Return all these views at one version: that of the first snapshots of a change stream, or a newer one.

        With ``by`` "epoch" it is a version at the end of a committed epoch, where expired rows have been removed.
        """
        connection = HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
        connection.request("GET", f"/v1/changes?views={','.join(names)}&by={by}")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        decoder, moment = FrameDecoder(), Moment(names)
        while not moment.is_whole:
            for frame in decoder.feed(answer.read1(1 << 16)):
                moment.take(frame)
        connection.close()
        return Version(moment.epoch, moment.sequence, moment.rows)

    def covering(self, names: Sequence[str], sequence: int) -> Version:
        """Return the first version seen that covers a feed message, at the end of an epoch."""
        version = self.newest(names, "epoch")
        while version.sequence < sequence:
            self._process.wait_for("published_epoch", version.epoch + 1)
            version = self.newest(names, "epoch")
        return version


def await_end_of_java(directory: Path) -> None:
    """Return when no Java that was started for this directory runs any more (on Linux, which lists processes)."""
    mark = str(directory / "spark" / "log4j2.properties").encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = mark in (folder / "cmdline").read_bytes()
            descriptor = os.pidfd_open(int(folder.name)) if is_ours else -1
        except OSError:
            continue
        if descriptor >= 0:
            ended, _, _ = select.select([descriptor], [], [], DEADLINE_S)
            os.close(descriptor)
            assert ended, f"the Java process {folder.name} outlives its runtime"
