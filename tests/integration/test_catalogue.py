"""Views that come and go on a running runtime under load: exact from their first epoch on, killed or not."""

from __future__ import annotations

import json
import os
import random
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from queries import query_path
from runtime.compiler import MARKET_RELATIONS, decode_program
from runtime.epochs import EpochLogReader, Segment, read_segment
from tests.generators.deltas import delta_table
from tests.generators.programs import normal
from tests.integration._oracle import Replayed
from tests.integration._processes import DEADLINE_S, Results, Running, await_end_of_java, exchange, feed, runtime

pytestmark = [pytest.mark.process, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "11"))
SHIPPED = ("book_depth", "vwap_book", "imbalance", "broker_volume", "best_quote")
VIEWS = {name: query_path(name).read_text().rstrip().rstrip(";") for name in SHIPPED} | {
    "sums": "SELECT symbol, SUM(volume) AS v FROM bids GROUP BY symbol",
    "total": "SELECT SUM(price) AS p, COUNT(*) AS n FROM asks",
    "largest": "SELECT symbol, MAX(price) AS p FROM bids GROUP BY symbol",
    "axf": "SELECT b.broker_id, SUM(a.volume - b.volume) AS x FROM bids b, asks a WHERE b.broker_id = a.broker_id "
    "AND (a.price - b.price > 20 OR b.price - a.price > 20) GROUP BY b.broker_id",
    "bsv": "SELECT x.broker_id, SUM(x.volume * y.volume) AS s FROM bids x, bids y "
    "WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
    "vwap": "SELECT SUM(b1.price * b1.volume) AS x FROM bids b1 WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3) > "
    "(SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)",
    "traded": "SELECT symbol, side, COUNT(*) AS n, SUM(volume) AS v FROM trades GROUP BY symbol, side",
    "quiet": "SELECT DISTINCT symbol FROM bids WHERE broker_id NOT IN (SELECT broker_id FROM asks)",
}
MOST = 9


@contextmanager
def telling(process: Running) -> Iterator[None]:
    """What the process wrote to standard error goes with an error in here."""
    try:
        yield
    except Exception as error:
        error.add_note(process.errors())
        raise


class Control:
    """Changes of a runtime's catalogue."""

    def __init__(self, process: Running) -> None:
        self.url = f"http://127.0.0.1:{process.joined().ports['http']}/v1/views"

    def send(self, request: urllib.request.Request) -> tuple[int, Any]:
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, body: bytes) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"}
        return self.send(urllib.request.Request(self.url, data=body, headers=headers, method="POST"))

    def add(self, *names: str, timeout_s: float = DEADLINE_S) -> tuple[int, Any]:
        views = [{"name": name, "sql": VIEWS[name]} for name in names]
        body = json.dumps({"views": views, "timeout_s": timeout_s}).encode()
        return self.post(body)

    def drop(self, name: str, timeout_s: float = DEADLINE_S) -> tuple[int, Any]:
        return self.send(urllib.request.Request(f"{self.url}/{name}?timeout_s={timeout_s}", method="DELETE"))


class Changes:
    """Random changes by seed, and what the catalogue must be after them."""

    def __init__(self, seed: int, names: set[str]) -> None:
        self._chance = random.Random(seed)
        self.names = names

    def make(self, control: Control, *, timeout_s: float = DEADLINE_S) -> tuple[int, int]:
        """One change; gives its epoch and the version when it was answered."""
        absent = sorted(VIEWS.keys() - self.names)
        if self.names and (len(self.names) >= MOST - 1 or self._chance.random() < 0.4):
            gone = self._chance.choice(sorted(self.names))
            status, answer = control.drop(gone, timeout_s)
            self.names -= {gone}
        else:
            new = self._chance.sample(absent, self._chance.randint(1, 2))
            status, answer = control.add(*new, timeout_s=timeout_s)
            self.names |= set(new)
        assert status in ((200,) if timeout_s else (200, 202)), answer
        return answer["epoch"], answer["version"]


def relations_by_epoch(directory: Path) -> Iterator[dict[str, Counter[Any]]]:
    """What the deltas of the log add up to, epoch by epoch."""
    log = EpochLogReader(directory / "epochs")
    held: dict[str, Counter[Any]] = {relation.name: Counter() for relation in MARKET_RELATIONS}
    for epoch in range(log.latest() + 1):
        segment = log.read(epoch)
        for name, rows in held.items():
            for row, weight in weighted(segment, name):
                rows[row] += weight
                if not rows[row]:
                    del rows[row]
        yield held


def weighted(segment: Segment, name: str) -> Iterator[tuple[tuple[Any, ...], int]]:
    table = segment.rows(name)
    for *row, weight in zip(*(column.to_pylist() for column in table.columns), strict=True) if table else ():
        yield tuple(row), weight


