"""The lanes say the same: on Spark and in the express lane, version by version; the latter also through a kill -9."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from queries import QUERIES_DIR, query_path
from runtime.compiler import read_script
from runtime.epochs import EpochLogReader, Footer, checksums_of
from runtime.plan import decode_program
from tests.generators.books import replay
from tests.generators.traces import trace
from tests.harness.moments import as_rows
from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, exchange, feed
from tests.integration.test_query_run import expected, query_run, write_trace

SEED = int(os.environ.get("DELTABOOK_TEST_SEED", "5"))
FINANCE = ("axf", "bsp", "bsv", "mst", "psp", "vwap")
OTHERS = {
    "top": "SELECT price, SUM(volume) AS v FROM bids GROUP BY price ORDER BY price DESC LIMIT 3",
    "far": "SELECT b.broker_id, MAX(b.price) AS best FROM bids b GROUP BY b.broker_id HAVING COUNT(*) > 2",
    "lone": "SELECT a.id FROM asks a WHERE NOT EXISTS (SELECT 1 FROM bids b WHERE b.price = a.price)",
}
LIVE = ("best_quote", "book_depth", "vwap_book", "broker_volume")


def express_script(queries: dict[str, str]) -> str:
    """The queries as views of the express lane."""
    views = [f"CREATE VIEW {name} TBLPROPERTIES ('lane' = 'express') AS {sql};" for name, sql in queries.items()]
    return "\n".join([f"INCLUDE '{QUERIES_DIR / 'finance_schema.sql'}';", *views])


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(600)
def test_both_lanes_say_the_same_at_every_epoch(tmp_path: Path) -> None:
    """Row by row: what Spark prints, what sections of the epochs add up to, and for the finance queries DuckDB."""
    lines = trace(SEED, 600)
    write_trace(tmp_path, lines)
    script, held = tmp_path / "both.sql", tmp_path / "run"
    queries = {name: read_script(query_path(name)).selects[0].sql for name in FINANCE} | OTHERS
    script.write_text(express_script(queries))
    options = ("--json", "--epoch-messages", "60", "--every-epoch", "--spark", "--dir", held)
    done = query_run(script, "--data-dir", tmp_path, *options)
    assert done.returncode == 0, done.stderr
    found: dict[tuple[str, int], Counter[tuple[Any, ...]]] = {}
    for line in done.stdout.splitlines():
        said = json.loads(line, parse_float=Decimal)
        found[said["query"], said["epoch"]] = Counter(tuple(row) for row in said["rows"])
    assert len(found) == len(queries) * 10
    for epoch, books in enumerate(replay(lines, 60), 1):
        for name, rows in expected(books, "sql").items():
            assert found[name, epoch] == rows, f"{name} at epoch {epoch}"
    columns = {view.name: view.columns for view in decode_program(EpochLogReader(held / "epochs").control(0)).views}
    for (name, epoch), rows in found.items():
        scales = [column.scale for column in columns[name]]
        shown = Counter({tuple(map(_unscaled, row, scales)): count for row, count in rows.items()})
        assert shown == added_up(held, name, epoch), f"{name} at epoch {epoch}"
    assert all(any(rows for (one, _), rows in found.items() if one == name) for name in queries)


def _unscaled(value: Any, scale: int) -> Any:
    """A value as a section holds it: decimals are integers there."""
    return value if value is None or isinstance(value, str) else int(Decimal(value).scaleb(scale))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_run_whose_lanes_differ_shows_sparks_rows_and_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows.csv").write_text("1,7\n2,9\n")
    script = tmp_path / "both.sql"
    script.write_text(
        "CREATE STREAM r (a INT, b INT) FROM FILE 'rows.csv' LINE DELIMITED csv (delimiter := ',');"
        "CREATE VIEW total TBLPROPERTIES ('lane' = 'express') AS SELECT SUM(b) AS s FROM r;"
        "CREATE VIEW many TBLPROPERTIES ('lane' = 'express') AS SELECT COUNT(*) AS n FROM r;"
    )

    def broken(footer: Footer) -> dict[str, int]:
        return {name: checksum ^ (name == "total") for name, checksum in checksums_of(footer).items()}

    monkeypatch.setattr("runtime.service.lanes.agreement.checksums_of", broken)
    done = CliRunner().invoke(main, ["query", "run", "--json", "--spark", str(script)])
    assert done.exit_code == 1
    assert "view total: the lanes differ from epoch 1 on; Spark's answer is shown" in done.stderr
    assert "view many: the lanes" not in done.stderr
    assert [(said["query"], said["rows"]) for said in map(json.loads, done.stdout.splitlines())] == [
        ("total", [[16]]),
        ("many", [[2]]),
    ]


def express(directory: Path, feed_port: int, names: tuple[str, ...]) -> Running:
    """A runtime without Spark."""
    files = ",".join(str(query_path(name)) for name in names)
    where = ["--feed", f"127.0.0.1:{feed_port}", "--dir", str(directory), *(["--express", files] if names else [])]
    return Running("runtime", *where, "--status-interval", "0.1", "--epoch-ms", "50", "--exit-with-stdin")


def added_up(directory: Path, name: str, until: int | None = None) -> Counter[tuple[Any, ...]]:
    """What the epochs' sections of a view add up to, at the end or at an epoch."""
    log = EpochLogReader(directory / "epochs")
    held: Counter[tuple[Any, ...]] = Counter()
    for epoch in range((log.latest() if until is None else until) + 1):
        table = log.read(epoch).rows(f"view/{name}")
        if table is not None:
            at = table.schema.get_field_index("weight")
            turned = table.set_column(at, "weight", [[-weight for weight in table["weight"].to_pylist()]])
            held = held + as_rows(table) - as_rows(turned)
    return held


