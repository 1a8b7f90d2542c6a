"""The compiler's refusals, with positions; sharing of maps; what explain says of every shipped query."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import msgspec
import pytest

from queries import QUERIES_DIR, query_path
from runtime.compiler import (
    MARKET_RELATIONS,
    Call,
    Col,
    Column,
    Lit,
    NamedSelect,
    Program,
    Reevaluated,
    Relation,
    SqlError,
    compile_program,
    decode_program,
    describe,
    encode_program,
    explain,
    extend_program,
    read_script,
)
from runtime.plan import Flow, WindowNode

GOLDEN = Path(__file__).parent / "golden"
SHIPPED = sorted(path.stem for path in QUERIES_DIR.glob("*.sql") if read_script(path).selects)
LOG = Relation("log", (Column("a", "int64"), Column("b", "int64")))


def program(*queries: str) -> Program:
    """A program of the views v1, v2, …"""
    selects = [NamedSelect(f"v{number}", sql, 3, 5, "some.sql") for number, sql in enumerate(queries, 1)]
    return compile_program(selects, (*MARKET_RELATIONS, LOG))


def explained(name: str) -> str:
    """What explain says of a shipped query."""
    script = read_script(query_path(name))
    return explain(compile_program(script.selects, script.relations or MARKET_RELATIONS), name)


@pytest.mark.parametrize("name", SHIPPED)
def test_explain_of_the_shipped_queries(name: str) -> None:
    """Run this file as a program to write the golden files again, and read the difference."""
    assert explained(name) == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT b.prize FROM bids b",
         "some.sql:3:12: unknown column 'b.prize'; the columns in scope are: b(t, id, broker_id, volume, price"),
        ("SELECT prize FROM bids b, asks", "some.sql:3:12: unknown column 'prize'; the columns in scope are: b(t, id"),
        ("SELECT price\nFROM bids,\n  asks", "some.sql:3:12: expected one of bids.price, asks.price, was the"),
        ("SELECT 1 FROM bids WHERE\n  zz > 1", "some.sql:4:3: unknown column 'zz'"),
        ("SELECT (SELECT MAX(q) FROM asks) FROM bids", "some.sql:3:24: unknown column 'q'; the columns in"),
        ("SELECT 1 FROM bid", "some.sql:3:19: unknown relation 'bid'; the relations are: asks, bids, log, trades"),
        ("SELECT SUM(price FROM bids", "some.sql:3:22: expected ')', was 'FROM'"),
        ("SELECT price FROM", "some.sql:3:18: expected a table name, near 'FROM'"),
        ("SELECT price FROM bids WHERE", "some.sql:3:28: expected an expression in WHERE, near 'WHERE'"),
        ("SELECT price p q FROM bids", "some.sql:3:20: expected an operator, a clause or the end of the query, was"),
        ("SELECT price, SUM(volume) FROM bids", "some.sql:3:12: Binder Error: column \"price\" must appear in"),
        ("SELECT t FROM bids WHERE t > today()", "some.sql:3:34: expected functions of the rows alone, was "),
        ("SELECT t, CURRENT_DATE FROM bids", "some.sql:3:5: expected functions of the rows alone"),
        ("SELECT t FROM bids WHERE random() > 0.5", "some.sql:3:30: expected functions of the rows alone"),
        ("SELECT ANY_VALUE(price) FROM bids", "some.sql:3:22: expected any_value(… ORDER BY …)"),
        ("SELECT symbol + 1 FROM bids", "some.sql:3:12: expected a number, was \"bids\".\"symbol\", a string"),
        ("SELECT price FROM bids WHERE symbol > price", "some.sql:3:34: expected values that can be compared"),
        ("SELECT price FROM bids WHERE price", "some.sql:3:34: expected a condition, was integer"),
        ("SELECT price FROM bids UNION SELECT price, t FROM asks", "some.sql:3:41: expected 1 columns, was 2"),
        ("SELECT price FROM bids UNION SELECT symbol FROM asks", "some.sql:3:41: expected one type for 'price'"),
        ("SELECT nonsense(price) FROM bids", "some.sql:3:12: DuckDB refuses NONSENSE("),
        ("SELECT DISTINCT ON (t) t, price FROM bids", "some.sql:3:25: DISTINCT ON is not supported"),
        ("SELECT * FROM range(3)", "some.sql:3:19: expected a relation, was a table function"),
        ("SELECT 100000000000000000000000000000000000000000 FROM bids", "some.sql:3:12: expected a number of at most"),
    ],
)  # fmt: skip
def test_refusals_say_where_and_what(sql: str, message: str) -> None:
    with pytest.raises(SqlError) as error:
        program(sql)
    assert str(error.value).startswith(message)


def test_names_are_taken_once() -> None:
    with pytest.raises(SqlError, match="expected a new name for the view, was 'bids'"):
        compile_program([NamedSelect("bids", "SELECT 1 FROM asks")], MARKET_RELATIONS)


def test_sizes_of_a_decimal_are_numbers() -> None:
    with pytest.raises(SqlError, match="DuckDB refuses CAST"):
        program("SELECT CAST(price AS DECIMAL(a, 1)) AS x FROM bids")


def test_distinct_values_are_counted_one_at_a_time() -> None:
    """DuckDB refuses several values, which MySQL counts without NULL; it has rows for the purpose."""
    with pytest.raises(SqlError, match=r"^some\.sql:3:12: expected one value in COUNT\(DISTINCT …\), was 2: COUNT"):
        program("SELECT COUNT(DISTINCT t, id) AS n FROM bids")
    (view,) = program("SELECT COUNT(DISTINCT ROW(t, id)) AS n FROM bids").views
    assert view.view_class == "reevaluated"


@pytest.mark.parametrize("call", ["MAX()", "MIN()", "ARG_MIN(price)", "FLOOR()", "SUM()"])
def test_a_call_without_its_argument_is_refused(call: str) -> None:
    with pytest.raises(SqlError, match=f"expected an expression in {call.partition('(')[0]}"):
        program(f"SELECT {call} AS x FROM bids")


def test_every_description_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB has CHR of narrow integers only, so that the query is described a second time, over narrow columns."""
    limits: list[float] = []

    def time_limit(connection: object, seconds: float) -> AbstractContextManager[None]:
        del connection
        limits.append(seconds)
        return nullcontext()

    monkeypatch.setattr(describe, "time_limit", time_limit)
    describer = describe.Describer([Relation("numbers", (Column("x", "int64"),))])
    assert describer.names("SELECT CHR(x) AS c FROM numbers") == ["c"]
    assert limits == [describe.DESCRIBE_S] * 2
    describer.close()


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT price, NTILE(4) OVER (ORDER BY price) AS n FROM bids", "the window function NTILE"),
        ("SELECT price, ROW_NUMBER() OVER (ORDER BY price) AS n FROM bids",
         "operators over one relation, window functions over rows in order"),
        ("SELECT SUM(price * 1e0) AS x FROM bids", "float SUM: floats cannot be subtracted exactly"),
        ("SELECT MEDIAN(price) AS m FROM bids",
         "operators over one relation, one grouping, quantiles in an ordered index"),
        ("SELECT MODE(price) AS m FROM bids", "MODE cannot be maintained by addition and subtraction"),
        ("SELECT UPPER(symbol) AS u FROM bids", "the function UPPER"),
        ("SELECT x.id, SUM(x.price * y.price) FROM bids x, asks y WHERE x.t < y.t AND x.id = y.id GROUP BY x.id",
         "sums over a join of 2 relations, by equality of id and a range of t"),
    ],
)  # fmt: skip
def test_reasons_are_in_plain_words(sql: str, reason: str) -> None:
    assert program(sql).views[0].reason.split(";")[0] == reason


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("SELECT price, volume FROM bids QUALIFY ROW_NUMBER() OVER (ORDER BY price DESC) <= 5", ("row_number", 5)),
        ("SELECT * FROM (SELECT price, RANK() OVER (ORDER BY price) AS n FROM bids) x WHERE n < 3", ("rank", 2)),
        ("SELECT price FROM bids QUALIFY DENSE_RANK() OVER (ORDER BY price) = 1", ("dense_rank", 1)),
        ("SELECT price FROM bids QUALIFY ROW_NUMBER() OVER (ORDER BY price) > 5", None),
        ("SELECT price, LEAD(t) OVER (ORDER BY price) FROM bids QUALIFY ROW_NUMBER() OVER (ORDER BY price) <= 5", None),
    ],
)  # fmt: skip
def test_a_condition_on_a_ranking_limits_it(sql: str, reads: tuple[str, int] | None) -> None:
    """A function that looks behind a row needs the rows behind the limit."""
    body = program(sql).views[0].body
    assert isinstance(body, Flow)
    (window,) = (node for node in body.nodes if isinstance(node, WindowNode))
    assert window.limit == reads
    assert not any(function.name == "window_row_number" for function in window.functions) or reads is None


