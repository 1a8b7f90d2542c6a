"""What earlier versions have written is gone on with, exactly: see `make`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from deltabook.audit import audit
from deltabook.backup import inspect, restore
from deltabook.wire.text import FeedMessage, parse_feed_message
from exchange_server.journal.verification import verify
from exchange_server.outputs import all_outputs
from queries import query_path
from runtime.engine.ingest import EpochWriter
from runtime.epochs import EpochLogReader, ResultLog, SnapshotDirectory, add_up
from runtime.spark.published_state import read_published_state
from tests.harness.moments import as_rows
from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, exchange, feed, feed_position
from tests.integration.algo_process import FakeResults, private_stream
from tests.integration.test_algo_recovery import FEES, algo, check
from tests.upgrade.make import EXPRESS, HERE, SPARK, Held

VERSIONS = sorted(path.stem.removeprefix("runs-") for path in HERE.glob("runs-*.json"))


@pytest.fixture(params=VERSIONS)
def runs(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Held]:
    """The run directories of a version, and what is known of them."""
    restore(HERE / f"runs-{request.param}.tar.zst", tmp_path / "run")
    return tmp_path / "run", msgspec.json.decode((HERE / f"runs-{request.param}.json").read_bytes(), type=Held)


def said(directory: Path) -> list[FeedMessage]:
    """The exchange's feed."""
    return [parse_feed_message(line) for line in (directory / "exchange" / "feed.lines").read_bytes().splitlines()]


def test_a_journal_of_an_earlier_exchange_gives_the_same_market(runs: tuple[Path, Held]) -> None:
    directory, held = runs
    found = verify(directory / "exchange", all_outputs)
    assert (found.inputs, found.state_hash, found.problems) == (held.requests, held.state_hash, ())


def test_epochs_and_results_of_an_earlier_runtime_are_read(runs: tuple[Path, Held]) -> None:
    directory, held = runs
    place = directory / "runtime"
    writer = EpochWriter(place, lambda: 0, lambda footer: None)
    try:
        assert writer.epoch == held.epoch
        assert writer.recovered is not None
        assert writer.recovered.cuts["feed"].sequence == held.covered
    finally:
        writer.close()
    log, results = EpochLogReader(place / "epochs"), ResultLog(place / "results")
    base = SnapshotDirectory(place / "snapshots").newest(held.epoch)
    assert base is not None
    told = said(directory)
    market = Replayed().feed(told[: held.covered])
    for relation, side in (("bids", "B"), ("asks", "S")):
        rows = add_up(log, relation, base.footer.to_epoch, held.epoch, base=base)
        assert rows is not None
        assert as_rows(rows) == Counter(market.relation(side))
    state = read_published_state(results, log)
    covered = log.read(state.version).footer.cuts["feed"].sequence
    answers = Replayed().feed(told[:covered]).answers([query_path(name) for name in SPARK])
    assert {name: as_rows(view.rows()) for name, view in state.views.items()} == answers


def test_journals_of_earlier_strategies_agree_with_the_exchange(runs: tuple[Path, Held]) -> None:
    directory, held = runs
    found = audit(directory / "algo", directory / "exchange", FEES, is_running=True)
    assert found.agrees, found
    assert sum(strategy.fills for strategy in found.strategies) == held.fills


def test_whoever_looks_is_told_what_is_there(runs: tuple[Path, Held]) -> None:
    directory, held = runs
    facts = {report.kind: report.facts for report in inspect(directory)}
    assert str(facts["runtime"]["epochs"]).endswith(f" to {held.epoch}")
    assert facts["exchange"]["requests"] == f"1 to {held.requests}"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(300)
def test_processes_resume_after_those_of_an_earlier_version(runs: tuple[Path, Held]) -> None:
    directory, held = runs
    flow = ["--itch-port", "0", "--instruments", "ACME,BETA", "--seed", "5", "--rate", "200"]
    with exchange(directory / "exchange", *flow) as market:
        port = market.ready().ports["text"]
        where = ["--feed", f"127.0.0.1:{port}", "--dir", str(directory / "runtime"), "--status-interval", "0.1"]
        with FakeResults() as results, algo(directory, results, port) as desk:
            desk.wait_for("orders_sent", 60)
            figures = desk.stop()
            check(private_stream(port, 9001), figures, directory / "algo")
        market.wait_for("sequence", held.sequence + 500)
        market.interrupt()
    with exchange(directory / "exchange", *flow[:4], "--agents", "none", port=port) as market:
        market.ready()
        newest = feed_position(port)
        with Running("runtime", *where, "--shards", "3") as engine:
            found = Results(engine).covering([*SPARK, *EXPRESS][:-1], newest)
            express = Results(engine).covering(EXPRESS, newest)
            engine.stop()
        told = feed(port, newest)
    replayed = Replayed().feed(told)
    assert found.rows == replayed.answers([query_path(name) for name in SPARK])
    assert express.rows == replayed.answers([query_path(name) for name in EXPRESS])
