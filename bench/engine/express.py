"""The express lane from a socket to a subscriber, and the references in the same run.

One process sends a text feed over loopback, another is a runtime with the six finance queries in the express lane and
without Spark. The latency of a message in a view begins when the piece with the message is passed to the socket. It
ends when the first frame of the view that covers the message is received. Meanwhile epochs are committed to the disk.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from bench.engine.express_feed import flow
from bench.engine.express_process import VIEWS
from bench.engine.express_references import time_numpy, time_plain
from bench.processes import BenchProcess
from bench.report import Record, record
from bench.views.handwritten import Answer
from bench.views.hosted import WrongAnswerError

__all__ = ["Plan", "measure_express", "plan_of"]

_WARM: Final = 30_000
_LIVE: Final = 10_000
_EPOCH_MS: Final = 100
"""Default epoch of `deltabook runtime`, in milliseconds."""
_WORKERS: Final = 1
"""Number of workers that `deltabook runtime` uses for express views alone."""
_REFERENCE_MESSAGES: Final = 100_000
_BY_HAND: Final = ("axf", "bsv", "mst", "psp", "vwap")
"""Queries with a hand-written reference. BSP is missing, because its reference assumes that a row never changes."""


class Plan(msgspec.Struct, frozen=True):
    """Amounts of a run."""

    runs: int
    """Number of runs of each figure."""
    rate: float
    """Messages per second while latencies are measured."""
    seconds: float
    """Seconds for which latencies are measured."""
    messages: int
    """Number of messages for the throughput."""


def plan_of(quick: bool) -> Plan:
    """Return the full plan; with ``quick`` a plan that only shows that everything works."""
    return Plan(1, 10_000.0, 1.0, 100_000) if quick else Plan(3, 50_000.0, 5.0, 3_000_000)


class _Run(msgspec.Struct, frozen=True):
    """Result of one run through the socket."""

    latency_ms: np.ndarray[Any, Any]
    """Latency of every message in every view, in milliseconds."""
    messages_per_s: float
    """Messages per second, from the first piece sent until the last message was received."""
    step_messages: float
    """Mean number of messages of a step."""
    answers: dict[str, Answer]
    """Rows of each view at the end."""


def measure_express(quick: bool) -> list[Record]:
    """Measure ``express.p50_ms``, ``express.p99_ms``, ``express.messages_per_s`` and the references of the
    throughput.

    Raises `WrongAnswerError` if the lane, the hand-written programs and `PlainBook` disagree at the end of the flow;
    this is checked before anything is timed.
    """
    plan = plan_of(quick)
    paced = round(plan.rate * plan.seconds)
    _check(paced)
    slow = [_run(paced, plan.rate) for _ in range(plan.runs)]
    fast = [_run(plan.messages, 0.0) for _ in range(plan.runs)]
    table = flow(_WARM + _REFERENCE_MESSAGES, _LIVE)
    piece = max(1, round(fast[0].step_messages))
    plain = [time_plain(table, _WARM).messages_per_s for _ in range(plan.runs)]
    by_hand = [time_numpy(table, _WARM, piece, _BY_HAND).messages_per_s for _ in range(plan.runs)]
    rates = [run.messages_per_s for run in fast]
    where = f"{plan.rate:,.0f} messages/s, six views, epochs of {_EPOCH_MS} ms"
    return [
        record("express.p50_ms", [float(np.percentile(run.latency_ms, 50)) for run in slow], "ms", where),
        record("express.p99_ms", [float(np.percentile(run.latency_ms, 99)) for run in slow], "ms", where),
        record("express.messages_per_s", rates, "messages/s", "plain Python, VWAP and AXF", plain),
        record("express.plain_python.messages_per_s", plain, "messages/s"),
        record("express.numpy.messages_per_s", by_hand, "messages/s", "express", rates),
    ]


def _check(messages: int) -> None:
    table = flow(_WARM + messages, _LIVE)
    lane = _run(messages, 0.0).answers
    plain = time_plain(table, _WARM).answers
    by_hand = time_numpy(table, _WARM, 1000, _BY_HAND).answers
    for name, answers in (("plain Python", plain), ("numpy", by_hand)):
        for view, answer in answers.items():
            if sorted(answer, key=repr) != sorted(lane[view], key=repr):
                raise WrongAnswerError(f"expected {answer[:3]} of {name} for {view}, was {lane[view][:3]}")


def _run(messages: int, rate: float) -> _Run:
    with tempfile.TemporaryDirectory(prefix="bench-") as place:
        folder = Path(place)
        stamps, frames = folder / "stamps.npy", folder / "frames.npy"
        counts = {"warm": _WARM, "messages": messages}
        with BenchProcess(
            "bench.engine.express_feed", **counts, rate=rate, live=_LIVE, stamps=stamps
        ) as feed, BenchProcess(
            "bench.engine.express_process", **counts, port=feed.read_line()["port"], dir=folder / "run",
            epoch_ms=_EPOCH_MS, workers=_WORKERS, frames=frames,
        ) as lane:  # fmt: skip
            lane.read_line()  # the warm-up is processed
            feed.write_line()
            feed.read_line()  # all messages are sent
            feed.read_line()  # the timestamps are written
            result = lane.read_line()
            feed.write_line()
        return _result_of(np.load(stamps), np.load(frames), result)


def _result_of(stamps: np.ndarray[Any, Any], received: np.ndarray[Any, Any], result: dict[str, Any]) -> _Run:
    last = int(stamps[-1, 0])
    latencies = []
    for view in range(len(VIEWS)):
        frames = received[received[:, 0] == view]
        messages = np.arange(_WARM + 1, last + 1)
        covering = np.searchsorted(frames[:, 1], messages)
        known = covering < len(frames)  # the last messages may leave a view unchanged
        sent = stamps[np.searchsorted(stamps[:, 0], messages[known]), 1]
        latencies.append((frames[covering[known], 2] - sent) / 1e6)
    end = int(received[-1, 2])
    steps = len(np.unique(received[received[:, 1] > _WARM, 1]))
    answers = {view: [tuple(row[:-1]) for row in rows] for view, rows in result["answers"].items()}
    rate = (last - _WARM) / ((end - int(stamps[0, 1])) / 1e9)
    return _Run(np.concatenate(latencies), rate, (last - _WARM) / steps, answers)
