"""Writes to a socket that do not wait for the reactor's next turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["prompt_write"]

Write = Callable[[bytes], None]


def prompt_write(transport: Any) -> Write:
    """Return a function that writes to a transport as early as possible.

    Twisted buffers a write until the reactor, in its next turn, has asked the system whether the socket is writable.
    This takes three system calls for each write, and all other work of the present turn is done before the write. The
    returned function writes to the socket directly. Three kinds of data still go through the transport: data that the
    socket does not accept, data that is written while the transport has buffered data, and all data of a transport that
    is not a TCP connection.

    Use the function for short bursts only: a sender of much data must use the transport, which gives other connections
    their turns.
    """

    def write(data: bytes) -> None:
        transport.write(data)

    handle = getattr(transport, "getHandle", None)
    if handle is None or not hasattr(transport, "_tempDataLen") or getattr(transport, "TLS", False):
        return write
    send = handle().send

    def write_now(data: bytes) -> None:
        # Twisted has two buffers, and no public way to test whether they are empty.
        if transport.dataBuffer or transport._tempDataLen or not transport.connected or transport.disconnecting:
            transport.write(data)
            return
        try:
            sent = send(data)
        except OSError:
            sent = 0  # the socket is full or broken: the transport handles both
        if sent < len(data):
            transport.write(data[sent:])

    return write_now
