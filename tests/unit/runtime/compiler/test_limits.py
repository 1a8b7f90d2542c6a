"""Sizes of queries: long lists are supported, what is too large is refused with its place, nothing else happens."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec
import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, SqlError, compile_program
from runtime.compiler.limits import MOST_CHARACTERS, MOST_NESTED
from runtime.plan import Call, decode_program, encode_program
from runtime.views.shard import ShardState

Shape = Callable[[int], str]


def terms(form: str, between: str) -> Shape:
    return lambda count: between.join(form.format(number) for number in range(1, count + 1))


TEXTS = terms("'{0}'", ", ")
LONG: dict[str, Shape] = {
    "sum": lambda n: f"SELECT SUM({terms('price * {0}', ' + ')(n)}) AS s FROM bids",
    "sum of sums": lambda n: f"SELECT {terms('SUM(price + {0})', ' + ')(n)} AS s FROM bids",
    "or": lambda n: f"SELECT COUNT(*) AS s FROM bids WHERE {terms('price = {0}', ' OR ')(n)}",
    "and": lambda n: f"SELECT COUNT(*) AS s FROM bids WHERE {terms('price <> {0}', ' AND ')(n)}",
    "in": lambda n: f"SELECT COUNT(*) AS s FROM bids WHERE price IN ({terms('{0}', ', ')(n)})",
    "not in, with NULL": lambda n: f"SELECT COUNT(*) AS s FROM bids WHERE price NOT IN (NULL, {terms('{0}', ', ')(n)})",
    "in strings": lambda n: f"SELECT COUNT(*) AS s FROM bids WHERE symbol IN ({TEXTS(n)})",
    "case": lambda n: f"SELECT SUM(CASE {terms('WHEN price = {0} THEN {0}', ' ')(n)} ELSE 0 END) AS s FROM bids",
    "columns": lambda n: f"SELECT {terms('SUM(price + {0}) AS s{0}', ', ')(n)} FROM bids",
    "coalesce": lambda n: f"SELECT SUM(COALESCE({terms('NULLIF(price, {0})', ', ')(n)})) AS s FROM bids",
}
DEEP: dict[str, tuple[str, int]] = {
    "brackets": (f"SELECT SUM({'(' * MOST_NESTED}price{')' * MOST_NESTED}) AS s FROM bids", 11 + MOST_NESTED),
    "signs": (f"SELECT SUM({'- ' * (MOST_NESTED + 1)}price) AS s FROM bids", 12 + 2 * MOST_NESTED),
    "nots": (f"SELECT COUNT(*) AS n FROM bids WHERE {'NOT ' * (MOST_NESTED + 1)}TRUE", 38 + 4 * MOST_NESTED),
    "subqueries": (f"SELECT * FROM {'(SELECT * FROM ' * 101}bids{')' * 101}", 15 + 15 * MOST_NESTED),
    "union": (" UNION ALL ".join(["SELECT price AS p FROM bids"] * 1_000), 8),
    "differences": (f"SELECT SUM({' - '.join(['price'] * 1_000)}) AS s FROM bids", 12),
    "sum of floats": (f"SELECT SUM({' + '.join(['price / 3'] * 1_000)}) AS s FROM bids", 12),
}


def around(before: str, inside: str, after: str) -> Callable[[int], list[str]]:
    return lambda levels: [f"SELECT {before * levels}{inside}{after * levels} AS x FROM bids"]


def subqueries(levels: int) -> list[str]:
    sql = "SELECT price AS a FROM bids"
    for _ in range(levels):
        sql = f"SELECT a + a AS a FROM ({sql})"
    return [sql]


def tables_of_with(levels: int) -> list[str]:
    tables = [f"w{n} AS (SELECT a * a AS a FROM w{n - 1})" for n in range(1, levels + 1)]
    return [f"WITH w0(a) AS (SELECT price FROM bids), {', '.join(tables)} SELECT a FROM w{levels}"]


def cubes(levels: int) -> list[str]:
    sql = "SELECT t, id, price FROM bids"
    for _ in range(levels):
        sql = f"SELECT t, id, COUNT(*) AS price FROM ({sql}) GROUP BY CUBE (t, id)"
    return [sql]


GROWING: dict[str, Callable[[int], list[str]]] = {
    "ABS": around("ABS(", "price", ")"),
    "BETWEEN": around("(", "(price = 1)", " BETWEEN FALSE AND TRUE)"),
    "CASE of a value": around("CASE ", "price", " WHEN 1 THEN 2 WHEN 2 THEN 3 ELSE 4 END"),
    "FLOOR": around("FLOOR(", "price", " / 2)"),
    "IN": around("(", "(price = 1)", " IN (TRUE, FALSE, NULL))"),
    "IS DISTINCT FROM": around("(", "(price = 1)", " IS DISTINCT FROM TRUE)"),
    "NULLIF": around("NULLIF(", "price", ", 1)"),
    "a macro of DuckDB": around("FMOD(", "price", ", 7)"),
    "a divisor": around("LENGTH(symbol) / (", "price", ")"),
    "columns of a SELECT": lambda levels: [
        f"SELECT price AS a0, {', '.join(f'a{n} + a{n} AS a{n + 1}' for n in range(levels))} FROM bids"
    ],
    "subqueries": subqueries,
    "WITH": tables_of_with,
    "views": lambda levels: [
        "SELECT price AS a FROM bids",
        *(f"SELECT a + a AS a FROM v{number}" for number in range(levels)),
    ],
    "views with unnamed columns": lambda levels: [
        "SELECT price AS a FROM bids",
        "SELECT a + a FROM v0",
        *(f'SELECT x.a + x.a AS b, 1 AS c FROM v{number} x("a")' for number in range(1, levels)),
    ],
    "CUBE": cubes,
}
"""Queries whose text grows by a few words with each level, and what it stands for by a factor."""


def compiled(sql: str) -> Program:
    return compile_program([NamedSelect("v", sql)], MARKET_RELATIONS)


@pytest.mark.parametrize("shape", LONG)
def test_long_lists_become_programs_that_run(shape: str) -> None:
    """A program that compiles must also travel to a worker and be built there, within Python's usual limits."""
    program = decode_program(encode_program(compiled(LONG[shape](500))))
    ShardState(program, 0, 1, inputs="relations")