def test_a_growing_relation_may_be_summed() -> None:
    assert program("SELECT b, SUM(a) FROM log GROUP BY b").views[0].view_class == "linear"


def test_equal_maps_are_shared() -> None:
    made = program(
        "SELECT symbol, price, SUM(volume) AS v FROM bids GROUP BY symbol, price",
        "SELECT price, symbol, SUM(volume) * 2 AS w FROM bids GROUP BY price, symbol",
        "SELECT MAX(price) AS x FROM bids",
        "SELECT DISTINCT price FROM bids",
    )
    assert len(made.maps) == 2
    assert "shared by v1, v2" in explain(made, "v1")


def test_conditions_on_one_relation_go_into_its_map() -> None:
    """Then the map need not hold their columns; an outer join keeps the conditions of its optional side."""
    made = program("SELECT MAX(b.price) AS x FROM bids b, asks a WHERE b.symbol = 'A' AND a.symbol = 'B' AND a.t = b.t")
    conditions = {part.relation: part.where for part in made.maps}
    assert conditions["bids"] == Call("eq", (Col("symbol"), Lit("A")))
    assert {key.name for part in made.maps for key in part.keys} == {"price", "t"}
    outer = program("SELECT b.t FROM bids b LEFT JOIN asks a ON a.t = b.t WHERE a.symbol = 'B'")
    assert all(part.where is None for part in outer.maps)


