"""What a long-running process says on its standard output: one JSON object a line.

A supervisor reads these lines to learn the ports, to show figures and to know a clean end from a crash. Logs go to
standard error and never mix with them.
"""

from __future__ import annotations

from typing import IO

import msgspec

__all__ = ["Event", "Failed", "Ready", "Status", "Stopped", "parse_event", "write_event"]


class Ready(msgspec.Struct, frozen=True, tag_field="event", tag="ready"):
    """The process serves; its ports are open."""

    role: str
    """exchange, runtime, algo or dashboard."""
    pid: int
    """Process id."""
    ports: dict[str, int]
    """Port by purpose, such as ``text`` or ``http``."""
    run: str = ""
    """The run id."""


class Status(msgspec.Struct, frozen=True, tag_field="event", tag="status"):
    """Figures of the moment."""

    role: str
    """exchange, runtime, algo or dashboard."""
    figures: dict[str, int | float | str | None]
    """Flat name → figure; units end the names."""
    run: str = ""
    """The run id."""


class Stopped(msgspec.Struct, frozen=True, tag_field="event", tag="stopped"):
    """The process ended cleanly; the last line."""

    role: str
    """exchange, runtime, algo or dashboard."""
    reason: str
    """Why: signal, end of input, supervisor gone."""
    run: str = ""
    """The run id."""


class Failed(msgspec.Struct, frozen=True, tag_field="event", tag="failed"):
    """The process cannot go on; the last line, exit code not 0."""

    role: str
    """exchange, runtime, algo or dashboard."""
    reason: str
    """One line: expected what, was what, where."""
    run: str = ""
    """The run id."""


Event = Ready | Status | Stopped | Failed

_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()


def parse_event(line: bytes) -> Event:
    """The event of one line; raises `msgspec.DecodeError` for anything else."""
    event: Event = _decoder.decode(line)
    return event


def write_event(stream: IO[bytes], event: Event) -> None:
    """Write one event as one line and flush it; a reader that has gone is not an error of the writer."""
    try:
        stream.write(_encoder.encode(event) + b"\n")
        stream.flush()
    except (BrokenPipeError, ValueError):
        return
