"""Network between two processes of this machine, which a test cuts and heals."""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final

__all__ = ["Wire"]

_CHUNK_BYTES: Final = 65_536
_MOST_CONNECTIONS: Final = 64
_LOOK_S: Final = 0.02


class Wire:
    """Relays between its port and another port of this machine, in one thread for all connections.

    `freeze` acts like a pulled cable: nothing arrives, without notification; bytes sent meanwhile arrive when it is
    healed. `cut` acts like a firewall that resets: connections end, and new ones are refused until it is healed.
    """

    def __init__(self, target_port: int) -> None:
        self._target = target_port
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        """Port to connect to."""
        self._peers: dict[socket.socket, socket.socket] = {}
        self._is_frozen = self._is_cut = self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def __enter__(self) -> Wire:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def freeze(self) -> None:
        """Stop the delivery of bytes."""
        with self._lock:
            self._is_frozen = True

    def cut(self) -> None:
        """End every connection; new ones end at once."""
        with self._lock:
            self._is_cut = True
            self._end_all()

    def heal(self) -> None:
        """Restore normal operation."""
        with self._lock:
            self._is_frozen = self._is_cut = False

    def close(self) -> None:
        """Close the relay for good."""
        self._is_over = True
        self._thread.join(20)
        with self._lock:
            self._end_all()
        self._listener.close()

    def _run(self) -> None:
        while not self._is_over:
            with self._lock:
                watched = [self._listener] if self._is_frozen else [self._listener, *self._peers]
                with selectors.DefaultSelector() as selector:
                    for each in watched:
                        selector.register(each, selectors.EVENT_READ, each)
                    ready: list[socket.socket] = [key.data for key, _ in selector.select(0)]
                for each in ready:
                    self._serve(each)
            if not ready:
                threading.Event().wait(_LOOK_S)

    def _serve(self, ready: socket.socket) -> None:
        if ready is self._listener:
            self._accept()
        elif ready in self._peers:  # otherwise its other end has just closed both
            self._hand_on(ready)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        if self._is_cut or len(self._peers) >= 2 * _MOST_CONNECTIONS:
            near.close()
            return
        try:
            far = socket.create_connection(("127.0.0.1", self._target), timeout=20)
        except OSError:
            near.close()
            return
        self._peers |= {near: far, far: near}

    def _hand_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(_CHUNK_BYTES)
            if data:
                self._peers[source].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._end(source)

    def _end(self, one: socket.socket) -> None:
        other = self._peers.pop(one)
        del self._peers[other]
        for each in (one, other):
            with suppress(OSError):
                each.close()

    def _end_all(self) -> None:
        while self._peers:
            self._end(next(iter(self._peers)))
