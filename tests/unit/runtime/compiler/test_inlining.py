"""Views over views: one query over relations, in the class that the same query written out has."""

from __future__ import annotations

import msgspec
import pytest
from sqlglot import exp, parse_one

from runtime.compiler import (
    MARKET_RELATIONS,
    Column,
    NamedSelect,
    Program,
    SqlError,
    compile_program,
    decode_program,
    encode_program,
    explain,
    extend_program,
)
from runtime.compiler.inlining import Definitions
from runtime.plan import Joined, Linear, ViewBody, readers_of, view_of

BIG = NamedSelect("big", "SELECT symbol, volume * 2 AS twice, price FROM bids WHERE volume >= 100")
SUMS = NamedSelect("sums", "SELECT symbol, COUNT(*), SUM(volume) AS lots FROM bids WHERE price > 1 GROUP BY symbol")


def program(*selects: NamedSelect | str) -> Program:
    """A program over the market; SELECTs without a name are v1, v2, …"""
    named = [
        NamedSelect(f"v{number}", one, 3, 5, "some.sql") if isinstance(one, str) else one
        for number, one in enumerate(selects)
    ]
    return compile_program(named, MARKET_RELATIONS)


def body_of(found: Program, name: str) -> ViewBody:
    """The body of a view with its maps as if it were alone."""
    return view_of(found, name).body


@pytest.mark.parametrize(
    ("over", "written"),
    [
        ("SELECT symbol, SUM(twice) AS s FROM big WHERE price > 3 GROUP BY symbol",
         "SELECT symbol, SUM(volume * 2) AS s FROM bids WHERE volume >= 100 AND price > 3 GROUP BY symbol"),
        ("SELECT * FROM big", BIG.sql),
        ("SELECT symbol, lots FROM sums WHERE lots > 7",
         "SELECT symbol, SUM(volume) AS lots FROM bids WHERE price > 1 GROUP BY symbol HAVING SUM(volume) > 7"),
        ("SELECT x.symbol, SUM(x.price * y.price) AS s FROM big x JOIN big y ON x.symbol = y.symbol GROUP BY x.symbol",
         ("SELECT x.symbol, SUM(x.price * y.price) AS s FROM bids x JOIN bids y ON x.symbol = y.symbol "
          "WHERE x.volume >= 100 AND y.volume >= 100 GROUP BY x.symbol")),
    ],
)  # fmt: skip
def test_plain_views_are_inlined_and_share_maps(over: str, written: str) -> None:
    found = program(BIG, SUMS, over, written)
    one, other = view_of(found, "v2"), view_of(found, "v3")
    assert one.view_class == other.view_class
    assert isinstance(one.body, Linear | Joined)
    assert [(c.type, c.nullable) for c in one.columns] == [(c.type, c.nullable) for c in other.columns]
    if isinstance(one.body, Linear):
        assert one.body.maps() == other.body.maps()
        assert len(one.body.maps()) == 1


@pytest.mark.parametrize(
    "over",
    [
        "SELECT symbol FROM big GROUP BY symbol HAVING COUNT(*) > 1",
        "SELECT a.symbol FROM big a LEFT JOIN big b ON a.price = b.price AND b.twice > 3",
        "WITH bids AS (SELECT * FROM asks) SELECT big.symbol FROM big JOIN bids ON big.price = bids.price",
        "WITH big AS (SELECT * FROM big) SELECT symbol FROM big",
        'SELECT "count_star()" AS n FROM sums ORDER BY lots LIMIT 2',
        "SELECT symbol FROM sums WHERE lots > (SELECT AVG(lots) FROM sums)",
        "SELECT symbol FROM bids WHERE EXISTS (SELECT 1 FROM sums WHERE sums.symbol = bids.symbol)",
        "SELECT symbol FROM big UNION SELECT symbol FROM sums",
    ],
)
def test_any_other_view_is_put_in_and_stays_incremental(over: str) -> None:
    assert view_of(program(BIG, SUMS, over), "v2").view_class != "reevaluated"


def test_a_with_table_hides_a_relation_but_no_views_source() -> None:
    over = "WITH bids AS (SELECT * FROM asks) SELECT big.symbol FROM big, bids WHERE big.price = bids.price"
    found = program(BIG, over)
    assert {found.maps[number].relation for number in view_of(found, "v1").body.maps()} == {"bids", "asks"}


def test_views_may_stand_in_any_order_and_keep_it() -> None:
    found = program("SELECT lots FROM sums", SUMS)
    assert [(view.name, view.home, view.reads) for view in found.views] == [
        ("v0", 0, ("sums",)), ("sums", 1, ("bids",)),
    ]  # fmt: skip


