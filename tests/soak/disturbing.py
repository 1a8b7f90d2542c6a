"""Disturbances of a runtime from outside: a feed whose connections are cut, and a subscriber that comes and goes.

`Archive` keeps the files that the runtime's retention removes, so that an audit can read every version.
"""

from __future__ import annotations

import os
import socket
import threading
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from deltabook.wire.results import FrameDecoder
from tests.harness.moments import added_rows

__all__ = ["Archive", "FeedRelay", "SeenView", "Subscriber"]

_PIECE_BYTES: Final = 1 << 16
_DEADLINE_S: Final = 300.0
_LOOK_S: Final = 0.2
Rows = Counter[tuple[Any, ...]]


class FeedRelay:
    """TCP relay on loopback between a runtime and an exchange, whose connections can be cut at once."""

    def __init__(self, port: int) -> None:
        """Relay to ``port`` on this machine."""
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.connections = 0
        """Number of connections accepted so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Port that the relay listens at."""
        return int(self._server.getsockname()[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """End every open connection at both ends."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            try:
                upstream = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._relay, args=(client, upstream), daemon=True).start()

    def _relay(self, client: socket.socket, upstream: socket.socket) -> None:
        both = {client, upstream}
        with self._lock:
            self._open |= both
        back = threading.Thread(target=_copy, args=(client, upstream), daemon=True)
        back.start()
        _copy(upstream, client)
        back.join()
        with self._lock:
            self._open -= both
        client.close()
        upstream.close()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    """Copy until either end is closed; then close both, which ends the copy in the other direction."""
    with suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            sink.sendall(piece)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class SeenView:
    """View as a subscriber saw it."""

    epoch: int
    """Latest epoch that the view contains as a whole."""
    sequence: int
    """Latest message of the feed that the view contains: after that epoch's last one between two epochs."""
    rows: Rows
    """Rows with their multiplicities."""


class Subscriber:
    """Follows views over one change stream in a thread, from their snapshots until it leaves.

    A view that is dropped meanwhile ends with the stream's last frame of it. The runtime may end first.
    """

    def __init__(self, port: int, views: Iterable[str]) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=_DEADLINE_S)
        self._connection.request("GET", f"/v1/changes?views={','.join(views)}")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200, self._answer.read()
        assert self._connection.sock is not None
        self._socket = self._connection.sock
        self._views: dict[str, SeenView] = {}
        self._wrong: list[Exception] = []
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def leave(self) -> dict[str, SeenView]:
        """Disconnect; return each view as it was last seen. Raise the error of a wrong frame."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()
        if self._wrong:
            raise self._wrong[0]
        return self._views

    def _follow(self) -> None:
        decoder = FrameDecoder()
        try:
            while piece := self._answer.read1(_PIECE_BYTES):
                for frame in decoder.feed(piece):
                    head, table = frame.header, frame.rows
                    if head.kind == "error":
                        self._views.pop(head.view, None)  # the view was dropped
                    if table is None:
                        continue
                    before = Counter() if head.kind == "snapshot" else self._views[head.view].rows
                    sequence = head.feed.get("feed", ("", 0))[1]
                    self._views[head.view] = SeenView(head.to_epoch, sequence, added_rows(before, table))
        except (OSError, HTTPException):
            return  # the subscriber left, or the runtime has ended
        except Exception as error:  # noqa: BLE001 - `leave` raises it
            self._wrong.append(error)


class Archive:
    """Hard links to every published epoch and result, made on a thread of its own before retention removes the files.

    Retention keeps seconds of both, and the thread looks several times a second; a file that it misses is a hole, which
    the audit finds.
    """

    def __init__(self, source: Path, directory: Path) -> None:
        """Link from the run directory ``source`` to ``directory``."""
        self._source, self.directory = source, directory
        self._linked: set[str] = set()
        self._stop = threading.Event()
        for name in ("epochs", "results"):
            (directory / name).mkdir(parents=True)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.link()

    def link(self) -> None:
        """Link the new files."""
        for folder, suffix in (("epochs", ".segment"), ("results", ".result")):
            with suppress(FileNotFoundError):
                for entry in os.scandir(self._source / folder):
                    name = entry.name
                    if name[0].isdigit() and name.endswith(suffix) and name not in self._linked:
                        with suppress(FileNotFoundError):
                            os.link(entry.path, self.directory / folder / name)
                            self._linked.add(name)

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_S):
            self.link()