def check(directory: Path, wanted: int) -> dict[str, Counter[Any]]:
    """Every version of every view in the result log is its SQL on the relations of then; gives one of them."""
    found: dict[str, Counter[Any]] = {}
    program = decode_program(EpochLogReader(directory / "epochs").read(0).footer.control)
    results: dict[str, Counter[Any]] = {view.name: Counter() for view in program.views}
    at = enumerate(relations_by_epoch(directory))
    epoch, held = next(at)
    database = duckdb.connect(config={"threads": 1})
    for path in sorted((directory / "results").glob("*.result")):
        segment = read_segment(path)
        assert segment.footer.from_epoch == epoch, "versions follow each other"
        assert not segment.footer.attributes, "no view fails"
        if segment.footer.control:
            program = decode_program(segment.footer.control)
            results = {view.name: results.get(view.name, Counter()) for view in program.views}
        assert {section.name for section in segment.footer.sections} <= results.keys()
        while epoch < segment.footer.to_epoch:
            epoch, held = next(at)
        for relation in MARKET_RELATIONS:
            rows = [(row, 1) for row in held[relation.name].elements()]
            database.register(relation.name, delta_table(relation, rows).drop_columns("weight"))
        for view in program.views:
            result = results[view.name]
            for row, weight in weighted(segment, view.name):
                result[normal(row)] += weight
                assert result[normal(row)] >= 0, f"{view.name} at {epoch}: a row that is not there was removed"
            expected = Counter(normal(row) for row in database.execute(view.sql).fetchall())
            assert +result == expected, f"{view.name} at {epoch}"
        if epoch == wanted:
            found = {name: +rows for name, rows in results.items()}
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("count", [8, 100])
def test_views_come_and_go_under_load_and_survive_a_kill(tmp_path: Path, count: int) -> None:
    held = tmp_path / "runtime"
    begin = [query_path("book_depth"), query_path("imbalance")]
    options = ["--snapshot-epochs", "4", "--most-views", str(MOST)]
    changes = Changes(SEED, {"book_depth", "imbalance"})
    with exchange(tmp_path / "exchange", "--agents", "default", "--rate", "40", "--seed", str(SEED)) as market:
        port = market.ready().ports["text"]
        with runtime(held, port, begin, *options) as engine, telling(engine):
            control, results = Control(engine), Results(engine)
            last = 0
            for _ in range(count):
                epoch, version = changes.make(control)
                assert last < epoch <= version, "it waits for its version, and changes follow each other"
                last = epoch
            assert {view["name"] for view in results.get("views")} == changes.names
            last, _ = changes.make(control, timeout_s=0)
            engine.kill()  # sealed, and hardly published
        await_end_of_java(held)
        with runtime(held, port, [], *options) as engine, telling(engine):
            control, results = Control(engine), Results(engine)
            assert {view["name"] for view in results.get("views")} == changes.names
            assert int(engine.figures()["published_epoch"]) >= last
            for _ in range(count // 4):
                changes.make(control)
            seen = results.newest(sorted(changes.names))
            engine.stop()
    assert check(held, seen.epoch) == seen.rows
    *_, relations = relations_by_epoch(held)
    log = EpochLogReader(held / "epochs")
    sequence = log.read(log.latest()).footer.cuts["feed"].sequence
    with exchange(tmp_path / "exchange", "--agents", "none") as market:
        told = Replayed().feed(feed(market.ready().ports["text"], sequence))
    assert relations["bids"] == Counter(told.relation("B"))
    assert relations["asks"] == Counter(told.relation("S"))
    assert list((held / "snapshots").glob("*.snapshot")), "views were filled from snapshots"


def test_impossible_changes_are_refused_and_change_nothing(tmp_path: Path) -> None:
    """In the express lane: both lanes have one catalogue, and Spark takes long to start."""
    options = ["--express", str(query_path("imbalance")), "--no-spark", "--most-views", "2"]
    with exchange(tmp_path / "exchange", "--agents", "none") as market:
        port = market.ready().ports["text"]
        with runtime(tmp_path / "runtime", port, [], *options) as engine, telling(engine):
            control, results = Control(engine), Results(engine)
            for body, expected, message in (
                ({"views": [{"name": "v", "sql": "SELECT pric FROM bids"}]}, 422, "1:8: unknown column 'pric'"),
                ({"views": [{"name": "v", "sql": "SELECT a FROM nowhere"}]}, 422, "nowhere"),
                ({"views": [{"name": "imbalance", "sql": "SELECT price FROM bids"}]}, 422, "expected a new name"),
                (
                    {"views": [{"name": n, "sql": "SELECT price FROM bids"} for n in "ab"]},
                    409,
                    "expected at most 2 views",
                ),
            ):
                status, answer = control.post(json.dumps(body).encode())
                assert status == expected
                assert message in answer
                assert answer.count("\n") == 1
            assert control.drop("nothing")[0] == 404
            assert [view["name"] for view in results.get("views")] == ["imbalance"]
            epoch = int(engine.figures()["epoch"])
            assert control.drop("imbalance")[1]["epoch"] == epoch + 1
            assert control.add("sums")[1]["epoch"] == epoch + 2
            engine.stop()
