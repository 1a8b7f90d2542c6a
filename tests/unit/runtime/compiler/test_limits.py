"""Sizes of queries: long lists are supported, what is too large is refused with its place, nothing else happens."""

from __future__ import annotations

import sys
from collections.abc import Callable

import msgspec
import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, SqlError, compile_program
from runtime.compiler.limits import MOST_BYTES, MOST_NESTED
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


def compiled(sql: str) -> Program:
    return compile_program([NamedSelect("v", sql)], MARKET_RELATIONS)


@pytest.mark.parametrize("shape", LONG)
def test_long_lists_become_programs_that_run(shape: str) -> None:
    """A program that compiles must also travel to a worker and be built there, within Python's usual limits."""
    program = decode_program(encode_program(compiled(LONG[shape](500))))
    ShardState(program, 0, 1, inputs="relations")


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
    with pytest.raises(SqlError, match=f"at most {MOST_BYTES} characters"):
        compiled(f"SELECT COUNT(*) AS n FROM bids --{'x' * MOST_BYTES}")


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
