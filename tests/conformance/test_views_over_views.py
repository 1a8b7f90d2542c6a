"""Views over random views, put into each other, are what DuckDB says of the same WITH from scratch at every version."""

from __future__ import annotations

import random

import pytest

from runtime.compiler import Column, SqlError
from tests.conformance.grammar import random_query
from tests.conformance.harness import Question, case_stream, check, compiled, explain_failure
from tests.conformance.oracle import Oracle
from tests.conformance.schema import RELATIONS
from tests.generators.database import kept

PAIRS = 60
MORE_PAIRS = 1_500


@kept
def oracle() -> Oracle:
    return Oracle(RELATIONS)


def over(rng: random.Random, name: str, columns: tuple[Column, ...]) -> str:
    """A query over a view with these columns."""
    names = [f'"{column.name}"' for column in columns]
    one, other = rng.choice(names), rng.choice(names)
    numbers = [f'"{column.name}"' for column in columns if column.type in ("int64", "int128") and not column.scale]
    condition = rng.choice([f"{one} IS NOT NULL", f"{one} = {one}", *(f"{number} % 3 <> 1" for number in numbers)])
    forms = [
        f"SELECT * FROM {name}",
        f"SELECT * FROM {name} WHERE {condition}",
        f"SELECT {one} AS x, COUNT(*) AS n, COUNT({other}) AS m FROM {name} WHERE {condition} GROUP BY {one}",
        f"SELECT a.{one} AS x, COUNT(*) AS n FROM {name} a JOIN {name} b ON a.{one} = b.{one} GROUP BY a.{one}",
        f"SELECT DISTINCT {one} AS x, {other} AS y FROM {name} WHERE {condition}",
        f"SELECT COUNT(*) AS n FROM {name} a WHERE EXISTS (SELECT 1 FROM {name} b WHERE b.{other} = a.{other})",
        f"SELECT a.{one} AS x, b.{other} AS y FROM {name} a LEFT JOIN {name} b ON a.{one} = b.{one}"
        + (f" AND b.{other} = a.{one}" if one == other else ""),
        (
            f"WITH {name} AS (SELECT {one} AS x FROM {name} WHERE {condition}) "
            f"SELECT x, COUNT(*) AS n FROM {name} GROUP BY x"
        ),
        f"SELECT {one} AS x FROM {name} WHERE {condition} UNION ALL SELECT {one} FROM {name}",
    ]  # fmt: skip
    if numbers:
        number = rng.choice(numbers)
        forms += [
            f"SELECT SUM({number}) AS s, COUNT(*) AS n FROM {name} WHERE {condition}",
            f"SELECT {one} AS x, SUM({number}) AS s FROM {name} GROUP BY {one} HAVING SUM({number}) > 0",
            f"SELECT {number} + 1 AS x, {one} AS y FROM {name} WHERE {number} > 0",
        ]
    return rng.choice(forms)


def question_of(seed: int) -> Question | None:
    """A random view, one over it and one over that; None where no view can be made over the first."""
    rng = random.Random(seed)
    queries = {"low": random_query(seed)}
    mode = "dbtoaster" if seed % 7 == 0 else "sql"
    for name, below in (("middle", "low"), ("high", "middle")):
        views = {view.name: view for view in compiled(Question(queries, mode)).views}  # type: ignore[arg-type]
        columns = views[below].columns
        if any(column.type == "float64" for column in columns):
            return None  # sums and equality of floats depend on how they were rounded
        queries[name] = over(rng, below, columns)
    return Question(queries, mode)  # type: ignore[arg-type]


def check_pair(seed: int) -> str:
    """Compare a pair; gives the class of the uppermost view, or nothing if there is no such pair."""
    question = question_of(seed)
    if question is None:
        return ""
    program = compiled(question)
    stream, shards = case_stream(program, seed)
    try:
        check(question, stream, oracle(), shards=shards, seed=seed, program=program)
    except Exception:  # noqa: BLE001 - whatever it is, the report is about it
        again = f"check_pair({seed})"
        pytest.fail(explain_failure(question, stream, oracle(), shards, seed, again), pytrace=False)
    return program.views[-1].view_class


@pytest.mark.parametrize("start", range(0, PAIRS, 20))
def test_random_views_over_views(start: int) -> None:
    classes = [check_pair(seed) for seed in range(start, start + 20)]
    assert set(classes) - {""}


@pytest.mark.slow
@pytest.mark.parametrize("start", range(PAIRS, PAIRS + MORE_PAIRS, 100))
def test_more_random_views_over_views(start: int) -> None:
    for seed in range(start, start + 100):
        check_pair(seed)


def test_a_view_that_cannot_be_compiled_is_not_read() -> None:
    with pytest.raises(SqlError, match="unknown column 'q'"):
        compiled(Question({"low": "SELECT q FROM bids", "high": "SELECT q FROM low"}))
