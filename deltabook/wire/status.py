"""Events that a long-running process writes to its standard output, each in a line: JSON, or text on a terminal.

A supervisor reads these lines to learn the ports, to show figures and to distinguish a clean end from a crash. Logs go
to standard error and are never mixed with these lines.
"""

from __future__ import annotations

from typing import IO

import msgspec

__all__ = ["Event", "Failed", "Ready", "Status", "Stopped", "event_text", "parse_event", "write_event"]


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """The process serves; its ports are open."""

    role: str
    """Role: exchange, runtime, algo, dashboard or cluster."""
    pid: int
    """Process id."""
    ports: dict[str, int]
    """Port by purpose, such as ``text`` or ``http``."""
    run: str = ""
    """Run id."""


class Status(msgspec.Struct, frozen=True, tag_field="event", tag="status"):
    """Present figures."""

    role: str
    """Role: exchange, runtime, algo, dashboard or cluster."""
    figures: dict[str, int | float | str | None]
    """Figures by flat name; units end the names."""
    run: str = ""
    """Run id."""


class Stopped(msgspec.Struct, frozen=True, tag_field="event", tag="stopped"):
    """The process ended cleanly; this is the last line."""

    role: str
    """Role: exchange, runtime, algo, dashboard or cluster."""
    reason: str
    """Reason: a signal, the end of input, or the end of the supervisor."""
    run: str = ""
    """Run id."""


class Failed(msgspec.Struct, frozen=True, tag_field="event", tag="failed"):
    """The process cannot continue; this is the last line, and the exit code is not 0."""

    role: str
    """Role: exchange, runtime, algo, dashboard or cluster."""
    reason: str
    """Reason in one line: the expected and the actual value, and where."""
    run: str = ""
    """Run id."""


Event = Ready | Status | Stopped | Failed

_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def parse_event(line: bytes) -> Event:
    """Return the event of one line; raise `ValueError` for an invalid line."""
    event: Event = _decoder.decode(line)
    return event


def event_text(event: Event) -> str:
    """Return an event as a line of text for a terminal.

    >>> event_text(Ready("exchange", 7, {"text": 4711, "admin": 4712}))
    'exchange: ready: admin port 4712, text port 4711 (pid 7); Ctrl-C stops it'
    >>> event_text(Status("runtime", {"epoch": 1200, "lag_ms": 2.5, "spark": None}))
    'runtime: epoch 1,200, lag_ms 2.5'
    """
    if isinstance(event, Ready):
        ports = ", ".join(f"{name} port {port}" for name, port in sorted(event.ports.items()))
        return f"{event.role}: ready: {ports or 'no port'} (pid {event.pid}); Ctrl-C stops it"
    if isinstance(event, Status):
        figures = (f"{name} {_figure(value)}" for name, value in event.figures.items() if value is not None)
        return f"{event.role}: {', '.join(figures)}"
    return f"{event.role}: {'stopped' if isinstance(event, Stopped) else 'failed'}: {event.reason}"


def _figure(value: float | str) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:,.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def write_event(stream: IO[bytes], event: Event) -> None:
    """Write one event as one line and flush it.

    A stream that cannot be written is not an error: its reader has ended, its terminal is closed, or its disk is full.
    The process continues, and stops as cleanly as with a reader.
    """
    try:
        line = event_text(event).encode() if stream.isatty() else _encoder.encode(event)
        stream.write(line + b"\n")
        stream.flush()
    except (OSError, ValueError):
        return
