"""Both lanes over a changing catalogue: a whole runtime with Spark, a feed that flows, and views that come and go.

```
exchange with agents ──feed──▶ runtime: 12 views on both lanes, derived streams ◀── adds and drops, by a seed
                                   └── epoch log, result log ──▶ `audit`, when it has stopped
```
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from runtime.compiler import MARKET_RELATIONS
from runtime.epochs import EpochLogReader, Segment, checksums_of, read_segment
from runtime.plan import Column, Program, decode_program
from runtime.state import ARROW_TYPES
from runtime.views.checksum import MODULUS, changes_checksum
from tests.generators.programs import normal
from tests.integration._processes import DEADLINE_S, Results, Running, exchange, runtime
from tests.integration.test_catalogue import Control, telling
from tests.soak.views import Catalogue, script

__all__ = ["Soaked", "audit", "soak"]

_OPTIONS = ("--spark", "--spark-niceness", "0", "--retain-epochs", "1000000", "--retain-megabytes", "4000",
            "--disk-limit-megabytes", "8000",
            "--snapshot-epochs", "40", "--snapshot-results", "100000", "--stop-seconds", "300")  # fmt: skip


_MOST_BEHIND = 4
"""Epochs that Spark may lack when the runtime is stopped."""


@dataclass(frozen=True, slots=True)
class Soaked:
    """What a run has shown."""

    epoch: int
    """The last version of Spark."""
    versions: int
    """How many it has published."""
    comparisons: int
    """Checksums of one view at one version, as counted from the logs."""
    answers: int
    """Views at one version that were compared with DuckDB."""
    messages: int
    """Of the feed."""


def soak(directory: Path, *, seconds: float, changes: int, seed: int, rate: int = 40) -> Soaked:
    """Run for so long with so many changes, and audit what it leaves; `AssertionError` names what is wrong."""
    beginning = directory / "beginning.sql"
    beginning.write_text(script(), encoding="utf-8")
    held, catalogue = directory / "runtime", Catalogue(random.Random(seed))
    agents = ("--agents", "default", "--rate", str(rate), "--seed", str(seed))
    with exchange(directory / "exchange", *agents) as market:
        port = market.ready().ports["text"]
        with runtime(held, port, [beginning], *_OPTIONS) as engine, telling(engine):
            control, results = Control(engine), Results(engine)
            begun = time.monotonic()
            for number in range(changes):
                engine.runs_for(max(0.0, begun + (number + 1) * seconds / changes - time.monotonic()))
                _change(control, catalogue, number)
                _look(engine)
            shown = results.newest(sorted(catalogue.views))
            lines = {line["name"]: line for line in results.get("views")}
            assert set(lines) >= set(catalogue.views)
            engine.figures(lambda f: f["epoch"] - f["published_epoch"] < _MOST_BEHIND, "Spark close behind the feed")
            figures = _stop(engine)
    found = audit(held, wanted={shown.epoch: shown.rows}, every=max(1, changes // 4))
    assert found.epoch == figures["epoch"], f"expected Spark at epoch {figures['epoch']}, was {found.epoch}"
    assert figures["lane_differences"] == 0, figures
    assert figures["lane_comparisons"] == found.comparisons, "each checksum of each version is compared, once"
    return found


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
    """A clean stop, which seals and publishes everything; the last figures."""
    figures = engine.stop()
    assert figures["published_epoch"] == figures["epoch"], figures
    _look(engine)
    return figures


def audit(directory: Path, wanted: Mapping[int, Mapping[str, Counter[Any]]], every: int = 1) -> Soaked:
    """Check every version of Spark by the checksums of its epoch, and some, the last one included, by DuckDB.

    ``wanted``: epoch → views as a subscriber saw them there.
    """
    log = EpochLogReader(directory / "epochs")
    relations = _Relations(log)
    program = relations.program
    paths = sorted((directory / "results").glob("*.result"))
    checksums = {view.name: 0 for view in program.views}
    rows: dict[str, Counter[Any]] = {view.name: Counter() for view in program.views}
    comparisons = answers = at = 0
    seen = dict(wanted)
    for number, path in enumerate(paths):
        segment = read_segment(path)
        assert segment.footer.from_epoch == at, f"expected the version behind epoch {at}, was {path.name}"
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
        if number % every == 0 or path == paths[-1] or at in seen:
            relations.reach(at)
            expected = relations.answers(program)
            for view in program.views:
                assert +rows[view.name] == expected[view.name], f"Spark and DuckDB differ: {view.name} at epoch {at}"
            answers += len(program.views)
        for name, shown in seen.pop(at, {}).items():
            assert {normal(row): count for row, count in shown.items()} == +rows[name], (
                f"{name} as it was shown at {at}"
            )
    return Soaked(at, len(paths), comparisons, answers, log.read(at).footer.cuts["feed"].sequence)


def _early_checksums(segment: Segment, program: Program) -> dict[str, int]:
    """The express lane's checksums at an epoch: of all views but those that go with it."""
    footer = segment.footer
    found = checksums_of(footer)
    stays = decode_program(footer.control) if footer.control else program
    missing = {view.name for view in program.views} & {view.name for view in stays.views} - set(found)
    assert not missing, f"views have no checksum at epoch {footer.to_epoch}: {sorted(missing)}"
    return found


class _Relations:
    """What the deltas of the log add up to, at one epoch after the other."""

    def __init__(self, log: EpochLogReader) -> None:
        self._log = log
        self._epoch = -1
        self._rows: dict[str, Counter[Any]] = {}
        self.program: Program = decode_program(log.read(0).footer.control)
        """Of the first epoch."""
        self._database = duckdb.connect(config={"threads": 1})

    def reach(self, epoch: int) -> None:
        """Add the epochs up to this one."""
        while self._epoch < epoch:
            self._epoch += 1
            for name, table in _deltas(self._log.read(self._epoch)):
                _add(self._rows.setdefault(name, Counter()), table, raw=True)

    def answers(self, program: Program) -> dict[str, Counter[Any]]:
        """Every view from scratch, those that it reads before it."""
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