@pytest.mark.process
@pytest.mark.timeout(600)
def test_the_express_lane_without_spark_goes_on_after_a_kill(tmp_path: Path) -> None:
    """A view that was added to it while it ran too."""
    chance = random.Random(SEED)
    lines = trace(SEED, 1500, gap_ms=4)
    file, held = tmp_path / "trace.csv", tmp_path / "runtime"
    file.write_text("\n".join(lines) + "\n")
    messages = Replayed().trace(lines, "TRACE").messages
    replay = ["--replay", str(file), "--replay-mode", "as-recorded", "--symbol", "TRACE", "--start-on", "1"]
    with exchange(tmp_path / "exchange", *replay, "--speed", "1") as market:
        port = market.ready().ports["text"]
        with express(held, port, LIVE[:3]) as engine:
            engine.wait_for("express_epoch", chance.randint(3, 8))
            engine.kill()
        with express(held, port, ()) as engine:
            engine.ready()
            engine.figures(lambda figures: figures["express_lag_ms"] is not None, "a lag of the express lane")
            service = Results(engine)
            status, answer = add(engine, {"name": LIVE[3], "sql": query_path(LIVE[3]).read_text()})
            assert (status, json.loads(answer)["views"][0]["lane"]) == (200, "express")
            assert [(view["name"], view["lane"]) for view in service.get("views")] == [(n, "express") for n in LIVE]
            status, answer = add(engine, {"name": "slow", "sql": "SELECT COUNT(*) AS n FROM bids", "lane": "spark"})
            assert (status, "started without Spark" in answer) == (409, True)
            engine.wait_for("feed_sequence", messages)
            answers = Replayed().feed(feed(port, messages)).answers(map(query_path, LIVE))
            assert service.covering(LIVE, messages).rows == answers
            engine.close_input()
            engine.finish()
    for name in LIVE:
        assert added_up(held, name) == answers[name], name
    assert not (held / "spark").exists()


def add(engine: Running, view: dict[str, str]) -> tuple[int, str]:
    """Add a view; the answer."""
    connection = HTTPConnection("127.0.0.1", engine.ready().ports["http"], timeout=60)
    connection.request("POST", "/v1/views", json.dumps({"views": [view]}))
    answer = connection.getresponse()
    return answer.status, answer.read().decode()
