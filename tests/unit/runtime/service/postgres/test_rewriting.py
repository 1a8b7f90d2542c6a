"""What tools ask of PostgreSQL's catalogue, as they write it, and what the rewriting leaves alone."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from asyncpg import introspection  # type: ignore[import-untyped]

from runtime.plan import Column
from runtime.service.postgres.parsing import parsed
from runtime.service.postgres.rewriting import SessionFacts, inferred_types, rewritten, session_macros
from runtime.service.postgres.settings import Settings
from runtime.service.postgres.statements import Question
from runtime.service.postgres.system_tables import ShownTable, SystemCatalogue

BIDS = ShownTable("bids", (Column("price", "int64"), Column("symbol", "string")), "r")
DEPTH = ShownTable("depth", (Column("lots", "int128", True), Column("value", "int128", True, 2)), "v", "SELECT 1")
SETTINGS = Settings("me").all()
CATALOGUE = SystemCatalogue([BIDS, DEPTH], SETTINGS)


def question(sql: str) -> Question:
    (statement,) = parsed(sql)
    assert isinstance(statement, Question)
    return statement


def asked(sql: str, *values: str) -> list[tuple[Any, ...]]:
    """The rows of a question about the catalogue."""
    written = rewritten(question(sql), values, SessionFacts("me", 17, SETTINGS), CATALOGUE.columns)
    assert written.is_moved
    beside = CATALOGUE.beside(written.sql)
    with duckdb.connect(":memory:") as connection:
        for number, (name, table) in enumerate(beside.tables.items()):
            connection.register(f"t{number}", table)
            connection.execute(f'CREATE TEMP VIEW "{name}" AS SELECT * FROM t{number}')
        for macro in beside.macros:
            connection.execute(macro)
        return connection.execute(written.sql).fetchall()


GRAFANA_TABLES = """
SELECT
  CASE WHEN
    quote_ident(table_schema) IN (
      SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user ELSE trim(s[i]) END
      FROM generate_series(
        array_lower(string_to_array(current_setting('search_path'),','),1),
        array_upper(string_to_array(current_setting('search_path'),','),1)) as i,
      string_to_array(current_setting('search_path'),',') s)
  THEN quote_ident(table_name)
  ELSE quote_ident(table_schema) || '.' || quote_ident(table_name)
  END AS "table"
FROM information_schema.tables
WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache')
ORDER BY 1
"""
GRAFANA_COLUMNS = """
SELECT quote_ident(column_name) AS "column", data_type AS "type"
FROM information_schema.columns
WHERE CASE WHEN array_length(parse_ident('depth'),1) = 2
  THEN quote_ident(table_schema) = (parse_ident('depth'))[1] AND quote_ident(table_name) = (parse_ident('depth'))[2]
  ELSE quote_ident(table_name) = 'depth' END
"""
DBEAVER_COLUMNS = """
SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid
FROM pg_catalog.pg_attribute a
INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid)
LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum)
LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid)
LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' and dep.refobjsubid = a.attnum
WHERE NOT a.attisdropped AND c.relkind not in ('i','I','c') AND c.oid = 'bids'::regclass ORDER BY a.attnum
"""
DBEAVER_TABLES = """
SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr,
  pg_catalog.pg_get_partkeydef(c.oid) as partition_key
FROM pg_catalog.pg_class c
LEFT OUTER JOIN pg_catalog.pg_description d
  ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass
WHERE c.relnamespace=2200 AND c.relkind not in ('i','I','c') ORDER BY relname
"""
JDBC_TABLES = """
SELECT NULL AS TABLE_CAT, n.nspname AS TABLE_SCHEM, c.relname AS TABLE_NAME,
  CASE n.nspname ~ '^pg_' OR n.nspname = 'information_schema'
  WHEN true THEN 'SYSTEM TABLE'
  WHEN false THEN CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END
  ELSE NULL END AS TABLE_TYPE, d.description AS REMARKS
