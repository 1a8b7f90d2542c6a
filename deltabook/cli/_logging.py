"""Logs: write `twisted.logger` events to standard error, one line each, as text or JSON."""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, Literal, cast

import msgspec
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, formatTime, globalLogBeginner

__all__ = ["LogFormat", "LogOrigin", "json_line", "log_warnings", "log_with", "start_logging", "text_line"]

LogFormat = Literal["text", "json"]
_LIBRARIES: Final = ("twisted.", "log_legacy")
"""Beginnings of the namespaces of other libraries' events."""
_MOST_FIELDS: Final = 32
"""Largest number of fields of a JSON line."""
_LONGEST_FIELD: Final = 1_000
"""Longest text of a field in characters; a longer one is cut."""
_LONGEST_MESSAGE: Final = 8_192
"""Longest message in characters; a longer one is cut, and its length is added."""


class LogOrigin(msgspec.Struct, frozen=True):
    """Origin of a process's log lines."""

    run: str = ""
    """Run id shared by all processes that were started together."""
    role: str = ""
    """Role: exchange, runtime, algo, dashboard, or the command's name."""
    host: str = ""
    """Name of the machine or container."""
    pid: int = 0
    """Process id."""
    is_named: bool = False
    """True if the run id was given; a generated one is omitted from lines of text."""


_NOWHERE: Final = LogOrigin()


def _failure_text(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return "" if failure is None else str(failure.getTraceback())


def _message(event: LogEvent) -> str:
    message = formatEvent(event)
    return message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}… ({len(message)} characters)"


def _is_ours(event: LogEvent) -> bool:
    return not str(event.get("log_namespace", "")).startswith(_LIBRARIES)


def text_line(event: LogEvent, origin: LogOrigin = _NOWHERE) -> str:
    """Return an event as ``time level [run id] namespace: message``; a failure's traceback follows on lines of its own.

    The run id appears only if one was given.

    >>> text_line({"log_time": 0.0, "log_format": "{n} listeners", "n": 3, "log_namespace": "feed"}).split(" ", 1)[1]
    'info feed: 3 listeners\\n'
    """
    level = event.get("log_level", LogLevel.info)
    run = f"[{origin.run}] " if origin.is_named else ""
    line = f"{formatTime(event.get('log_time'))} {level.name} {run}{event.get('log_namespace', '-')}: {_message(event)}"
    return line.replace("\n", "\n  ") + "\n" + _failure_text(event)


def json_line(event: LogEvent, origin: LogOrigin = _NOWHERE, figures: Mapping[str, int] | None = None) -> str:
    """Return an event as one JSON object.

    The object has ``time`` (seconds since the UTC epoch), ``level``, ``run``, ``role``, ``host``, ``pid``,
    ``namespace`` and ``message``; the process's own ``figures``, such as ``epoch``; ``fields``, the values in the
    message, so that a reader need not parse it; and ``traceback`` for failures. Unknown values are left out.

    >>> json_line({"log_time": 1.5, "log_format": "up", "log_namespace": "feed"}, LogOrigin("r7", "runtime"))
    '{"time":1.5,"level":"info","run":"r7","role":"runtime","namespace":"feed","message":"up"}\\n'
    """
    record: dict[str, object] = {
        "time": event.get("log_time"),
        "level": event.get("log_level", LogLevel.info).name,
        "run": origin.run,
        "role": origin.role,
        "host": origin.host,
        "pid": origin.pid,
        "namespace": event.get("log_namespace", "-"),
        "message": _message(event),
        **(figures or {}),
        "fields": _fields(event),
        "traceback": _failure_text(event),
    }
    known = {name: value for name, value in record.items() if name in {"time", "message", "epoch"} or value}
    return msgspec.json.encode(known).decode() + "\n"


def _fields(event: LogEvent) -> dict[str, object]:
    """Return the fields of an event that are texts or numbers, for searches; none for events of other libraries."""
    if not _is_ours(event):
        return {}
    named = ((name, value) for name, value in event.items() if not name.startswith("log_"))
    simple = (
        (name, value[:_LONGEST_FIELD] if isinstance(value, str) else value)
        for name, value in named
        if value is None or isinstance(value, str | int | float)
    )
    return dict(islice(simple, _MOST_FIELDS))


class _StandardError:
    """Writes events to the present `sys.stderr`, so that a test may replace it."""

    def __init__(self) -> None:
        self.form: LogFormat = "text"
        self.level: Any = LogLevel.info
        self.origin = _NOWHERE
        self.figures: Callable[[], Mapping[str, int]] = dict

    def _level_of(self, event: LogEvent) -> Any:
        # Twisted logs the start of each factory and every request at level info; these events are too detailed.
        return self.level if _is_ours(event) or self.level < LogLevel.info else LogLevel.warn

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_level", LogLevel.info) >= self._level_of(event):
            is_json = self.form == "json"
            sys.stderr.write(
                json_line(event, self.origin, self.figures()) if is_json else text_line(event, self.origin)
            )
            sys.stderr.flush()


@functools.cache
def _begin() -> _StandardError:
    # Twisted's logging can be started only once in a process; later calls only change the format of the lines.
    observer = _StandardError()
    globalLogBeginner.beginLoggingTo([cast(ILogObserver, observer)], redirectStandardIO=False)
    return observer


def start_logging(
    log_format: LogFormat = "text", *, debug: bool = False, run_id: str = "", role: str = "", is_named: bool = False
) -> None:
    """Send every `twisted.logger` event to standard error; with `debug` also debug events.

    The root command calls this before any sub-command runs. ``is_named``: the run id was given to the process.
    """
    observer = _begin()
    observer.form = log_format
    observer.level = LogLevel.debug if debug else LogLevel.info
    observer.origin = LogOrigin(run_id, role, socket.gethostname(), os.getpid(), is_named)
    observer.figures = dict


def log_warnings() -> None:
    """Log only warnings and errors, unless debug events are logged; for commands that run an exchange in their own
    process.
    """
    observer = _begin()
    if observer.level == LogLevel.info:
        observer.level = LogLevel.warn


def log_with(figures: Callable[[], Mapping[str, int]]) -> None:
    """Add these figures to every JSON line from now on; ``figures`` is called on the logging thread and must
    not block.
    """
    _begin().figures = figures
