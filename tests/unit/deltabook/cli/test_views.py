"""The screen of `query watch`: rows as they are now, what is new, and what is left out."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from deltabook.cli._views import WatchScreen, shown
from deltabook.wire.results import Frame, FrameHeader, encode_frame
from tests.unit.deltabook.cli.test_query_catalogue import Service, service

__all__ = ["service"]  # a fixture

COLUMNS = [{"name": "s", "type": "string"}, {"name": "a", "type": "int64"}]
NOW_NS = 1_000_000_000


class Clock:
    """Seconds as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def view(name: str) -> dict[str, Any]:
    return {"name": name, "class": "linear", "lane": "express", "columns": COLUMNS}


def frame(kind: Any, name: str, *rows: tuple[str | None, int, int], step: int = 1, reason: str = "") -> Frame:
    header = FrameHeader(kind, name, 4, 5, time_ns=NOW_NS - 2_000_000, step=step, reason=reason)
    names, numbers, weights = (list(each) for each in zip(*rows, strict=True)) if rows else ([], [], [])
    return Frame(header, pa.table({"s": pa.array(names, pa.string()), "a": numbers, "weight": weights}))


def screen(*names: str) -> tuple[WatchScreen, Clock]:
    clock = Clock()
    return WatchScreen([view(name) for name in names], clock, lambda: NOW_NS), clock


def lines(of: WatchScreen, height: int = 24) -> list[str]:
    console = Console(file=io.StringIO(), width=100, height=height, force_terminal=True, color_system=None)
    console.print(of)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_before_its_rows_a_view_says_that_it_waits() -> None:
    assert lines(screen("v")[0])[0] == "v  linear, lane express  waiting for its rows"


def test_rows_are_sorted_null_first_and_new_rows_are_marked() -> None:
    watching, clock = screen("v")
    watching.enter(frame("snapshot", "v", ("b", 2, 1), ("a", 30, 1)))
    title, head, _, first, second, *_ = lines(watching)
    assert title == "v  epoch 5 step 1  2 rows  2 ms ago  0.0 changes/s  snapshot  linear, lane express"
    assert (head.split(), first.split(), second.split()) == (["s", "a"], ["a", "30"], ["b", "2"])
    watching.enter(frame("changes", "v", ("b", 2, -1), (None, 7, 1), step=2))
    title, _, _, first, second, *_ = lines(watching)
    assert "step 2  2 rows  2 ms ago  0.2 changes/s  +1 −1" in title
    assert (first.split(), second.split()) == (["+", "NULL", "7"], ["a", "30"])
    clock.now_s = 1.5
    assert lines(watching)[3].split() == ["NULL", "7"]


def test_what_does_not_fit_is_counted() -> None:
    watching, _ = screen("v", "w")
    for name in "vw":
        watching.enter(frame("snapshot", name, *(("x", number, 1) for number in range(50))))
    said = lines(watching, height=24)
    assert len(said) <= 24
    assert said.count("… and 44 more") == 2


def test_a_view_that_ends_says_why_and_the_other_goes_on() -> None:
    watching, _ = screen("v", "w")
    watching.enter(frame("snapshot", "v", ("a", 1, 1)))
    watching.enter(Frame(FrameHeader("error", "v", reason="dropped at epoch 9"), None))
    watching.enter(frame("snapshot", "w", ("b", 2, 1)))
    said = lines(watching)
    assert said[0].endswith("dropped at epoch 9")
    assert any(line.split() == ["b", "2"] for line in said)


def test_silence_is_said() -> None:
    watching, clock = screen("v")
    watching.enter(frame("snapshot", "v", ("a", 1, 1)))
    clock.now_s = 12.0
    assert lines(watching)[-1] == "no message for 12 s: the rows may be stale"
    watching.enter(Frame(FrameHeader("heartbeat", ""), None))
    assert "no message for" not in lines(watching)[-1]


@pytest.mark.parametrize(
    ("value", "scale", "text"),
    [(None, 2, "NULL"), (5, 0, "5"), (-5, 2, "-0.05"), (2**120 + 1, 3, f"{2**120 // 1000}.577"), ("x", 2, "x")],
)
def test_values_are_exact(value: Any, scale: int, text: str) -> None:
    assert shown(value, scale) == text


def test_on_a_terminal_it_is_a_screen(service: Service) -> None:
    about = {**view("v"), "rows": 1, "epoch": 5, "failed": None}
    service.pages["/v1/views"] = json.dumps([about])
    told = frame("snapshot", "v", ("a", 1, 1))
    service.pages["/v1/changes?views=v"] = encode_frame(told.header, told.rows)
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    command = [sys.executable, "-m", "deltabook", "query", "watch", "v", "--versions", "1"]
    environ = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        [*command, "--results", service.address], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    ) as watcher:
        os.close(theirs)
        said = b""
        while select.select([ours], [], [], 60)[0]:
            try:
                data = os.read(ours, 4096)
            except OSError:  # its end of a terminal that is gone
                break
            if not data:
                break
            said += data
    os.close(ours)
    assert watcher.returncode == 0, said.decode()
    assert "lane express" in said.decode()
    assert "epoch 5 step 1" in said.decode()