def test_a_view_that_is_named_twice_is_built_once() -> None:
    """Without a table of WITH a chain of views that each name the one before twice would be of exponential length."""
    chain = [NamedSelect("c0", "SELECT symbol, MAX(price) AS p FROM bids GROUP BY symbol")]
    for number in range(1, 12):
        below = f"c{number - 1}"
        sql = f"SELECT a.symbol, a.p FROM {below} a JOIN {below} b ON a.symbol = b.symbol"
        chain.append(NamedSelect(f"c{number}", sql))
    found = program(*chain)
    assert len(found.maps) == 1


@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("SELECT volume FROM big", "some.sql:3:12: unknown column 'volume'; the columns in scope are: big(symbol"),
        ("SELECT b.volume\nFROM big b", "some.sql:3:12: unknown column 'b.volume'; the columns in scope are: b(symbol"),
        ("SELECT 1 FROM bog",
         "some.sql:3:19: unknown relation 'bog'; the relations are: asks, bids, trades; the views are: big"),
        ("SELECT symbol FROM v1", "some.sql:3:24: expected a view that does not read itself, was 'v1'"),
    ],
)  # fmt: skip
def test_errors_have_the_place_in_the_view_that_reads(over: str, message: str) -> None:
    with pytest.raises(SqlError) as caught:
        program(BIG, over)
    assert str(caught.value).startswith(message)


def test_an_error_in_what_was_put_in_names_the_view() -> None:
    standing = program(BIG).views[0]
    mixed = msgspec.structs.replace(standing, sql="SELECT symbol, SUM(symbol), price FROM bids GROUP BY ALL")
    with pytest.raises(SqlError, match=r"f.sql:1:[0-9]+: in view big: expected SUM of a number"):
        compile_program(
            [NamedSelect("v", "SELECT COUNT(*) AS n FROM big", file="f.sql")], MARKET_RELATIONS, standing=[mixed]
        )


def test_new_views_read_standing_ones_and_share_their_maps() -> None:
    old = program(SUMS)
    new = extend_program(old, [NamedSelect("rich", "SELECT symbol FROM sums WHERE lots > 5"), BIG], MARKET_RELATIONS)
    assert new.views[0] == old.views[0]
    assert readers_of(new.views, "sums") == ("rich",)
    assert body_of(new, "rich").maps() == body_of(new, "sums").maps()


def test_records_of_earlier_versions_decode_and_views_read_them() -> None:
    plain = msgspec.msgpack.decode(encode_program(program(SUMS)))
    for view in plain["views"]:
        del view["reads"]
    old = decode_program(msgspec.msgpack.encode(plain))
    assert old.views[0].reads == ()
    new = extend_program(old, [NamedSelect("rich", "SELECT symbol FROM sums WHERE lots > 5")], MARKET_RELATIONS)
    assert new.views[1].reads == ("sums",)


def test_explain_shows_what_is_put_in_and_who_reads() -> None:
    found = program(BIG, SUMS, "SELECT big.symbol FROM big JOIN sums ON big.symbol = sums.symbol", "SELECT * FROM v2")
    text = explain(found, "v3")
    assert "  reads, put into it:\n    view v2\n      view big\n        bids\n      view sums\n        bids\n" in text
    assert "\n  read by: v2\n" in explain(found, "sums")
    assert "reads" not in explain(found, "big").partition("read by")[0]


def test_a_standing_view_with_other_columns_is_refused() -> None:
    other = msgspec.structs.replace(program(BIG).views[0], sql="SELECT symbol FROM bids")
    with pytest.raises(SqlError, match="expected 3 columns, as when it was added, was 1"):
        compile_program([NamedSelect("v", "SELECT symbol FROM big")], MARKET_RELATIONS, standing=[other])


def test_a_view_on_the_optional_side_of_a_join_is_a_subquery() -> None:
    """Its condition decides what matches, not which rows come out."""
    join = "SELECT a.symbol, b.twice FROM asks a LEFT JOIN {} b ON a.price = b.price"
    found = program(BIG, join.format("big"), join.format(f"({BIG.sql})"))
    assert body_of(found, "v1") == body_of(found, "v2")


def test_each_view_below_another_is_visited_once() -> None:
    """Each of 60 levels has two views that both read both views below, so that there are 2^60 paths through them."""
    views, columns, query = Definitions(), (Column("symbol", "string"),), parse_one("SELECT symbol FROM bids LIMIT 1")
    assert isinstance(query, exp.Query)
    below: tuple[str, ...] = ("bids",)
    for level in range(60):
        names = (f"left_{level}", f"right_{level}")
        for name in names:
            views.add(name, columns, query.copy(), below, (1,))
        below = names
    tree = parse_one("WITH bids AS (SELECT 'a' AS symbol) SELECT x.symbol AS symbol FROM left_59 AS x")
    assert isinstance(tree, exp.Query)
    assert "view: left_59" in views.opened(tree).sql()