FROM pg_catalog.pg_namespace n, pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_description d ON (c.oid = d.objoid AND d.objsubid = 0 and d.classoid = 'pg_class'::regclass)
WHERE c.relnamespace = n.oid AND n.nspname !~ '^(pg_catalog|information_schema)$'
ORDER BY TABLE_TYPE,TABLE_SCHEM,TABLE_NAME
"""
HSTORE = """
SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim AS delimiter
FROM pg_type t WHERE t.oid = to_regtype('hstore') ORDER BY t.oid
"""


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (GRAFANA_TABLES, [("bids",), ("depth",)]),
        (GRAFANA_COLUMNS, [("lots", "numeric"), ("value", "numeric")]),
        ("SELECT current_setting('server_version_num')::int/100 as version", [(1500,)]),
        ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", []),
        (JDBC_TABLES, [(None, "public", "bids", "TABLE", None), (None, "public", "depth", "VIEW", None)]),
        (HSTORE, []),
        ("SELECT typname, oid::regtype::text FROM pg_type t WHERE t.oid = to_regtype('bigint')", [("int8", "bigint")]),
        ("SELECT pg_catalog.format_type(1700, ((9 << 16) | 2) + 4), format_type(1016, -1)",
         [("numeric(9,2)", "bigint[]")]),
        ("SELECT relname FROM pg_class WHERE oid = 'public.bids'::regclass", [("bids",)]),
        ("SELECT c.oid::pg_catalog.regclass FROM pg_class c WHERE c.relname = 'depth'", [("depth",)]),
        ("SELECT nspname FROM pg_namespace n WHERE nspname OPERATOR(pg_catalog.~) '^pub' COLLATE pg_catalog.default",
         [("public",)]),
        ("SELECT current_schema(), current_database(), user, session_user, pg_backend_pid(), quote_ident('a')",
         [("public", "deltabook", "me", "me", 17, "a")]),
        ("SELECT table_name FROM information_schema.views", [("depth",)]),
        ("SELECT definition FROM pg_views; ", [("SELECT 1",)]),
        ("SELECT 1 FROM pg_class WHERE relkind = ANY ('{r}'::char[]) AND pg_table_is_visible(oid) AND oid > 16383",
         [(1,)]),
        ("SELECT json_build_object('a', oid) FROM pg_am", [('{"a":2}',)]),
    ],
)  # fmt: skip
def test_tools_find_relations_and_views(sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert asked(sql) == rows


def test_tools_find_columns() -> None:
    assert [row[:4] for row in asked(DBEAVER_COLUMNS)] == [
        ("bids", CATALOGUE._oids["bids"], "price", 20),
        ("bids", CATALOGUE._oids["bids"], "symbol", 25),
    ]
    assert [row[2] for row in asked(DBEAVER_TABLES)] == ["bids", "depth"]


def test_a_driver_learns_the_types_of_arrays() -> None:
    found = asked(introspection.INTRO_LOOKUP_TYPES, "CAST(ARRAY[1016] AS UINTEGER[])")
    assert [row[:3] for row in found] == [(20, "pg_catalog", "int8"), (1016, "pg_catalog", "_int8")]


def test_columns_keep_the_names_that_postgresql_gives_them() -> None:
    sql = "SELECT pg_catalog.version(), current_schema(), 'bids'::regclass"
    written = rewritten(question(sql), (), SessionFacts("me", 1, SETTINGS), CATALOGUE.columns)
    for name in ("version", "current_schema", "regclass"):
        assert f'AS "{name}"' in written.sql


def test_a_question_about_views_is_left_where_it_stands() -> None:
    sql = "SELECT b.price FROM public.bids b, deltabook.public.depth, \"public\".depth WHERE symbol = 'public.x'"
    written = rewritten(question(sql), (), SessionFacts("me", 1, SETTINGS), CATALOGUE.columns)
    assert not written.is_moved
    assert len(written.sql) == len(sql)
    assert written.sql.split() == (
        ["SELECT", "b.price", "FROM", "bids", "b,", "depth,", "depth", "WHERE", "symbol", "=", "'public.x'"]
    )


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT 7::BIGINT / 2 WHERE 'x' <> 'user'", [(3.5,)]),
        ("SELECT version FROM (VALUES (1), (NULL), (2)) t(version) ORDER BY version DESC LIMIT 1", [(2,)]),
        ("SELECT median(x) /* pg_class */ FROM range(5) t(x) -- 'a'::regclass", [(2.0,)]),
        ("SELECT operator, t.current_setting FROM (SELECT 1 AS operator, 2 AS current_setting) t ORDER BY ALL",
         [(1, 2)]),
        ("SELECT xor(5, 3), current_user, user, version() LIKE 'PostgreSQL %' AS version", [(6, "me", "me", True)]),
        ("SELECT current_schema(), current_database(), session_user, pg_backend_pid()",
         [("public", "deltabook", "me", 17)]),
    ],
)  # fmt: skip
def test_other_questions_are_in_the_sql_of_duckdb(sql: str, rows: list[tuple[Any, ...]]) -> None:
    """A word of PostgreSQL in a string, a comment or the name of a column does not change what a question means."""
    facts = SessionFacts("me", 17, SETTINGS)
    written = rewritten(question(sql), (), facts, CATALOGUE.columns)
    assert not written.is_moved
    with duckdb.connect(":memory:") as connection:
        for macro in session_macros(question(sql), facts):
            connection.execute(macro)
        assert connection.execute(written.sql).fetchall() == rows


def test_places_are_those_of_the_text_that_was_sent() -> None:
    sql = "SELECT $1, nothing, $2, more"
    written = rewritten(question(sql), ("'a long value'", "1"), SessionFacts("me", 1, SETTINGS), CATALOGUE.columns)
    for word in ("nothing", "more"):
        assert written.place(written.sql.index(word) + 1) == sql.index(word) + 1
    assert written.place(written.sql.index("long") + 1) == sql.index("$1") + 1
    assert written.place(1) == 1


@pytest.mark.parametrize(
    ("sql", "types"),
    [
        ("SELECT 1 FROM bids WHERE price > $1 AND symbol IN ($2, 'x') LIMIT $3",
         {1: "BIGINT", 2: "VARCHAR", 3: "BIGINT"}),
        ("SELECT $1::int + $2, $3", {1: "INTEGER", 2: "INTEGER"}),
        ("SELECT 1 FROM bids WHERE price BETWEEN $1 AND price + $2", {1: "BIGINT", 2: "BIGINT"}),
        ("SELECT 1 FROM depth HAVING SUM(value) > $1", {1: "DECIMAL(38,2)"}),
        ("SELECT any($1::oid[])", {1: "UINTEGER[]"}),
        ("SELECT $1::numeric, $2::numeric[]", {1: "DECIMAL(18,3)", 2: "DECIMAL(18,3)[]"}),
        ("SELECT $1::int+$2::int WHERE 'x' IN ($3,$4)", {1: "INTEGER", 2: "INTEGER", 3: "VARCHAR", 4: "VARCHAR"}),
        ("SELECT 1 FROM bids WHERE (symbol, price) > ($1, $2)", {1: "VARCHAR", 2: "BIGINT"}),
        ("SELECT 1 FROM bids WHERE lots > $1", {}),
        ("SELECT 1 FROM odd WHERE price = $1", {1: "VARCHAR"}),
        ("SELECT 1 FROM bids b, odd o WHERE b.price = $1 AND o.price = $2", {1: "BIGINT", 2: "VARCHAR"}),
        ("SELECT 1 FROM bids, odd WHERE price = $1", {}),
        ("SELECT 1 FROM (SELECT * FROM bids) b WHERE b.price > $1", {1: "BIGINT"}),
        ("SELECT ((( $1", {}),
        ("SELECT $1 operator(pg_catalog", {}),
        ("SELECT $1 operator(pg_catalog.=", {}),
    ],
)  # fmt: skip
def test_types_of_parameters_are_those_of_their_places(sql: str, types: dict[int, str]) -> None:
    columns = {**CATALOGUE.columns, "odd": {"price": "VARCHAR"}}
    assert inferred_types(question(sql), columns) == types
