"""Bytes to a socket at once, and not in the reactor's next turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["prompt_write"]

Write = Callable[[bytes], None]


def prompt_write(transport: Any) -> Write:
    """What writes to a transport as soon as may be.

    A write of Twisted's waits in a buffer until the reactor has asked the system, in its next turn, whether the socket
    takes anything: three calls of the system for each write, and everything else of this turn comes first. This asks
    the socket itself. What it does not take, and what comes while something is buffered, goes the transport's way; so
    does everything of transports that are no TCP connections.

    For short bursts only: a sender of much data must use the transport, which lets others have their turn.
    """

    def write(data: bytes) -> None:
        transport.write(data)

    handle = getattr(transport, "getHandle", None)
    if handle is None or not hasattr(transport, "_tempDataLen") or getattr(transport, "TLS", False):
        return write
    send = handle().send

    def write_now(data: bytes) -> None:
        # Twisted's two buffers; it has no public word for whether they are empty.
        if transport.dataBuffer or transport._tempDataLen or not transport.connected or transport.disconnecting:
            transport.write(data)
            return
        try:
            sent = send(data)
        except OSError:
            sent = 0  # full, or broken: the reactor finds out which
        if sent < len(data):
            transport.write(data[sent:])

    return write_now
