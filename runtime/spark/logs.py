"""How Spark's processes log: lines of text, or JSON like our own, to a file of bounded size or to standard error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

__all__ = ["SparkLogLevel", "log4j_properties"]

SparkLogLevel = Literal["error", "warn", "info", "debug"]

_FILE_MEGABYTES: Final = 16
_OLD_FILES: Final = 2
_TEXT: Final = """\
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%n%ex
"""
_FILE: Final = """\
appender.out.type = RollingFile
appender.out.name = out
appender.out.fileName = {path}
appender.out.filePattern = {path}.%i
appender.out.policies.type = Policies
appender.out.policies.size.type = SizeBasedTriggeringPolicy
appender.out.policies.size.size = {megabytes}MB
appender.out.strategy.type = DefaultRolloverStrategy
appender.out.strategy.max = {old}
"""
_STANDARD_ERROR: Final = """\
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
"""


def _json_layout(run_id: str, role: str) -> str:
    """Log4j's own template, with the names that our lines have."""
    template = {
        "time": {"$resolver": "timestamp", "epoch": {"unit": "secs"}},
        "level": {"$resolver": "pattern", "pattern": "%p{lowerCase=true}"},
        "run": run_id,
        "role": role,
        "host": "${hostName}",
        "pid": {"$resolver": "pattern", "pattern": "%pid"},
        "namespace": {"$resolver": "logger", "field": "name"},
        "message": {"$resolver": "message", "stringified": True},
        "traceback": {"$resolver": "exception", "field": "stackTrace", "stackTrace": {"stringified": True}},
    }
    return (
        "appender.out.layout.type = JsonTemplateLayout\n"
        f"appender.out.layout.eventTemplate = {json.dumps(template, separators=(',', ':'))}\n"
        "appender.out.layout.maxStringLength = 8192\n"
    )


def log4j_properties(
    path: Path | None, *, json_lines: bool = False, run_id: str = "", role: str = "spark", level: SparkLogLevel = "warn"
) -> str:
    """What goes into a file that ``-Dlog4j2.configurationFile`` names.

    ``path``: the file that is written, and begun anew when it is full, with the two before kept; None: standard error.
    """
    out = _STANDARD_ERROR if path is None else _FILE.format(path=path, megabytes=_FILE_MEGABYTES, old=_OLD_FILES)
    layout = _json_layout(run_id, role) if json_lines else _TEXT
    return f"rootLogger.level = {level}\nrootLogger.appenderRef.out.ref = out\n{out}{layout}"
