"""``deltabook query run`` and ``explain`` take several files, and name the views that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from deltabook.cli import main
from queries import QUERIES_DIR


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
    shipped = [str(path) for path in QUERIES_DIR.glob("*.sql")]
    assert CliRunner().invoke(main, ["query", "explain", *shipped]).exit_code == 0


@pytest.mark.parametrize(
    ("name", "reason"), [("empty.sql", "expected at least one SELECT, was none in "), ("", "was the folder '")]
)
def test_a_file_without_views_is_not_explained(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "empty.sql").touch()
    done = CliRunner().invoke(main, ["query", "explain", str(tmp_path / name)])
    assert (done.exit_code, done.stdout, reason in done.stderr) == (1, "", True)
