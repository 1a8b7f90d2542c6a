"""A question sees the tables that it is given and nothing of the machine, within its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runtime.compiler import Column, SqlError
from runtime.service.sandbox import AnswerRows, AskLimits, CostlyError
from runtime.service.sandbox.database import Sandbox
from runtime.service.sandbox.messages import Given, GivenTable

COLUMNS = (
    Column("a", "int64"),
    Column("wide", "int128"),
    Column("price", "int64", scale=2),
    Column('odd "name', "string"),
)
TABLE = pa.table(
    {
        "a": pa.array([1, 2], pa.int64()),
        "wide": pa.array([Decimal(10**30), Decimal(5)], pa.decimal128(38, 0)),
        "price": pa.array([Decimal("1.25"), Decimal("-0.50")], pa.decimal128(38, 2)),
        'odd "name': ["x", None],
    }
)  # fmt: skip
TABLES: Mapping[str, tuple[Sequence[Column], pa.Table]] = {"bids": (COLUMNS, TABLE)}
NOON_US = 1_577_880_000_000_000  # of 2020-01-01


def answered(sql: str, time_us: int | None = None, **limits: Any) -> AnswerRows:
    sandbox = Sandbox(AskLimits(**limits))
    try:
        given = Given(tuple(GivenTable(name, tuple(columns)) for name, (columns, _) in TABLES.items()), time_us)
        answer = sandbox.answer(sql, given, [rows for _, rows in TABLES.values()])
        return AnswerRows(answer.columns, pa.Table.from_batches(answer.batches, answer.schema))
    finally:
        sandbox.close()


def test_numbers_are_exact_and_columns_have_their_types() -> None:
    rows = answered('SELECT a, wide + 1 AS w, price * 2 AS p, "odd ""name" FROM bids ORDER BY a')
    assert [column.type for column in rows.columns][:2] == ["BIGINT", "HUGEINT"]
    assert [column.to_pylist() for column in rows.table.columns] == [
        [1, 2], [Decimal(10**30 + 1), Decimal(6)], [Decimal("2.50"), Decimal("-1.00")], ["x", None],
    ]  # fmt: skip


def test_an_empty_answer_has_its_columns() -> None:
    rows = answered("SELECT a FROM bids WHERE a > 9")
    assert (rows.table.num_rows, rows.table.schema.types) == (0, [pa.int64()])


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM '{file}'",
        'SELECT * FROM "{file}"',
        "COPY (SELECT 1) TO '{folder}/new.csv'",
        "ATTACH '{folder}/new.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '9GB'",
        "RESET lock_configuration",
        "SELECT getenv('HOME')",
        "SELECT * FROM COLUMNS_OF_PYTHON",
        "EXPORT DATABASE '{folder}/new'",
    ],
)
def test_unchecked_sql_reaches_nothing_of_the_machine(sql: str, tmp_path: Path) -> None:
    """The second line of defence alone: the text goes to DuckDB as it is."""
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    COLUMNS_OF_PYTHON = TABLE  # noqa: F841 - what a replacement scan would find
    with pytest.raises(SqlError):
        answered(sql.format(file=file, folder=tmp_path))
    assert list(tmp_path.iterdir()) == [file]


def test_duckdbs_message_has_its_place() -> None:
    with pytest.raises(SqlError) as caught:
        answered("SELECT a,\n       nope FROM bids")
    assert str(caught.value).startswith('question:2:8: Binder Error: Referenced column "nope" not found')
    with pytest.raises(SqlError) as caught:
        answered(f"SELECT {'a + ' * 60}nope + {'a + ' * 60}a FROM bids")
    assert (caught.value.line, caught.value.column) == (1, 8 + 4 * 60)
    with pytest.raises(SqlError, match="Conversion Error: Could not convert string 'x' to INT32"):
        answered('SELECT CAST("odd ""name" AS INTEGER) FROM bids')


def test_an_answer_has_so_many_rows_and_bytes() -> None:
    assert answered("SELECT * FROM range(50)", answer_rows=50).table.num_rows == 50
    with pytest.raises(CostlyError, match="expected an answer of at most 50 rows"):
        answered("SELECT * FROM range(51)", answer_rows=50)
    with pytest.raises(CostlyError, match="expected an answer of at most 500 bytes"):
        answered("SELECT repeat('x', 1000)", answer_bytes=500)


def test_memory_has_an_end() -> None:
    with pytest.raises(CostlyError, match="expected a question within 32 MiB of memory"):
        answered("SELECT list(range) FROM range(100000000)", memory_bytes=32 << 20)


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("epoch_us(now())", NOON_US),
        ("epoch_us(current_timestamp)", NOON_US),
        ("epoch_us(get_current_timestamp())", NOON_US),
        ("epoch_us(transaction_timestamp())", NOON_US),
        ("CAST(current_date AS VARCHAR)", "2020-01-01"),
        ("CAST(today() AS VARCHAR)", "2020-01-01"),
        ("year(localtimestamp)", 2020),
        ("CAST(age(TIMESTAMP '2019-01-01') AS VARCHAR)", "1 year"),
        ("CAST(age(TIMESTAMP '2020-01-01', TIMESTAMP '2018-01-01') AS VARCHAR)", "2 years"),
    ],
)
def test_the_clock_is_that_of_the_epoch(call: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that a question reads is as of the end of one epoch, and so is the time."""
    monkeypatch.setenv("TZ", "UTC")
    assert answered(f"SELECT {call} AS a", NOON_US).table.to_pylist() == [{"a": value}]


def test_an_epoch_without_a_time_has_none() -> None:
    rows = answered("SELECT now() AS a")
    assert ([column.type for column in rows.columns], rows.table.to_pylist()) == (
        ["TIMESTAMP WITH TIME ZONE"],
        [{"a": None}],
    )
