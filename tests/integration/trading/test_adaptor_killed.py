"""An installed adaptor with all ten persisted types in a runtime that is killed at random moments.

``DELTABOOK_KILLS`` says how often in the long test, ``DELTABOOK_TEST_SEED`` which moments.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from queries import query_path
from runtime.epochs import EpochLogReader
from tests.generators.stateful_adaptor import COLUMNS, answers, install
from tests.integration._processes import Results, Running, exchange

pytestmark = [pytest.mark.process]

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
KILLS = int(os.environ.get("DELTABOOK_KILLS", "20"))
TRACE = query_path("book_depth").with_name("trace-5000.csv")
REPLAY = ["--replay", str(TRACE), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
ROWS_PER_KILL = 8_000


def started(directory: Path, port: int) -> Running:
    where = ["--feed", f"127.0.0.1:{port}", "--dir", str(directory / "run"), "--reader-dir", str(directory)]
    sizes = ["--status-interval", "0.1", "--epoch-ms", "20", "--epoch-messages", "300", "--snapshot-epochs", "0"]
    return Running("runtime", *where, *sizes, "--no-spark", "--retain-epochs", "1000000", "--retain-megabytes", "1000")


def add_reader(process: Running) -> None:
    """Add the reader with the command."""
    columns = [text for name in COLUMNS for text in ("--column", f"{name} int64")]
    where = ["--file", "rows.csv", "--results", f"127.0.0.1:{process.ready().ports['http']}", "--json"]
    done = CliRunner().invoke(main, ["reader", "add", "kept", "--adaptor", "stateful", *columns, *where])
    assert done.exit_code == 0, done.output
    assert '"failed"' not in done.stdout, done.stdout


def sealed(directory: Path) -> list[tuple[Any, ...]]:
    """The rows that the reader has brought, in the order of the log."""
    log = EpochLogReader(directory / "run" / "epochs")
    found: list[tuple[Any, ...]] = []
    for epoch in range(log.latest() + 1):
        table = log.read(epoch).rows("kept")
        for row in table.to_pylist() if table is not None else []:
            assert row.pop("weight") == 1
            found.append(tuple(row.values()))
    return found


def torment(directory: Path, kills: int, chance: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the runtime so often while its reader reads a file that grows, and compare all that it brought."""
    path = [str(install(directory / "installed")), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, path)))
    rows: list[tuple[int, int]] = []
    with exchange(directory / "exchange", *REPLAY) as market:
        port = market.ready().ports["text"]
        for number in range(kills + 1):
            added = [(len(rows) + n, chance.randrange(5_000)) for n in range(ROWS_PER_KILL)]
            rows += added
            with (directory / "rows.csv").open("a", encoding="utf-8") as file:
                file.writelines(f"{n},{x}\n" for n, x in added)
            with started(directory, port) as engine:
                if not number:
                    add_reader(engine)
                engine.ready()
                if number < kills:
                    after = chance.uniform(0, 0.8)
                    engine.runs_for(after)
                    engine.kill()
                    sys.stderr.write(f"kill {number} after {after:.2f} s\n")
                    continue
                results = Results(engine)
                while (state := results.get("readers")["readers"][-1])["state"] != "ended":
                    assert state["state"] != "failed", state
                    engine.runs_for(0.05)
                engine.stop()
    assert sealed(directory) == answers(rows)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_state_of_an_adaptor_survives_a_few_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED}\n")
    torment(tmp_path, 2, random.Random(SEED), monkeypatch)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_state_of_an_adaptor_survives_many_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sys.stderr.write(f"DELTABOOK_TEST_SEED={SEED} DELTABOOK_KILLS={KILLS}\n")
    torment(tmp_path, KILLS, random.Random(SEED), monkeypatch)
