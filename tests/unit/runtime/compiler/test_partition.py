"""A flow is spread by a key where, and only where, rows that are compared with one another have it in common."""

from __future__ import annotations

import pytest

from queries import query_path
from runtime.compiler import MARKET_RELATIONS, NamedSelect, Program, compile_program, explain, read_script
from runtime.plan import Flow


def partition(program: Program) -> str | None:
    (view,) = program.views
    assert isinstance(view.body, Flow)
    return view.body.shard_key(program.maps)


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT symbol, broker_id, MAX(price) AS m FROM bids GROUP BY symbol, broker_id", "symbol"),
        ("SELECT broker_id, COUNT(DISTINCT symbol) AS n FROM bids GROUP BY broker_id", "broker_id"),
        ("SELECT MAX(price) AS m FROM bids", None),
        ("SELECT MAX(m) AS n FROM (SELECT symbol, MAX(price) AS m FROM bids GROUP BY symbol) AS s", None),
        ("SELECT DISTINCT symbol, broker_id FROM bids", "symbol"),
        ("SELECT DISTINCT b.price FROM bids b JOIN asks a ON b.price = a.price", "price"),
        ("SELECT DISTINCT b.symbol FROM bids b JOIN asks a ON b.price = a.price", None),
        ("SELECT DISTINCT b.broker_id, b.price, a.price AS p FROM bids b JOIN asks a ON b.broker_id = a.price", None),
        ("SELECT b.symbol, MAX(a.price) AS m FROM bids b JOIN asks a ON b.broker_id = a.broker_id GROUP BY b.symbol",
         None),
        ("SELECT symbol FROM bids b WHERE NOT EXISTS (SELECT 1 FROM asks a WHERE a.symbol = b.symbol AND a.price > 3)",
         "symbol"),
        ("SELECT symbol FROM bids WHERE EXISTS (SELECT 1 FROM asks WHERE asks.price = 3)", None),
        ("SELECT symbol, price FROM bids WHERE price > (SELECT AVG(price) FROM bids)", None),
        ("SELECT symbol FROM bids UNION SELECT symbol FROM asks", "symbol"),
        ("SELECT symbol FROM bids EXCEPT SELECT symbol FROM asks", "symbol"),
        ("SELECT broker_id, price FROM bids EXCEPT SELECT price, broker_id FROM asks", None),
        ("SELECT x, MAX(v) AS m FROM (SELECT CAST(price AS DOUBLE) AS x, volume AS v FROM bids) AS s GROUP BY x", None),
        ("SELECT symbol, price FROM bids ORDER BY price DESC LIMIT 3", None),
    ],
)  # fmt: skip
def test_the_key_by_which_rows_meet(sql: str, key: str | None) -> None:
    program = compile_program([NamedSelect("v", sql)], MARKET_RELATIONS)
    assert partition(program) == key
    assert f"shards: {'all of it in one' if key is None else f'spread by {key}'}" in explain(program, "v")


@pytest.mark.parametrize("name", ["best_quote", "broker_volume", "imbalance", "trades_1s"])
def test_views_of_the_demo_are_spread_by_symbol(name: str) -> None:
    program = compile_program(read_script(query_path(name)).selects, MARKET_RELATIONS)
    assert partition(program) == "symbol"
