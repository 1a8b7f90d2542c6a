"""Statements: which of them have a question, and how many parameters it has."""

from __future__ import annotations

import pytest

from runtime.service.postgres.parsing import parsed
from runtime.service.postgres.statements import Question, question_of


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("SELECT $1", "SELECT $1"),
        ("DECLARE c CURSOR FOR SELECT $1", "SELECT $1"),
        ("COPY (SELECT $1) TO STDOUT", "SELECT $1"),
    ],
)
def test_parameters_are_those_of_the_question(text: str, sql: str) -> None:
    (statement,) = parsed(text)
    question = question_of(statement)
    assert question is not None
    assert (question.sql, question.parameters) == (sql, 1)


@pytest.mark.parametrize("text", ["BEGIN", "SHOW all", "FETCH c", "EXECUTE q (1)", "PREPARE q AS SELECT $1"])
def test_other_statements_have_none(text: str) -> None:
    (statement,) = parsed(text)
    assert question_of(statement) is None
    assert question_of(None) is None


def test_the_highest_number_counts() -> None:
    (question,) = parsed("SELECT $3, $1")
    assert isinstance(question, Question)
    assert question.parameters == 3
    assert Question("SELECT 1", 0).parameters == 0
