"""The statements of DuckDB's own PostgreSQL reader (1.5.5), as a proxy between it and the port has recorded them.

The reader itself is an extension that has to fit DuckDB's version to the letter, and is not on the index for ours.
"""

from __future__ import annotations

import pytest

from tests.generators.postgres_lab import PostgresLab, fields_of, rows_of

TABLES = """SELECT pg_namespace.oid AS namespace_id, relname, relpages, attname,
    pg_type.typname type_name, atttypmod type_modifier, pg_attribute.attndims ndim,
    attnum, pg_attribute.attnotnull AS notnull, NULL constraint_id,
    NULL constraint_type, NULL constraint_key, type_ns.nspname AS type_schema,
    col_desc.description AS column_comment,
    tbl_desc.description AS table_comment
FROM pg_class
JOIN pg_namespace ON relnamespace = pg_namespace.oid
JOIN pg_attribute ON pg_class.oid=pg_attribute.attrelid
JOIN pg_type ON atttypid=pg_type.oid
JOIN pg_namespace type_ns ON pg_type.typnamespace = type_ns.oid
LEFT JOIN pg_description col_desc ON col_desc.objoid=pg_class.oid AND col_desc.objsubid=pg_attribute.attnum
LEFT JOIN pg_description tbl_desc ON tbl_desc.objoid=pg_class.oid AND tbl_desc.objsubid=0
WHERE attnum > 0 AND relkind IN ('r', 'v', 'm', 'f', 'p')
UNION ALL
SELECT pg_namespace.oid AS namespace_id, relname, NULL relpages, NULL attname, NULL type_name,
    NULL type_modifier, NULL ndim, NULL attnum, NULL AS notnull,
    pg_constraint.oid AS constraint_id, contype AS constraint_type,
    conkey AS constraint_key, NULL AS type_schema,
    NULL AS column_comment, NULL AS table_comment
FROM pg_class
JOIN pg_namespace ON relnamespace = pg_namespace.oid
JOIN pg_constraint ON (pg_class.oid=pg_constraint.conrelid)
WHERE relkind IN ('r', 'v', 'm', 'f', 'p') AND contype IN ('p', 'u')
ORDER BY namespace_id, relname, attnum, constraint_id;"""
OTHERS = (
    "SELECT version(), (SELECT COUNT(*) FROM pg_settings WHERE name LIKE 'rds%')",
    "DISCARD ALL",
    "SELECT to_regclass('duckdb_secrets')",
    """SELECT n.oid, enumtypid, typname, enumlabel
FROM pg_enum e
JOIN pg_type t ON e.enumtypid = t.oid
JOIN pg_namespace AS n ON (typnamespace=n.oid)
ORDER BY n.oid, enumtypid, enumsortorder;""",
    """SELECT n.oid, t.typrelid AS id, t.typname as type, pg_attribute.attname, sub_type.typname,
       sub_type_ns.nspname AS sub_type_schema
FROM pg_type t
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
JOIN pg_class ON pg_class.oid = t.typrelid
JOIN pg_attribute ON attrelid=t.typrelid
JOIN pg_type sub_type ON (pg_attribute.atttypid=sub_type.oid)
JOIN pg_catalog.pg_namespace sub_type_ns ON sub_type_ns.oid = sub_type.typnamespace
WHERE pg_class.relkind IN ('c', 'r', 'v', 'm', 'f', 'p')
AND t.typtype='c'
AND pg_attribute.attnum > 0
AND NOT pg_attribute.attisdropped
ORDER BY n.oid, t.oid, attrelid, attnum;""",
    """SELECT pg_namespace.oid, tablename, indexname
FROM pg_indexes
JOIN pg_namespace ON (schemaname=nspname)
ORDER BY pg_namespace.oid;""",
)


def test_relations_and_views_are_found_with_their_columns() -> None:
    client = PostgresLab().session()
    client.query("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;")
    found = [(row[1], row[3], row[4]) for row in rows_of(client.query(TABLES)) if row[1] in ("r", "sums")]
    assert found == [("r", "a", "int8"), ("r", "s", "text"), ("sums", "s", "text"), ("sums", "total", "numeric")]


@pytest.mark.parametrize("sql", OTHERS)
def test_its_other_statements_are_answered(sql: str) -> None:
    found = PostgresLab().session().query(sql)
    assert [fields_of(content)["M"] for code, content in found if code == "E"] == []


def test_rows_are_read_in_one_transaction_as_binary() -> None:
    client = PostgresLab().session()
    client.query("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
    found = client.query('COPY (SELECT "a", "s" FROM "public"."r" ) TO STDOUT (FORMAT "binary");')
    data = b"".join(content for code, content in found if code == "d")
    assert data.startswith(b"PGCOPY\n\xff\r\n\0")
    assert data.count((8).to_bytes(4, "big")) == 3
    assert [content for code, content in client.query("COMMIT") if code == "C"] == [b"COMMIT\0"]
