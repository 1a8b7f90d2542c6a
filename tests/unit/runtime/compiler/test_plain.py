"""VALUES, ANY and ALL, and rows IN a SELECT: what they compile to, and the errors with their places.

Their answers are compared with DuckDB's in tests/conformance.
"""

from __future__ import annotations

import pytest

from runtime.compiler import MARKET_RELATIONS, NamedSelect, SqlError, View, compile_program
from runtime.plan import BoundNode, Flow

SMALLEST = "SELECT id FROM bids WHERE price > {} (SELECT price FROM asks)"


def compiled(sql: str) -> View:
    return compile_program([NamedSelect("v", sql)], MARKET_RELATIONS).views[0]


@pytest.mark.parametrize("word", ["ANY", "SOME"])
def test_any_as_a_condition_is_one_moving_bound(word: str) -> None:
    """A change of the least price costs the bids that it passes, not all of them."""
    body = compiled(SMALLEST.format(word)).body
    assert isinstance(body, Flow)
    assert [type(node) for node in body.nodes].count(BoundNode) == 1


@pytest.mark.parametrize(
    ("sql", "view_class"),
    [
        (SMALLEST.format("ALL"), "ordered"),
        ("SELECT price > ANY (SELECT price FROM asks) AS x FROM bids", "ordered"),
        ("SELECT id FROM bids WHERE (id, price) IN (SELECT id, price FROM asks)", "multilinear"),
        ("SELECT id FROM bids WHERE (id, price) NOT IN (SELECT id, price FROM asks)", "multilinear"),
        ("SELECT b.id FROM bids b JOIN (VALUES (1), (2)) v(id) ON v.id = b.broker_id", "multilinear"),
        ("SELECT * FROM (VALUES (1, 'a'), (2, NULL)) v", "linear"),
    ],
)
def test_forms_are_incremental(sql: str, view_class: str) -> None:
    """None of them is computed from scratch."""
    assert compiled(sql).view_class == view_class


def test_values_name_their_columns_as_duckdb_does() -> None:
    """Names of the alias come first; columns without one are called col0, col1 and so on."""
    view = compiled("SELECT * FROM (VALUES (1, 'a', 2.5)) v(first)")
    assert [(column.name, column.type) for column in view.columns] == [
        ("first", "int64"),
        ("col1", "string"),
        ("col2", "int64"),
    ]


def test_many_values_compile() -> None:
    """They make a tree of eight levels, not a chain; one more is refused, as each is a part of the plan."""
    rows = ", ".join(f"({number})" for number in range(256))
    assert compiled(f"SELECT COUNT(*) AS n FROM (VALUES {rows}) v(x)").view_class == "linear"
    with pytest.raises(SqlError, match=r"expected at most 256 rows in VALUES, were 257: read more from a CREATE TABLE"):
        compiled(f"SELECT COUNT(*) AS n FROM (VALUES {rows}, (256)) v(x)")


@pytest.mark.parametrize(
    ("sql", "place", "reason"),
    [
        ("SELECT * FROM (VALUES (1, 2), (3)) v", "1:32", "expected rows of 2 values in VALUES, was a row of 1"),
        (
            "SELECT id FROM bids WHERE id > ANY (SELECT 1, 2)",
            "1:44",
            "expected a SELECT of one column in ANY, was of 2",
        ),
        ("SELECT id FROM bids WHERE (id, t) > ALL (SELECT 1, 2)", "1:28", "write (a, b) IN (SELECT …)"),
        ("SELECT id FROM bids WHERE id > ANY ([1, 2])", "1:38", "expected a SELECT in ANY (…), or IN (…)"),
        (
            "SELECT id FROM bids WHERE (id, t) IN (SELECT id FROM asks)",
            "1:46",
            "expected a SELECT of 2 columns, was of 1",
        ),
        (
            "SELECT id FROM bids b WHERE (id, t) IN (SELECT id, t FROM asks a WHERE a.price = b.price)",
            "1:82",
            "write EXISTS (SELECT … WHERE x = a AND y = b)",
        ),
    ],
)
def test_errors_name_the_place_and_what_works(sql: str, place: str, reason: str) -> None:
    """Each error has line and column."""
    with pytest.raises(SqlError) as caught:
        compiled(sql)
    assert f":{place}: " in str(caught.value)
    assert reason in str(caught.value)
