"""Every query of the corpus, over streams of inserts and deletes, is what DuckDB says from scratch at every version."""

from __future__ import annotations

from functools import cache

import pytest

from runtime.compiler import Program
from tests.conformance.corpus import cases
from tests.conformance.harness import case_stream, check, compiled, explain_failure
from tests.conformance.oracle import Oracle
from tests.conformance.schema import RELATIONS
from tests.generators.database import kept


@kept
def oracle() -> Oracle:
    return Oracle(RELATIONS)


@cache
def program(name: str) -> Program:
    return compiled(cases()[name].question)


def check_case(name: str, seed: int) -> None:
    case = cases()[name]
    stream, shards = case_stream(program(name), seed)
    try:
        check(case.question, stream, oracle(), shards=shards, seed=seed, program=program(name))
    except Exception:  # noqa: BLE001 - whatever it is, the report is about it
        again = f"python -m tests.conformance.fuzz --case {name} --seed {seed}"
        pytest.fail(explain_failure(case.question, stream, oracle(), shards, seed, again), pytrace=False)


def test_the_corpus_is_a_corpus() -> None:
    assert len({case.sql for case in cases().values()}) >= 110


@pytest.mark.parametrize("name", [name for name, case in cases().items() if case.view_class])
def test_class(name: str) -> None:
    case = cases()[name]
    view = program(name).views[0]
    assert view.view_class == case.view_class, view.reason


@pytest.mark.parametrize("name", cases())
def test_query(name: str) -> None:
    check_case(name, seed=sum(name.encode()))


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_query_over_more_streams(name: str) -> None:
    for seed in range(10):
        check_case(name, seed)
