"""Views are compiled behind those that they read; circles are refused where they are closed."""

from __future__ import annotations

import pytest

from runtime.compiler import NamedSelect, SqlError, names_read
from runtime.compiler.compile import in_order
from runtime.compiler.limits import MOST_NESTED


def select(name: str, *read: str) -> NamedSelect:
    """A view that reads these."""
    return NamedSelect(name, f"SELECT 1 AS x FROM {', '.join(read or ('bids',))}", 2, 3, "f.sql")


def test_views_that_read_nothing_of_each_other_stay_as_they_are() -> None:
    selects = [select("b"), select("a"), select("c")]
    assert in_order(selects) == selects


def test_each_view_comes_behind_what_it_reads() -> None:
    selects = [select("a", "b", "c"), select("b", "c"), select("c"), select("d", "a")]
    assert [one.name for one in in_order(selects)] == ["c", "b", "a", "d"]


def test_a_circle_is_refused_where_it_is_closed() -> None:
    with pytest.raises(SqlError) as caught:
        in_order([select("a", "b"), select("b", "c"), select("c", "a")])
    assert str(caught.value) == (
        "f.sql:2:22: expected views that do not read each other in a circle, was a → b → c → a"
    )


def test_a_table_of_with_is_no_view() -> None:
    own = NamedSelect("a", "WITH a AS (SELECT 1 AS x FROM bids) SELECT x FROM a")
    assert in_order([own]) == [own]
    assert names_read(own) == ("bids",)


def test_names_are_read_from_the_deepest_brackets() -> None:
    """The parser needs more nested calls for them than Python allows by default."""
    own = NamedSelect("a", f"SELECT {'(' * MOST_NESTED}price{')' * MOST_NESTED} AS x FROM bids")
    assert names_read(own) == ("bids",)
