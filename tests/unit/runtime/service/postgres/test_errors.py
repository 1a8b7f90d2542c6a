"""Errors of questions as PostgreSQL's clients receive them: SQLSTATE, position and hint."""

from __future__ import annotations

import pytest

from runtime.compiler import SqlError
from runtime.service.asking import TooManyError
from runtime.service.at_epochs import EpochGoneError
from runtime.service.errors import ServiceError
from runtime.service.postgres.errors import PostgresError, explained
from runtime.service.sandbox import AskError, CostlyError


@pytest.mark.parametrize(
    ("reason", "sqlstate"),
    [
        ("unknown relation or view 'x'", "42P01"),
        ("Parser Error: syntax error", "42601"),
        ('Binder Error: Referenced column "x" not found', "42703"),
        ("Catalog Error: Scalar Function with name f does not exist", "42883"),
        ("Binder Error: anything else", "42000"),
        ("Conversion Error: x", "22P02"),
        ("something new", "XX000"),
    ],
)
def test_a_reason_of_duckdb_has_its_sqlstate(reason: str, sqlstate: str) -> None:
    assert explained(SqlError(reason)).sqlstate == sqlstate


@pytest.mark.parametrize(("line", "column", "position"), [(0, 0, 0), (1, 1, 1), (2, 3, 12), (3, 99, 17)])
def test_a_line_and_a_column_are_one_position(line: int, column: int, position: int) -> None:
    sql = "SELECT 1\n, x\n+ y"
    assert explained(SqlError("Parser Error", line=line, column=column), sql).position == position


@pytest.mark.parametrize(
    ("error", "sqlstate", "hint"),
    [
        (TooManyError("expected at most 2"), "53300", ""),
        (EpochGoneError("expected epoch 5"), "55000", "--retain-epochs"),
        (CostlyError("needs more memory"), "53200", ""),
        (CostlyError("expected an answer within 1 s"), "57014", ""),
        (CostlyError("expected an answer of at most 5 rows"), "54000", "DECLARE"),
        (AskError("Conversion Error: x"), "22P02", ""),
        (AskError("anything"), "55000", ""),
    ],
)
def test_limits_and_retired_epochs_have_theirs(error: ServiceError, sqlstate: str, hint: str) -> None:
    found = explained(error)
    assert found.sqlstate == sqlstate
    assert hint in found.hint


def test_an_error_of_the_port_is_kept() -> None:
    error = PostgresError("25006", "expected a SELECT", position=3)
    assert explained(error) is error
