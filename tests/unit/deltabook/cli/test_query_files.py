"""``deltabook query run`` and ``explain`` take several files, and name the views that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from queries import QUERIES_DIR
from runtime.compiler import read_script


def test_views_that_fail_leave_the_results_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(f"{2**62}\n")
    (tmp_path / "q.sql").write_text(
        "CREATE STREAM r(a BIGINT) FROM FILE 'r.csv' LINE DELIMITED csv;\n"
        "CREATE VIEW cube AS SELECT SUM(a * a * a) AS s FROM r;\n"
        "CREATE VIEW plain AS SELECT SUM(a) AS s FROM r;\n"
        "CREATE VIEW power AS SELECT SUM(a * a * a * a) AS s FROM r;\n"
    )
    done = CliRunner().invoke(main, ["query", "run", "--lane", "express", "--json", str(tmp_path / "q.sql")])
    (line,) = done.stdout.splitlines()
    assert (json.loads(line)["query"], json.loads(line)["rows"], done.exit_code) == ("plain", [[2**62]], 1)
    assert done.stderr.startswith("deltabook: error: view cube failed at epoch 1: ")
    assert "; view power failed at epoch 1: " in done.stderr


def test_each_file_is_explained_over_its_own_relations(tmp_path: Path) -> None:
    (tmp_path / "own.sql").write_text(
        "CREATE STREAM bids(x INT) FROM FILE 'r.csv' LINE DELIMITED csv; CREATE VIEW v AS SELECT SUM(x) FROM bids;"
    )
    (tmp_path / "market.sql").write_text("CREATE VIEW v AS SELECT SUM(price) FROM bids;")
    (tmp_path / "empty.sql").touch()
    files = [str(tmp_path / name) for name in ("own.sql", "market.sql", "empty.sql")]
    done = CliRunner().invoke(main, ["query", "explain", *files])
    assert (done.exit_code, done.stdout.count("view v: linear"), done.stderr) == (0, 2, "")
    shipped = [str(path) for path in QUERIES_DIR.glob("*.sql") if not read_script(path).derived]
    assert CliRunner().invoke(main, ["query", "explain", *shipped]).exit_code == 0


def test_a_derived_stream_is_explained_before_the_views(tmp_path: Path) -> None:
    """Of a script without streams of its own it reads the market."""
    (tmp_path / "s.sql").write_text(
        "CREATE STREAM s RETAIN 5 ROWS AS SELECT t, price FROM trades; CREATE VIEW v AS SELECT SUM(price) FROM s;"
    )
    done = CliRunner().invoke(main, ["query", "explain", str(tmp_path / "s.sql")])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("s: derived stream (t int64, price int64)\n")
    assert "view v: linear" in done.stdout
    done = CliRunner().invoke(main, ["query", "explain", "--json", str(tmp_path / "s.sql")])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["query"], line["class"], line["lane"]) for line in lines] == [
        ("s", "stream", "stream"),
        ("v", "linear", "spark"),
    ]


def test_a_script_of_streams_is_run(tmp_path: Path) -> None:
    """Late rows are told apart from malformed ones, and rows of the stream are those that it keeps."""
    (tmp_path / "r.csv").write_text("10,1\n20,2\nx\n5,3\n30,4\n")
    (tmp_path / "s.sql").write_text(
        "CREATE STREAM r (moment INT, n INT) FROM FILE 'r.csv' LINE DELIMITED csv"
        " (time := 'moment', malformed := 'skip');"
        "CREATE STREAM s RETAIN 2 ROWS AS SELECT moment, n * 2 AS twice FROM r;"
    )
    done = CliRunner().invoke(main, ["query", "run", "--json", "--epoch-messages", "1", str(tmp_path / "s.sql")])
    assert json.loads(done.stdout)["rows"] == [[20, 4], [30, 8]]
    assert "1 malformed\n1 rows were too late for s\n" in done.stderr


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("1\n")
    (tmp_path / "s.sql").write_text(
        "CREATE STREAM r (n VARCHAR) FROM FILE 'r.csv' LINE DELIMITED csv (time := 'n');"
        "CREATE STREAM s AS SELECT n FROM r;"
    )
    done = CliRunner().invoke(main, ["query", "run", str(tmp_path / "s.sql")])
    assert "expected a column of type int64, timestamp, date as the time of r, was 'n'" in done.stderr


@pytest.mark.parametrize(
    ("name", "reason"), [("empty.sql", "expected at least one SELECT, was none in "), ("", "was the folder '")]
)
def test_a_file_without_views_is_not_explained(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty.sql").touch()
    done = CliRunner().invoke(main, ["query", "explain", str(tmp_path / name)])
    assert (done.exit_code, done.stdout, reason in done.stderr) == (1, "", True)


def test_messages_without_effect_are_counted_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("1,7,B,5,100\n2,7,B,6,100\n3,8,B,0,100\n4,9,E,1,100\n")
    (tmp_path / "q.sql").write_text(
        "CREATE STREAM bids(t FLOAT, id INT, broker_id INT, volume FLOAT, price FLOAT) FROM FILE 'trace.csv'"
        " LINE DELIMITED orderbook (book := 'bids');\n"
        "CREATE VIEW lots AS SELECT SUM(volume) AS lots FROM bids;\n"
    )
    done = CliRunner().invoke(main, ["query", "run", "--lane", "express", "--json", str(tmp_path / "q.sql")])
    assert (done.exit_code, json.loads(done.stdout)["rows"]) == (0, [[5]])
    assert done.stderr.splitlines()[1:3] == [
        "1 messages had no effect: they add an order whose id is live",
        "1 messages had no effect: their volume is not from 1 to 2^62",
    ]
