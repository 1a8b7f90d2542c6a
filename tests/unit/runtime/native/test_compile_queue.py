"""The queue has one compile process, replaces one that ends, and ends it."""

from __future__ import annotations

import os
import queue
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.native.compile_process import CompileReply, CompileRequest
from runtime.native.compile_queue import CompileQueue
from runtime.native.tiers import kernel_name

pytestmark = pytest.mark.process

LOOP = """
import json, os, sys
from pathlib import Path
from runtime.native.tiers import kernel_name
for line in sys.stdin:
    source = json.loads(line)["source"]
    Path("pids").open("a").write(f"{os.getpid()}\\n")
    %s
    print(json.dumps({"name": kernel_name(source), "outcome": "compiled"}), flush=True)
"""
WELL = LOOP % "pass"
DIES_OF_BAD = LOOP % "source == 'bad' and os._exit(7)"
DIES_ONCE = LOOP % "first = not os.path.exists('died'); first and (Path('died').touch(), sys.exit('first time'))"
HANGS = LOOP % "source == 'bad' and __import__('signal').pause()"
BABBLES = LOOP % "source == 'bad' and print('loading...', flush=True)"
READS_NOTHING = "__import__('signal').pause()"
CLOSES_ITS_OUTPUT = LOOP % "os.close(1); __import__('signal').pause()"

Start = Callable[..., CompileQueue]


@pytest.fixture
def replies() -> queue.Queue[CompileReply]:
    return queue.Queue()


@pytest.fixture
def start(tmp_path: Path, replies: queue.Queue[CompileReply]) -> Iterator[Start]:
    queues: list[CompileQueue] = []

    def started(text: str, *, capacity: int = 10, timeout_s: float = 60.0, linger_s: float = 60.0) -> CompileQueue:
        queues.append(
            CompileQueue(
                [],
                replies.put,
                cwd=tmp_path,
                capacity=capacity,
                command=[sys.executable, "-c", text],
                timeout_s=timeout_s,
                linger_s=linger_s,
            )
        )
        return queues[-1]

    yield started
    for each in queues:
        each.close()


def pids(folder: Path) -> list[str]:
    return (folder / "pids").read_text().split()


def test_one_process_compiles_all(start: Start, replies: queue.Queue[CompileReply], tmp_path: Path) -> None:
    compiling = start(WELL)
    for source in "abc":
        assert compiling.submit(CompileRequest(source))
    assert [replies.get(timeout=60) for _ in "abc"] == [CompileReply(kernel_name(each), "compiled") for each in "abc"]
    assert set(pids(tmp_path)) == {str(compiling.pid)}


def test_a_process_that_dies_twice_fails_its_source_alone(
    start: Start, replies: queue.Queue[CompileReply], tmp_path: Path
) -> None:
    compiling = start(DIES_OF_BAD)
    for source in ("bad", "good"):
        compiling.submit(CompileRequest(source))
    bad, good = replies.get(timeout=60), replies.get(timeout=60)
    assert (bad.outcome, good.outcome) == ("failed", "compiled")
    assert "was its end: 7" in bad.reason
    assert bad.is_lasting
    assert len(set(pids(tmp_path))) == 3


def test_a_process_that_dies_once_is_replaced(start: Start, replies: queue.Queue[CompileReply]) -> None:
    start(DIES_ONCE).submit(CompileRequest("a"))
    assert replies.get(timeout=60).outcome == "compiled"


@pytest.mark.parametrize(
    ("text", "timeout_s", "reason"), [(HANGS, 0.5, "in time, was none"), (BABBLES, 60.0, "was b'loading...'")]
)
def test_silence_and_noise_are_failures(
    start: Start, replies: queue.Queue[CompileReply], text: str, timeout_s: float, reason: str
) -> None:
    start(text, timeout_s=timeout_s).submit(CompileRequest("bad"))
    reply = replies.get(timeout=60)
    assert reply.outcome == "failed"
    assert reason in reply.reason


def test_a_process_that_reads_nothing_fails_in_time(start: Start, replies: queue.Queue[CompileReply]) -> None:
    """The source is larger than the pipe, so that writing it would block."""
    start(READS_NOTHING, timeout_s=0.2).submit(CompileRequest("x" * (1 << 20)))
    reply = replies.get(timeout=60)
    assert "to read a request of" in reply.reason


def test_a_process_that_closes_its_output_fails(start: Start, replies: queue.Queue[CompileReply]) -> None:
    start(CLOSES_ITS_OUTPUT, timeout_s=1.0).submit(CompileRequest("a"))
    assert "was a closed pipe" in replies.get(timeout=60).reason


def test_a_command_that_cannot_be_started_is_a_failure(replies: queue.Queue[CompileReply], tmp_path: Path) -> None:
    compiling = CompileQueue([], replies.put, cwd=tmp_path, capacity=1, command=["/no/such/program"])
    compiling.submit(CompileRequest("a"))
    reply = replies.get(timeout=60)
    assert "FileNotFoundError" in reply.reason
    assert not reply.is_lasting, "the source is not at fault: it is compiled later"
    compiling.close()


def test_a_full_queue_refuses(start: Start) -> None:
    compiling = start(HANGS, capacity=2)
    accepted = [compiling.submit(CompileRequest("bad")) for _ in range(10)]
    assert accepted.count(True) in {2, 3}
    assert not accepted[-1]


def test_closing_ends_the_process(start: Start, replies: queue.Queue[CompileReply]) -> None:
    compiling = start(HANGS)
    compiling.submit(CompileRequest("good"))
    replies.get(timeout=60)
    pid = compiling.pid
    assert pid is not None
    compiling.submit(CompileRequest("bad"))
    compiling.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert (compiling.pid, compiling.submit(CompileRequest("good")), replies.empty()) == (None, False, True)


def test_an_idle_process_is_ended_and_started_again(
    start: Start, replies: queue.Queue[CompileReply], tmp_path: Path
) -> None:
    compiling = start(WELL, linger_s=0.0)
    for _ in range(2):
        compiling.submit(CompileRequest("a"))
        replies.get(timeout=60)
        while compiling.pid is not None:
            os.sched_yield()
    assert len(set(pids(tmp_path))) == 2
