"""The demo over the real processes: it works, and nothing outlives it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
LAST_LINE = re.compile(
    r"demo: ok: [1-9]\d* messages, [1-9]\d* epochs, [1-9]\d* view updates, [1-9]\d* orders sent, [1-9]\d* filled"
)


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "deltabook", "demo", "--dir", str(folder), *options]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def lines(demo: subprocess.Popen[str]) -> Iterator[str]:
    assert demo.stdout is not None
    return (line.rstrip("\n") for line in demo.stdout)


def process_ids(said: list[str]) -> list[int]:
    return [int(found[1]) for line in said if (found := re.search(r"is up \(pid (\d+)", line))]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("feed", ["text", "itch"])
def test_the_demo_works(tmp_path: Path, feed: str) -> None:
    with start(tmp_path / "run", "--seconds", "8", "--feed-protocol", feed) as demo:
        said = list(lines(demo))
    assert LAST_LINE.fullmatch(said[-1]), "\n".join(said)
    assert demo.returncode == 0
    pids = process_ids(said)
    assert len(pids) == 4
    assert not any(is_alive(pid) for pid in pids)


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [
        (signal.SIGINT, 130, "demo: interrupted: "),
        (signal.SIGTERM, 143, "demo: interrupted: "),
    ],
)
def test_a_signal_ends_it_and_its_processes(tmp_path: Path, number: signal.Signals, code: int, last: str) -> None:
    said: list[str] = []
    with start(tmp_path / "run", "--seconds", "300") as demo:
        for line in lines(demo):
            said.append(line)
            if line.startswith("demo: first view update"):
                demo.send_signal(number)
    assert said[-1].startswith(last), "\n".join(said)
    assert demo.returncode == code
    assert not any(is_alive(pid) for pid in process_ids(said))


def test_its_processes_end_when_it_is_killed(tmp_path: Path) -> None:
    said: list[str] = []
    with start(tmp_path / "run", "--seconds", "300") as demo:
        for line in lines(demo):
            said.append(line)
            if line.startswith("demo: first view update"):
                demo.kill()
    assert len(process_ids(said)) == 4
    for pid in process_ids(said):
        wait_for_end(pid)


def wait_for_end(pid: int) -> None:
    """Return when a process that is not our child has ended."""
    try:
        ended = _ends_within(pid, 60)
    except ProcessLookupError:
        return
    assert ended, f"process {pid} outlives the demo"


if sys.platform == "linux":

    def _ends_within(pid: int, seconds: float) -> bool:
        descriptor = os.pidfd_open(pid)
        try:
            return bool(select.select([descriptor], [], [], seconds)[0])
        finally:
            os.close(descriptor)

else:

    def _ends_within(pid: int, seconds: float) -> bool:
        event = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
        with closing(select.kqueue()) as queue:
            return bool(queue.control([event], 1, seconds))
