"""The measured queries: their programs, and the SQL that DuckDB answers from scratch."""

from __future__ import annotations

from typing import Final

import msgspec

from queries import query_path
from runtime.compiler import NamedSelect, Program, compile_program, read_script

__all__ = ["BROKER_SUM", "CASES", "SIX", "WINDOWED", "Case", "program_of"]


class Case(msgspec.Struct, frozen=True):
    """A query of the benchmark."""

    name: str
    """Name in the keys of the figures."""
    sql: str
    """SQL as in ``queries/``."""
    relations: tuple[str, ...]
    """Relations that the query reads; a batch has events of these relations."""
    tuned: str
    """SQL of the same query tuned by hand for DuckDB: pairs are never built."""
    factor: int = 1
    """Factor that makes the last column of `sql` an integer; the other programs return that integer."""


_QUARTER: Final = """
WITH bid_levels AS (SELECT price, SUM(volume)::BIGINT AS volume FROM bids GROUP BY price),
     bid_sums AS (SELECT *, SUM(volume) OVER (ORDER BY price DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                              AS above, SUM(volume) OVER () AS total FROM bid_levels)"""
_TUNED: Final = {
    "vwap": f"{_QUARTER} SELECT SUM(price::HUGEINT * volume) FROM bid_sums WHERE total > 4 * above",
    "mst": f"""{_QUARTER},
     ask_levels AS (SELECT price, SUM(volume)::BIGINT AS volume, COUNT(*) AS n FROM asks GROUP BY price),
     ask_sums AS (SELECT *, SUM(volume) OVER (ORDER BY price DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                              AS above, SUM(volume) OVER () AS total FROM ask_levels),
     a AS (SELECT SUM(n) AS n, SUM(price * volume) AS value FROM ask_sums WHERE total > 4 * above),
     least AS (SELECT MIN(price) AS low, MAX(price) AS high FROM bid_sums WHERE total > 4 * above),
     b AS (SELECT broker_id, COUNT(*) AS n, SUM(price * volume) AS value
           FROM bids, least WHERE price BETWEEN low AND high GROUP BY broker_id)
SELECT broker_id, b.n * a.value - a.n * b.value FROM b, a WHERE a.n > 0""",
    "psp": """
WITH b AS (SELECT COUNT(*) AS n, SUM(price)::HUGEINT AS p FROM bids
           WHERE volume * {share} > (SELECT SUM(volume) FROM bids)),
     a AS (SELECT COUNT(*) AS n, SUM(price)::HUGEINT AS p FROM asks
           WHERE volume * {share} > (SELECT SUM(volume) FROM asks))
SELECT CASE WHEN b.n > 0 AND a.n > 0 THEN b.n * a.p - a.n * b.p END FROM a, b""",
    "bsv": """
SELECT broker_id, 5 * SUM(volume * price)::HUGEINT * SUM(volume * price)::HUGEINT FROM bids GROUP BY broker_id""",
    "bsp": """
WITH r AS (SELECT broker_id, volume * price AS v, ROW_NUMBER() OVER (PARTITION BY broker_id ORDER BY t) AS place,
                  COUNT(*) OVER (PARTITION BY broker_id) AS n FROM bids)
SELECT broker_id, SUM(v * (2 * place - n - 1)) FROM r WHERE n > 1 GROUP BY broker_id""",
    "axf": """
WITH b AS (SELECT broker_id, price, COUNT(*) AS n, SUM(volume)::BIGINT AS v FROM bids GROUP BY ALL),
     upto AS (SELECT broker_id, price, SUM(n) OVER w AS n, SUM(v) OVER w AS v FROM b
              WINDOW w AS (PARTITION BY broker_id ORDER BY price)),
     total AS (SELECT broker_id, SUM(n) AS n, SUM(v) AS v FROM b GROUP BY broker_id),
     a AS (SELECT broker_id, price, COUNT(*) AS n, SUM(volume)::BIGINT AS v FROM asks GROUP BY ALL),
     far AS (
       SELECT a.broker_id, a.n, a.v, u.n AS bn, u.v AS bv FROM a ASOF JOIN upto u
         ON a.broker_id = u.broker_id AND u.price < a.price - 1000
       UNION ALL
       SELECT a.broker_id, a.n, a.v, t.n - COALESCE(u.n, 0), t.v - COALESCE(u.v, 0)
         FROM (SELECT a.* FROM a WHERE a.price + 1000 < (SELECT MAX(price) FROM bids)) a
         JOIN total t ON a.broker_id = t.broker_id
         ASOF LEFT JOIN upto u ON a.broker_id = u.broker_id AND u.price <= a.price + 1000)
SELECT broker_id, SUM(v * bn - n * bv) FROM far WHERE bn > 0 GROUP BY broker_id""",
}


def _case(name: str, relations: tuple[str, ...], tuned: str, file: str = "") -> Case:
    sql = read_script(query_path(file or name)).selects[0].sql
    written = sql if name != "psph" else sql.replace("0.0001", "0.00005")
    return Case(name, written, relations, tuned, 10 if name == "bsv" else 1)


_BOTH: Final = ("bids", "asks")
CASES: Final = {
    case.name: case
    for case in (
        _case("axf", _BOTH, _TUNED["axf"]),
        _case("bsp", ("bids",), _TUNED["bsp"]),
        _case("bsv", ("bids",), _TUNED["bsv"]),
        _case("mst", _BOTH, _TUNED["mst"]),
        _case("psp", _BOTH, _TUNED["psp"].format(share=10_000)),
        _case("psph", _BOTH, _TUNED["psp"].format(share=20_000), "psp"),
        _case("vwap", ("bids",), _TUNED["vwap"]),
    )
}
"""Cases by name: the finance queries, and PSP with a constant that half of 20,000 orders satisfy."""
SIX: Final = ("axf", "bsp", "bsv", "mst", "psp", "vwap")
"""The six finance queries, which also run together."""
BROKER_SUM: Final = Case(
    "broker_sum",
    "SELECT broker_id, SUM(volume) AS volume FROM bids GROUP BY broker_id",
    ("bids",),
    "SELECT broker_id, SUM(volume) FROM bids GROUP BY broker_id",
)
"""The linear query whose cost is measured beside those of the finance queries."""

WINDOWED: Final = {
    case.name: case
    for case in (
        Case(
            "topk",
            """SELECT broker_id, price, volume
FROM (SELECT broker_id, price, SUM(volume) AS volume FROM bids GROUP BY broker_id, price) levels
QUALIFY ROW_NUMBER() OVER (PARTITION BY broker_id ORDER BY price DESC) <= 5""",
            ("bids",),
            """
SELECT broker_id, price, volume
FROM (SELECT broker_id, price, SUM(volume) AS volume FROM bids GROUP BY broker_id, price)
QUALIFY ROW_NUMBER() OVER (PARTITION BY broker_id ORDER BY price DESC) <= 5""",
        ),
        Case(
            "window",
            "SELECT id, price - LAG(price) OVER (PARTITION BY broker_id ORDER BY t, id) AS step FROM bids",
            ("bids",),
            "SELECT id, price - LAG(price) OVER (PARTITION BY broker_id ORDER BY t, id) AS step FROM bids",
        ),
    )
}
"""Cases with window functions: the five best levels of each broker, and each order beside the previous order."""


def program_of(*cases: Case) -> Program:
    """Return the view program of these queries together."""
    relations = read_script(query_path("vwap")).relations
    return compile_program([NamedSelect(case.name, case.sql) for case in cases], relations)