def test_a_column_called_weight_does_not_clash() -> None:
    relation = Relation("n", (Column("weight", "int64"), Column("k", "int64")))
    made = compile_program([NamedSelect("v", "SELECT k, MODE(weight) AS m FROM n GROUP BY k")], [relation])
    body = made.views[0].body
    assert isinstance(body, Reevaluated)
    assert {key.name for key in made.maps[0].keys} == {"weight_", "k"}
    assert '"weight_" AS "weight"' in body.query


def test_keys_and_sums_of_a_map_have_different_names() -> None:
    """A column may be called as the compiler calls a sum or an expression that is a key."""
    relation = Relation("r", tuple(Column(name, "int64") for name in ("sum_1", "key_1", "a")))
    select = NamedSelect("v", "SELECT sum_1, SUM(a), a + 1, key_1 FROM r GROUP BY sum_1, a + 1, key_1")
    (part,) = compile_program([select], [relation]).maps
    names = [*(key.name for key in part.keys), *(total.name for total in part.sums)]
    assert len(set(names)) == len(names) == 4


def test_columns_are_named_as_duckdb_names_them() -> None:
    made = program("SELECT Symbol, SUM(volume), COUNT(*), price AS Price2, price AS price2 FROM bids GROUP BY ALL")
    names = [column.name for column in made.views[0].columns]
    assert names == ["symbol", "sum(volume)", "count_star()", "price2", "price2_1"]


def test_nothing_summed_is_null_or_zero() -> None:
    null = program("SELECT SUM(price) AS x, COUNT(*) AS c, AVG(price) AS m FROM bids").views[0]
    assert [column.nullable for column in null.columns] == [True, False, True]
    zero = compile_program([NamedSelect("v", "SELECT SUM(price) AS x FROM bids")], MARKET_RELATIONS, mode="dbtoaster")
    assert zero.views[0].columns == (Column("x", "int128"),)


def test_a_view_of_older_sql_hinders_only_its_readers() -> None:
    """A standing view keeps its compiled form, so SQL that is refused since must not stop the addition of others."""
    standing = compile_program(
        [NamedSelect("old", "SELECT price FROM bids"), NamedSelect("over", "SELECT price FROM old")], MARKET_RELATIONS
    )
    first, second = standing.views
    refused = msgspec.structs.replace(first, sql="SELECT price FROM bids FOR UPDATE")
    program = msgspec.structs.replace(standing, views=(refused, second))
    added = extend_program(program, [NamedSelect("new", "SELECT id FROM bids")], MARKET_RELATIONS)
    assert [view.name for view in added.views] == ["old", "over", "new"]
    for name in ("old", "over"):
        with pytest.raises(SqlError, match=rf"^v:1:19: expected a view whose SQL can be read, was '{name}': view"):
            extend_program(program, [NamedSelect("v", f"SELECT price FROM {name}")], MARKET_RELATIONS)


def test_explain_names_the_views_there_are() -> None:
    with pytest.raises(KeyError, match="v1"):
        explain(program("SELECT 1 FROM bids"), "v2")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n, 5000000000000000000 * 4 AS x FROM bids",
        "SELECT id FROM bids WHERE volume * 0.5 > 9000000000000000000",
        "SELECT symbol, SUM(volume) * 0.0000000000000000000005 + 3 AS s FROM bids GROUP BY symbol",
        "SELECT COUNT(*) AS n, " + " * ".join(["9000000000000000000"] * 18) + " / 3 AS x FROM bids",
    ],
)
def test_constants_of_any_width_can_be_stored(sql: str) -> None:
    """A program has constants of 64 bits at most; a view that needs wider ones gets another class."""
    made = program(sql)
    assert decode_program(encode_program(made)) == made


if __name__ == "__main__":
    for shipped in SHIPPED:
        (GOLDEN / f"{shipped}.txt").write_text(explained(shipped))
