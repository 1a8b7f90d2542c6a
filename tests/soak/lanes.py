"""Both lanes over a changing catalogue: a whole runtime with Spark, a feed that flows, and views that come and go.

```
exchange with agents ──feed──▶ relay, cut by a seed ──▶ runtime, restarted by a seed ──▶ subscriber, comes and goes
                                   12 views on both lanes, derived streams ◀── adds and drops, by a seed
                                   ├── epoch log, result log ──▶ archive ──▶ `audit`, when it has stopped
                                   └── memory, descriptors, threads, disk ──▶ resources.csv
```
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from runtime.compiler import MARKET_RELATIONS
from runtime.epochs import EpochLogReader, Footer, Segment, checksums_of, read_segment
from runtime.plan import Column, Program, decode_program
from runtime.state import ARROW_TYPES
from runtime.views.checksum import MODULUS, changes_checksum
from tests.generators.programs import normal
from tests.integration._processes import DEADLINE_S, Results, Running, exchange, runtime
from tests.integration.test_catalogue import Control, telling
from tests.soak.disturbing import Archive, FeedRelay, SeenView, Subscriber
from tests.soak.resources import ResourceSampler
from tests.soak.views import Catalogue, script

__all__ = ["Plan", "Soaked", "audit", "soak"]

_RETENTION = ("--retain-epochs", "200", "--retain-megabytes", "16", "--snapshot-epochs", "40",
              "--snapshot-results", "50")  # fmt: skip
_OPTIONS = ("--spark", "--spark-niceness", "0", *_RETENTION, "--disk-limit-megabytes", "8000", "--stop-seconds", "300")
_MOST_BEHIND = 4
"""Largest number of epochs that Spark may lack when the runtime is stopped."""
_STAY = 3
"""Largest number of changes of the catalogue during which a subscriber follows the views."""


@dataclass(frozen=True, slots=True)
class Soaked:
    """Results of a run."""

    epoch: int
    """Last version of Spark."""
    versions: int
    """Number of versions that it has published."""
    comparisons: int
    """Number of checksums of one view at one version, as counted from the logs."""
    answers: int
    """Number of views at one version that were compared with DuckDB."""
    messages: int
    """Number of messages of the feed."""
    shown: int = 0
    """Number of views last seen by a subscriber that were compared with the logs."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Events of a run and their times, by a seed."""

    seconds: float
    """Duration of the run, in seconds."""
    changes: int
    """Number of changes of the catalogue, evenly over that time."""
    seed: int
    """Seed of the changes, of the disturbances and of the agents."""
    rate: int = 40
    """Number of requests of all agents per second."""
    restarts: int = 0
    """Number of clean stops and starts of the runtime, each after one of the first `restartable` changes."""
    cuts: int = 0
    """Number of cuts of the feed's connection, each after a change."""
    sample_s: float = 2.0
    """Time between two samples of the runtime's resources, in seconds."""

    @property
    def restartable(self) -> int:
        """Number of changes that a restart may follow: the second half of the run is measured in one process."""
        return 2 * self.changes // 5

    def disturbed(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the numbers of the changes after which the runtime is restarted, and after which the feed is cut."""
        chance = random.Random(f"{self.seed} disturbances")
        restarts = chance.sample(range(self.restartable), self.restarts)
        return frozenset(restarts), frozenset(chance.sample(range(self.changes), self.cuts))


def soak(directory: Path, plan: Plan) -> Soaked:
    """Run as planned, and audit the result; raise `AssertionError` that names an error.

    ``directory`` receives the samples, ``resources.csv``, and the files of the processes.
    """
    beginning = directory / "beginning.sql"
    beginning.write_text(script(), encoding="utf-8")
    run = directory / "runtime"
    agents = ("--agents", "default", "--rate", str(plan.rate), "--seed", str(plan.seed))
    with (
        exchange(directory / "exchange", *agents) as market,
        FeedRelay(market.ready().ports["text"]) as relay,
        Archive(run, directory / "archive") as archive,
        ResourceSampler(run, directory / "resources.csv", every_s=plan.sample_s) as sampler,
    ):
        figures, shown = _Driver(plan, run, relay, sampler).drive(beginning)
    soaked = audit(archive.directory, shown, every=max(1, plan.changes // 4))
    assert soaked.epoch == figures["epoch"], f"expected Spark at epoch {figures['epoch']}, was {soaked.epoch}"
    assert figures["lane_differences"] == 0, figures
    assert figures["lane_comparisons"] == soaked.comparisons, "each checksum of each version is compared, once"
    return soaked


class _Driver:
    """Makes the changes and the disturbances of one run."""

    def __init__(self, plan: Plan, run: Path, relay: FeedRelay, sampler: ResourceSampler) -> None:
        self._plan, self._run, self._relay, self._sampler = plan, run, relay, sampler
        self._catalogue = Catalogue(random.Random(plan.seed))
        self._chance = random.Random(f"{plan.seed} subscribers")
        self._number = self._comparisons = 0
        self._shown: list[tuple[str, SeenView]] = []

    def drive(self, beginning: Path) -> tuple[dict[str, Any], list[tuple[str, SeenView]]]:
        """Run completely.

        Return the last figures, with comparisons counted over all starts, and the subscribers' last views.
        """
        restarts, cuts = self._plan.disturbed()
        begun = time.monotonic()
        figures: dict[str, Any] = {}
        scripts = [beginning]
        while scripts or self._number < self._plan.changes:
            with runtime(self._run, self._relay.port, scripts, *_OPTIONS) as engine, telling(engine):
                self._sampler.watch(engine.pid)
                figures = self._start(engine, begun, restarts, cuts)
            scripts = []
        return figures | {"lane_comparisons": self._comparisons}, self._shown

    def _start(self, engine: Running, begun: float, restarts: Set[int], cuts: Set[int]) -> dict[str, Any]:
        """Run from a start of the runtime to the next stop; return its last figures."""
        plan, control, results = self._plan, Control(engine), Results(engine)
        subscriber, until = None, 0
        while self._number < plan.changes:
            number = self._number
            if subscriber is None:
                subscriber = Subscriber(engine.ready().ports["http"], sorted(self._catalogue.views))
                until = number + self._chance.randrange(_STAY)
            engine.runs_for(max(0.0, begun + (number + 1) * plan.seconds / plan.changes - time.monotonic()))
            _change(control, self._catalogue, number)
            _look(engine)
            self._number += 1
            if number in cuts:
                sys.stderr.write(f"feed cut after connection {self._relay.connections}\n")
                self._relay.cut()
            if number >= until:
                self._shown += subscriber.leave().items()
                subscriber = None
            if number in restarts:
                break
        newest = results.newest(sorted(self._catalogue.views))
        self._shown += [(name, SeenView(newest.epoch, newest.sequence, rows)) for name, rows in newest.rows.items()]
        lines = {line["name"]: line for line in results.get("views")}
        assert set(lines) >= set(self._catalogue.views)
        engine.figures(lambda f: f["epoch"] - f["published_epoch"] < _MOST_BEHIND, "Spark close behind the feed")
        self._sampler.watch(None)
        figures = _stop(engine)
        if subscriber is not None:
            self._shown += subscriber.leave().items()
        self._comparisons += figures["lane_comparisons"]
        sys.stderr.write(f"stopped at epoch {figures['epoch']}\n")
        return figures


def _change(control: Control, catalogue: Catalogue, number: int) -> None:
    kind, what = catalogue.change()
    name = what if kind == "drop" else what["views"][0]["name"]
    sys.stderr.write(f"change {number}: {kind} {name}\n")
    if kind == "drop":
        status, answer = control.drop(what)
    else:
        status, answer = control.post(json.dumps({**what, "timeout_s": DEADLINE_S}).encode())
    assert status == 200, f"{kind} {what}: {answer}"


def _look(engine: Running) -> None:
    figures = engine.figures()
    wrong = {name: figures[name] for name in ("lanes_differ", "lane_differences", "failed_views", "spark_restarts")}
    assert not any(wrong.values()), wrong


def _stop(engine: Running) -> dict[str, Any]:
    """Stop the runtime, which seals and publishes everything; return the last figures."""
    figures = engine.stop()
    assert figures["published_epoch"] == figures["epoch"], figures
    _look(engine)
    return figures


def audit(directory: Path, shown: Iterable[tuple[str, SeenView]], every: int = 1) -> Soaked:
    """Check every version of Spark by the checksums of its epoch, and some, including the last one, by DuckDB.

    ``directory`` contains all epochs and results. ``shown`` are names of views with the subscribers' rows; rows seen
    between two epochs are not compared.
    """
    log = EpochLogReader(directory / "epochs")
    relations = _Relations(log)
    program = early_program = relations.program
    paths = sorted((directory / "results").glob("*.result"))
    checksums = {view.name: 0 for view in program.views}
    rows: dict[str, Counter[Any]] = {view.name: Counter() for view in program.views}
    comparisons = answers = at = compared = 0
    seen: dict[int, list[tuple[str, SeenView]]] = {}
    for name, seen_view in shown:
        seen.setdefault(seen_view.epoch, []).append((name, seen_view))
    for number, path in enumerate(paths):
        segment = read_segment(path)
        assert segment.footer.from_epoch == at, f"expected the version behind epoch {at}, was {path.name}"
        for epoch in range(at + 1, segment.footer.to_epoch + 1):
            footer = log.read(epoch).footer
            early_program = decode_program(footer.control) if footer.control else early_program
            compared += _compare_shown(relations, early_program, footer, seen.pop(epoch, []))
        at = segment.footer.to_epoch
        assert not segment.footer.attributes, f"a view has failed at epoch {at}: {segment.footer.attributes}"
        if segment.footer.control:
            program = decode_program(segment.footer.control)
            checksums = {view.name: checksums.get(view.name, 0) for view in program.views}
            rows = {view.name: rows.get(view.name, Counter()) for view in program.views}
        early = _early_checksums(log.read(at), program)
        for view in program.views:
            if (table := segment.rows(view.name)) is not None:
                checksums[view.name] = (checksums[view.name] + changes_checksum(view, table)) % MODULUS
                _add(rows[view.name], table)
            if view.name in early:
                assert checksums[view.name] == early[view.name], f"the lanes differ: {view.name} at epoch {at}"
                comparisons += 1
        if number % every == 0 or path == paths[-1]:
            relations.reach(at)
            expected = relations.answers(program)
            for view in program.views:
                assert +rows[view.name] == expected[view.name], f"Spark and DuckDB differ: {view.name} at epoch {at}"
            answers += len(program.views)
    return Soaked(at, len(paths), comparisons, answers, log.read(at).footer.cuts["feed"].sequence, compared)


def _compare_shown(
    relations: _Relations, program: Program, footer: Footer, shown: Iterable[tuple[str, SeenView]]
) -> int:
    """Compare the views seen at the end of this epoch, and not after it, with DuckDB; return their number."""
    cut = footer.cuts.get("feed")
    comparable = [(name, view) for name, view in shown if cut is not None and view.sequence == cut.sequence]
    if comparable:
        relations.reach(footer.to_epoch)
        expected = relations.answers(program)
        for name, view in comparable:
            rows = {normal(row): count for row, count in view.rows.items()}
            assert rows == expected[name], f"{name} as it was shown at {footer.to_epoch} is not DuckDB's"
    return len(comparable)


def _early_checksums(segment: Segment, program: Program) -> dict[str, int]:
    """Return the express lane's checksums at an epoch, of all views except those removed with it."""
    footer = segment.footer
    found = checksums_of(footer)
    stays = decode_program(footer.control) if footer.control else program
    missing = {view.name for view in program.views} & {view.name for view in stays.views} - set(found)
    assert not missing, f"views have no checksum at epoch {footer.to_epoch}: {sorted(missing)}"
    return found


class _Relations:
    """Sums of the log's deltas, at one epoch after the other."""

    def __init__(self, log: EpochLogReader) -> None:
        self._log = log
        self._epoch = -1
        self._rows: dict[str, Counter[Any]] = {}
        self.program: Program = decode_program(log.read(0).footer.control)
        """Program of the first epoch."""
        self._database = duckdb.connect(config={"threads": 1})

    def reach(self, epoch: int) -> None:
        """Add the epochs up to this one."""
        while self._epoch < epoch:
            self._epoch += 1
            for name, table in _deltas(self._log.read(self._epoch)):
                _add(self._rows.setdefault(name, Counter()), table, raw=True)

    def answers(self, program: Program) -> dict[str, Counter[Any]]:
        """Return every view computed from scratch, after the views that it reads."""
        for relation in MARKET_RELATIONS:
            self._register(relation.name, relation.columns)
        for stream in program.streams:
            self._register(stream.name, stream.columns)
        found = {}
        for view in program.views:
            self._database.execute(f'CREATE OR REPLACE TEMP TABLE "{view.name}" AS {view.sql}')
            answer = self._database.execute(f'SELECT * FROM "{view.name}"').fetchall()
            found[view.name] = Counter(normal(row) for row in answer)
        return found

    def _register(self, name: str, columns: Sequence[Column]) -> None:
        rows = list(self._rows.get(name, Counter()).elements())
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [pa.array(given, ARROW_TYPES[column.type]) for given, column in zip(values, columns, strict=True)]
        self._database.register(name, pa.table(arrays, names=[column.name for column in columns]))


def _deltas(segment: Segment) -> Iterator[tuple[str, pa.Table]]:
    for section in segment.footer.sections:
        if "/" not in section.name and (table := segment.rows(section.name)) is not None:
            yield section.name, table


def _add(held: Counter[Any], table: pa.Table, *, raw: bool = False) -> None:
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True):
        key = tuple(row) if raw else normal(row)
        held[key] += weight
        if not held[key]:
            del held[key]