@pytest.mark.parametrize("shape", GROWING)
def test_a_query_that_doubles_with_each_level_is_refused(shape: str) -> None:
    """A program is committed with an epoch: 14 calls of ABS inside each other made one of 300 MB."""

    def program(levels: int) -> Program:
        selects = [NamedSelect(f"v{number}", sql) for number, sql in enumerate(GROWING[shape](levels))]
        return compile_program(selects, MARKET_RELATIONS)

    assert len(encode_program(program(3))) < 100_000
    with pytest.raises(SqlError, match=r"^v\d+:1:\d+: expected a query that has at most 10000 parts more"):
        program(40)


def test_a_product_of_many_sums_is_not_multiplied_out() -> None:
    total = " + ".join(f"{table}.{column}" for table in "ba" for column in ("t", "id", "volume", "price", "broker_id"))
    sql = f"SELECT SUM({' * '.join([f'({total})'] * 9)}) AS s FROM bids b JOIN asks a ON a.symbol = b.symbol"
    assert compiled(sql).views[0].reason.startswith("operators over 2 relations")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"SELECT {'9' * 5_000} AS x FROM bids", "v:1:8: expected a number of at most 400 digits"),
        (f"SELECT 0.{'0' * 5_000}1 AS x FROM bids", "v:1:8: expected a number of at most 400 digits"),
        ("SELECT '\udc80' AS x FROM bids", "v:1:9: expected characters of Unicode"),
    ],
)
def test_an_unusual_constant_is_refused_with_its_place(sql: str, expected: str) -> None:
    with pytest.raises(SqlError) as raised:
        compiled(sql)
    assert str(raised.value).startswith(expected)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["or", "in", "in strings", "case"])
def test_lists_of_ten_thousand_become_programs_that_run(shape: str) -> None:
    ShardState(decode_program(encode_program(compiled(LONG[shape](10_000)))), 0, 1, inputs="relations")


@pytest.mark.parametrize("shape", DEEP)
def test_what_is_too_deep_is_refused_with_its_place(shape: str) -> None:
    sql, column = DEEP[shape]
    before = sys.getrecursionlimit()
    with pytest.raises(SqlError, match=r"^v:1:[0-9]+: expected .*at most ") as raised:
        compiled(sql)
    assert (raised.value.line, raised.value.column) == (1, column)
    assert sys.getrecursionlimit() == before


def test_the_deepest_brackets_are_accepted() -> None:
    depth = MOST_NESTED - 1  # SUM has one of its own
    assert compiled(f"SELECT SUM({'(' * depth}price{')' * depth}) AS s FROM bids").views[0].view_class == "linear"


def test_a_query_too_long_is_refused() -> None:
    with pytest.raises(SqlError, match=f"at most {MOST_CHARACTERS} characters"):
        compiled(f"SELECT COUNT(*) AS n FROM bids --{'x' * MOST_CHARACTERS}")


def depth(part: object) -> int:
    """How deeply operations are nested in a part of a program."""
    if isinstance(part, Call):
        return 1 + max(map(depth, part.args), default=0)
    if isinstance(part, tuple | list):
        return max(map(depth, part), default=0)
    return max(map(depth, msgspec.structs.astuple(part)), default=0) if isinstance(part, msgspec.Struct) else 0


def test_only_exact_sums_are_balanced() -> None:
    """Sums of floats are not associative: a chain of them is computed as it is written."""
    exact, rounded = " + ".join(["price * 3"] * 40), " + ".join(["price / 3"] * 40)
    assert depth(compiled(f"SELECT price, {exact} AS s FROM bids")) < 10
    assert depth(compiled(f"SELECT price, {rounded} AS s FROM bids")) >= 40


@pytest.mark.parametrize(
    "levels",
    [
        ("CHR(ASCII(", "symbol", "))"),
        ("CAST(CAST(", "price", " AS VARCHAR) AS BIGINT)"),
        ("TRY_CAST(", "price / 3", " AS DECIMAL(10, 1))"),
        ("(", "DATE '2024-02-29'", " + INTERVAL (price) DAY)"),
        ("-", "CAST(price AS DOUBLE)", ""),
        ("EXTRACT(year FROM DATE '2024-02-29' + CAST(", "price", " AS INTEGER))"),
    ],
)
def test_calls_of_duckdb_may_be_nested(levels: tuple[str, str, str]) -> None:
    """Each call was rewritten two or three times, so that 18 inside each other took minutes."""
    before, inside, after = levels
    made = compiled(f"SELECT {f'{before} ' * 18}{inside}{after * 18} AS x FROM bids")
    assert made.views[0].view_class in ("reevaluated", "linear")
