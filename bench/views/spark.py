"""Views through Spark: logs, a process that follows a log, and the cost of following it in time and memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from bench.views.cases import Case, program_of
from bench.views.handwritten import HANDWRITTEN, Answer
from bench.views.hosted import WrongAnswerError, columns_of
from bench.views.lane_process import Command, Follow, Reply
from bench.views.market import Market, Sealer
from runtime.compiler import encode_program

__all__ = ["Followed", "LaneProcess", "Log", "Memory", "seal_log"]

SEGMENTS: Final = 2
"""Number of segments of a batch."""
_SAMPLE_SECONDS: Final = 0.5


class Log(msgspec.Struct, frozen=True):
    """A sealed log: the warm-up, then batches of several sizes."""

    directory: Path
    """Directory with ``epochs``."""
    relations: tuple[str, ...]
    """Relations that have deltas in the log."""
    batches: tuple[int, ...]
    """Number of events of each batch, the warm-up first; a batch is `SEGMENTS` epochs."""
    answers: dict[str, Answer]
    """Answers of the hand-written programs at the end; wrong for programs that read other relations too."""


def seal_log(directory: Path, relations: Sequence[str], live_orders: int, batches: Iterable[int]) -> Log:
    """Make a log without a program; `LaneProcess.follow` links it to logs with programs."""
    market, sealer = Market(live_orders), Sealer(directory / "epochs", b"")
    by_hand = {name: make() for name, make in HANDWRITTEN.items()}
    sizes = [live_orders * len(relations)]
    tables = market.first(relations)
    sealer.seal(tables, SEGMENTS)
    answers = {name: program.apply(columns_of(tables)) for name, program in by_hand.items()}
    for size in batches:
        tables = market.batch(size, relations)
        sealer.seal(tables, SEGMENTS)
        answers = {name: program.apply(columns_of(tables)) for name, program in by_hand.items()}
        sizes.append(size)
    return Log(directory, tuple(relations), tuple(sizes), {n: sorted(a, key=repr) for n, a in answers.items()})


class Followed(msgspec.Struct, frozen=True):
    """Cost of following a log."""

    seconds: dict[int, tuple[float, ...]]
    """Seconds of each batch by size, from the publication of the previous batch; the first batch of each size warms up
    and is left out.
    """
    memory: Memory
    """Memory of the lane's processes in this time."""

    def rates(self, size: int) -> tuple[float, ...]:
        """Return the events per second at this size of batch."""
        return tuple(size / seconds for seconds in self.seconds[size])


class Memory(msgspec.Struct, frozen=True):
    """Resident memory of a process and all its descendants, sampled; shared pages count for each process."""

    seconds: tuple[float, ...]
    """Times of the samples in seconds."""
    bytes: tuple[int, ...]
    """Resident bytes at the times ``seconds``."""

    def peak(self) -> int:
        """Return the largest sample in bytes."""
        return max(self.bytes, default=0)


class _Watch:
    """Sampler of the memory of a tree of processes, on a thread of its own."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._samples: list[tuple[float, int]] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(_SAMPLE_SECONDS):
            self._samples.append((time.perf_counter(), resident_bytes(self._pid)))

    def finish(self) -> Memory:
        """Stop, and return the samples."""
        self._stop.set()
        self._thread.join()
        times, sizes = zip(*self._samples, strict=True) if self._samples else ((), ())
        return Memory(times, sizes)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process and its descendants in bytes."""
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,rss="], capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listed.splitlines()]
    family = {pid}
    while found := {child for child, parent, _ in rows if parent in family} - family:
        family |= found
    return sum(kilobytes for member, _, kilobytes in rows if member in family) * 1024


class LaneProcess:
    """A Spark session in a process of its own, under a directory that is removed at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._number = 0

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True)
        command = [sys.executable, "-m", "bench.views.lane_process", str(self._directory / "spark")]
        self._errors = (self._directory / "errors.log").open("wb")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, cwd=Path.cwd()
        )
        self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._errors.close()
        shutil.rmtree(self._directory, ignore_errors=True)  # Spark's Java may still be removing files there

    def folder(self) -> Path:
        """Return the path of a new folder, which is removed when the process ends."""
        self._number += 1
        return self._directory / f"run{self._number}"

    def ask(self, command: Command) -> Reply:
        """Execute a command; raise `RuntimeError` with the end of the log if the process ends instead."""
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(command) + b"\n")
        self._process.stdin.flush()
        return self._read()

    def follow(self, log: Log, cases: Sequence[Case], batches: int = -1) -> Followed:
        """Maintain these views over the log, or only over the warm-up and the first ``batches`` batches, and time each
        batch.

        Raises `WrongAnswerError` if the answers at the end of the whole log differ from those of the hand-written
        programs.
        """
        sizes = log.batches if batches < 0 else log.batches[: batches + 1]
        folder = self.folder()
        last = len(sizes) * SEGMENTS
        _link(log.directory / "epochs", folder / "epochs", encode_program(program_of(*cases)), last)
        watch = _Watch(self._process.pid)
        try:
            reply = self.ask(Follow(str(folder), last, SEGMENTS))
        finally:
            memory = watch.finish()
        shutil.rmtree(folder)
        if len(sizes) == len(log.batches):
            _compare(reply.answers, {case.name: log.answers[case.name] for case in cases if case.name in log.answers})
        return Followed(_seconds_by_size(sizes, reply), memory)

    def _read(self) -> Reply:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(60)
            tail = (self._directory / "errors.log").read_text("utf-8", "replace").strip().splitlines()[-1:]
            raise RuntimeError(f"expected an answer of the process with Spark, was its end: {tail}")
        return msgspec.json.decode(line, type=Reply)


def _link(source: Path, target: Path, program: bytes, last: int) -> None:
    """Make a log with another program; the segments of the log are hard links to the files of ``source``."""
    Sealer(target, program)
    for path in sorted(source.glob("*.segment"))[1 : last + 1]:
        os.link(path, target / path.name)


def _compare(found: Mapping[str, Any], expected: Mapping[str, Answer]) -> None:
    for name, answer in expected.items():
        rows = [tuple(row) for row in found.get(name, [])]
        if rows != answer:
            raise WrongAnswerError(f"expected {answer[:3]} for {name} through Spark, was {rows[:3]}")


def _seconds_by_size(sizes: Sequence[int], reply: Reply) -> dict[int, tuple[float, ...]]:
    spans = [(span.from_epoch, span.to_epoch) for span in reply.spans]
    if spans != [(n * SEGMENTS, (n + 1) * SEGMENTS) for n in range(len(sizes))]:
        raise RuntimeError(f"expected {len(sizes)} batches of {SEGMENTS} epochs, was {spans[:5]}…")
    found: dict[int, list[float]] = {}
    for place in range(1, len(sizes)):
        found.setdefault(sizes[place], []).append(reply.spans[place].seconds - reply.spans[place - 1].seconds)
    return {size: tuple(seconds[1:]) for size, seconds in found.items()}
