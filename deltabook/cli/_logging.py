"""Logs: `twisted.logger` events to standard error, one line each, as text or JSON."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Final, Literal, cast

import msgspec
from twisted.logger import ILogObserver, LogEvent, LogLevel, formatEvent, formatTime, globalLogBeginner

__all__ = ["LogFormat", "json_line", "start_logging", "text_line"]

LogFormat = Literal["text", "json"]


def _failure_text(event: LogEvent) -> str:
    failure = event.get("log_failure")
    return "" if failure is None else str(failure.getTraceback())


def text_line(event: LogEvent) -> str:
    """An event as ``time level namespace: message``; a failure's traceback follows on lines of its own.

    >>> text_line({"log_time": 0.0, "log_format": "{n} listeners", "n": 3, "log_namespace": "feed"}).split(" ", 1)[1]
    'info feed: 3 listeners\\n'
    """
    level = event.get("log_level", LogLevel.info)
    line = f"{formatTime(event.get('log_time'))} {level.name} {event.get('log_namespace', '-')}: {formatEvent(event)}"
    return line.replace("\n", "\n  ") + "\n" + _failure_text(event)


def json_line(event: LogEvent) -> str:
    """An event as one JSON object: ``time``, ``level``, ``namespace``, ``message`` and, for failures, ``traceback``.

    >>> json_line({"log_time": 1.5, "log_format": "up", "log_namespace": "feed"})
    '{"time":1.5,"level":"info","namespace":"feed","message":"up"}\\n'
    """
    record: dict[str, object] = {
        "time": event.get("log_time"),
        "level": event.get("log_level", LogLevel.info).name,
        "namespace": event.get("log_namespace", "-"),
        "message": formatEvent(event),
    }
    if traceback := _failure_text(event):
        record["traceback"] = traceback
    return msgspec.json.encode(record).decode() + "\n"


_LINES: Final[dict[LogFormat, Callable[[LogEvent], str]]] = {"text": text_line, "json": json_line}


_LIBRARIES: Final = ("twisted.", "log_legacy")


class _StandardError:
    """Writes events to whatever `sys.stderr` is at that moment, so that a test may replace it."""

    def __init__(self) -> None:
        self.line: Callable[[LogEvent], str] = text_line
        self.level: Any = LogLevel.info

    def _level_of(self, namespace: str) -> Any:
        # Twisted says at level info when each of its factories starts, and every request: detail for us.
        is_ours = not namespace.startswith(_LIBRARIES)
        return self.level if is_ours or self.level < LogLevel.info else LogLevel.warn

    def __call__(self, event: LogEvent) -> None:
        if event.get("log_level", LogLevel.info) >= self._level_of(str(event.get("log_namespace", ""))):
            sys.stderr.write(self.line(event))
            sys.stderr.flush()


@functools.cache
def _begin() -> _StandardError:
    # Twisted's logging can be begun once in a process; later calls only change format and level.
    observer = _StandardError()
    globalLogBeginner.beginLoggingTo([cast(ILogObserver, observer)], redirectStandardIO=False)
    return observer


def start_logging(log_format: LogFormat = "text", *, debug: bool = False) -> None:
    """Send every `twisted.logger` event to standard error; `debug` lets debug events through as well.

    The root command calls this before any sub-command runs.
    """
    observer = _begin()
    observer.line = _LINES[log_format]
    observer.level = LogLevel.debug if debug else LogLevel.info
