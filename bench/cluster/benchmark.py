"""``make bench-cluster``: measure every point once and write it to its own file, so that an interrupted run resumes
where it stopped.

A measured point is reused while plan and code are the same; BENCH_FRESH=1 measures all of them again. A run with all
points puts its tables into docs/scaling.md and draws the plot of the page; a quick run changes no page.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench.cluster import document
from bench.cluster.calibration import calibrate, errors
from bench.cluster.drawing import draw
from bench.cluster.parts import measure_parts
from bench.cluster.plan import FULL, ONE_SHARD, QUICK, Plan, Point
from bench.cluster.point import Measured, measure
from bench.cluster.recording import Recording, recorded
from bench.cluster.scenarios import BIG, answer
from bench.report import Record, machine, record

__all__ = ["run"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_KEPT: Final = _ROOT / "bench" / "out" / "cluster"
_CACHE: Final = _ROOT / ".cache" / "bench-cluster"
_PAGE: Final = _ROOT / "docs" / "scaling.md"
_PICTURE: Final = _ROOT / "docs" / "scaling.png"
_CODE: Final = ("algo_engine", "bench/cluster", "deltabook", "exchange_server", "runtime", "queries")
_TRIES: Final = 2
_PARTS_MESSAGES: Final = 400_000


class _Kept(msgspec.Struct, frozen=True):
    """Content of the file of a measured point."""

    fingerprint: str
    """Fingerprint of the plan and the code."""
    measured: Measured


def run(quick: bool) -> list[Record]:
    """Measure all points and return their figures. Points that failed, or for which no time was left, are reported and
    left out.
    """
    if sys.platform != "linux":
        raise RuntimeError(f"expected Linux, whose /proc has the processor times, was {sys.platform}")
    plan, begun = QUICK if quick else FULL, time.monotonic()

    def report(text: str) -> None:
        sys.stdout.write(f"bench: cluster: {time.monotonic() - begun:4.0f} s: {text}\n")
        sys.stdout.flush()

    report("the flow is recorded")
    recording = recorded(_CACHE, plan.symbols, plan.live_orders, plan.requests)
    if recording.messages[0] < plan.messages:
        raise RuntimeError(f"expected a recording of {plan.messages} messages, was {recording.messages[0]}")
    parts = measure_parts(recording.whole, min(_PARTS_MESSAGES, plan.messages))
    points = _points(plan, recording, begun, report)
    costs = calibrate(points, plan.symbols)
    found = document.Findings(points, parts, costs, errors(points, plan.symbols, plan.burst), plan)
    document.show(found)
    if not quick and len(points) == len(plan.points):
        document.write(_PAGE, found, machine())
        draw(found, _PICTURE)
        report(f"{_PAGE.relative_to(_ROOT)} and {_PICTURE.relative_to(_ROOT)} are written")
    return list(_figures(found))


def _points(plan: Plan, recording: Recording, begun: float, report: document.Progress) -> list[Measured]:
    """Return the points of earlier runs, and newly measured points while there is time; raise `RuntimeError` if no
    point has workers."""
    _KEPT.mkdir(parents=True, exist_ok=True)
    mark, fresh = _fingerprint(plan), os.environ.get("BENCH_FRESH", "") not in {"", "0"}
    points: list[Measured] = []
    for point in plan.points:
        path = _KEPT / f"{point.name}.json"
        kept = None if fresh else _kept(path, mark)
        if kept is None and time.monotonic() - begun > plan.budget_s:
            report(f"no time is left for {point.name}: run the benchmark again to measure it")
            continue
        if kept is None:
            kept = _measured(point, plan, recording, report)
            if kept is None:
                continue
            path.write_bytes(msgspec.json.format(msgspec.json.encode(_Kept(mark, kept)), indent=2) + b"\n")
        else:
            report(f"{point.name}: measured by an earlier run, see {path.relative_to(_ROOT)}")
        points.append(kept)
    if not any(point.point.workers for point in points):
        raise RuntimeError(f"expected at least one point with workers, was {[p.point.name for p in points]}")
    return points


def _measured(point: Point, plan: Plan, recording: Recording, report: document.Progress) -> Measured | None:
    """Measure a point, a second time if it fails. Return None if it fails again, because the other points are still
    useful.
    """
    for _ in range(_TRIES):
        folder = Path(tempfile.mkdtemp(prefix="bench-cluster-"))
        try:
            return measure(point, plan, recording, folder / "point", lambda text: report(f"{point.name}: {text}"))
        except (RuntimeError, OSError) as error:
            logs = _KEPT / f"{point.name}.failed"
            shutil.rmtree(logs, ignore_errors=True)
            logs.mkdir()
            for path in folder.rglob("*.log"):
                shutil.copy(path, logs / "-".join(path.relative_to(folder).parts))
            report(f"{point.name}: failed, see {logs.relative_to(_ROOT)}: {' '.join(str(error).split())[:600]}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return None


def _kept(path: Path, mark: str) -> Measured | None:
    try:
        kept = msgspec.json.decode(path.read_bytes(), type=_Kept)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return kept.measured if kept.fingerprint == mark else None


def _fingerprint(plan: Plan) -> str:
    """Return the hash of all that a point depends on: the plan without its list of points, and all code that runs."""
    digest = hashlib.sha256(msgspec.json.encode(msgspec.structs.replace(plan, points=())))
    for folder in _CODE:
        for path in sorted((_ROOT / folder).rglob("*")):
            if path.suffix in {".py", ".sql"}:
                digest.update(path.relative_to(_ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _figures(found: document.Findings) -> Iterator[Record]:
    points, parts, costs, model_errors = found.points, found.parts, found.costs, found.model_errors
    reference = next((p for p in points if not p.point.workers), None)
    about = "local[2], one runtime"
    for measured in points:
        key = f"cluster.{measured.point.name}"
        local = (reference.rates, reference.p50_ms, reference.p99_ms) if reference else ((), (), ())
        yield record(f"{key}.messages_per_s", measured.rates, "messages/s", about, local[0])
        deltas = [rate * measured.deltas_per_message for rate in measured.rates]
        yield record(f"{key}.deltas_per_s", deltas, "deltas/s")
        yield record(f"{key}.p50_ms", measured.p50_ms, "ms", about, local[1])
        yield record(f"{key}.p99_ms", measured.p99_ms, "ms", about, local[2])
        for kind, phase in (("burst", measured.burst), ("steady", measured.steady)):
            for part, seconds in phase.cpu_s.items():
                if seconds:
                    value = 1e6 * seconds / phase.messages
                    yield record(f"{key}.{kind}.{part}.cpu_us_per_message", [value], "µs")
    yield record("cluster.in_process.messages_per_s", parts.messages_per_s, "messages/s", "views alone, one thread")
    for name, value in msgspec.structs.asdict(costs).items():
        yield record(f"cluster.model.{name}", [value], name.rsplit("_", 1)[1])
    for what in ("rate", "p50_ms", "p99_ms"):
        seen = [abs(error.percent) for error in model_errors if error.what == what]
        unseen = [abs(error.percent_without) for error in model_errors if error.what == what]
        yield record(f"cluster.model.{what}.error_percent", seen, "%")
        yield record(f"cluster.model.{what}.error_unseen_percent", unseen, "%")
    one_shard_us = statistics.median(parts.one_shard_us)
    yield record("cluster.in_process.one_shard_us", parts.one_shard_us, "µs", f"{ONE_SHARD}, processor time a message")
    for scenario in BIG:
        result = answer(costs, scenario, one_shard_us)
        yield record(f"cluster.model.{scenario.key}.messages_per_s", [result.most_rate], "messages/s", result.limit)
        yield record(f"cluster.model.{scenario.key}.p50_ms", [result.at_rate.p50_ms], "ms")
        yield record(f"cluster.model.{scenario.key}.p99_ms", [result.at_rate.p99_ms], "ms")
