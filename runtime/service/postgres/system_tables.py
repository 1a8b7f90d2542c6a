"""Rows of ``pg_catalog`` and ``information_schema``: relations and views as clients of PostgreSQL expect them.

Most tables are empty, as a runtime has no such objects; they exist because clients join them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from runtime.plan import Column
from runtime.service.postgres.system_schemas import MACROS, SYSTEM_TABLES, TYPE_NAMES
from runtime.service.postgres.types import BY_NAME, TYPES, array_name, result_type
from runtime.service.sandbox import Beside

__all__ = ["DATABASE", "SCHEMA", "ShownTable", "SystemCatalogue", "duckdb_type"]

DATABASE: Final = "deltabook"
SCHEMA: Final = "public"
_OWNER: Final = 10
_DATABASE_OID: Final = 16_383
_FIRST_OID: Final = 16_384
_FIRST_SYSTEM_OID: Final = 9_000
_NAMESPACES: Final = {"pg_catalog": 11, SCHEMA: 2200, "information_schema": 13_000}
_ARROW: Final[dict[str, pa.DataType]] = {
    "o": pa.uint32(), "n": pa.string(), "b": pa.bool_(), "i": pa.int32(), "s": pa.int16(), "f": pa.float32(),
    "l": pa.list_(pa.uint32()), "a": pa.list_(pa.string()), "z": pa.timestamp("us", "UTC"), "x": pa.int64(),
}  # fmt: skip
"""Letter in `SYSTEM_TABLES` → its Arrow type."""
_SQL_NAMES: Final = {
    "o": "oid", "n": "text", "b": "bool", "i": "int4", "s": "int2", "f": "float4", "l": "_oid", "a": "_text",
    "z": "timestamptz", "x": "int8",
}  # fmt: skip
"""Letter in `SYSTEM_TABLES` → the name of its type in PostgreSQL."""
_FIXED_OIDS: Final = {
    "pg_type": 1247, "pg_attribute": 1249, "pg_proc": 1255, "pg_class": 1259, "pg_authid": 1260, "pg_database": 1262,
    "pg_constraint": 2606, "pg_description": 2609, "pg_namespace": 2615, "pg_trigger": 2620, "pg_rewrite": 2618,
    "pg_index": 2610, "pg_extension": 3079, "pg_am": 2601, "pg_attrdef": 2604, "pg_collation": 3456, "pg_enum": 3501,
    "pg_tablespace": 1213, "pg_language": 2612, "pg_depend": 2608, "pg_event_trigger": 3466, "pg_foreign_server": 1417,
    "pg_foreign_data_wrapper": 2328, "pg_policy": 3256, "pg_operator": 2617, "pg_cast": 2605, "pg_publication": 6104,
}  # fmt: skip
"""Table of ``pg_catalog`` → its OID in PostgreSQL, which clients may know."""


class ShownTable(msgspec.Struct, frozen=True):
    """Relation or view in the catalogue."""

    name: str
    """Name of the relation or view."""
    columns: tuple[Column, ...]
    """Columns without the weight."""
    kind: Literal["r", "v"]
    """Kind as in ``pg_class.relkind``: r for a relation, v for a view."""
    sql: str = ""
    """SELECT of a view; empty for a relation."""


def duckdb_type(column: Column) -> str:
    """Return the type that a column has in questions."""
    if column.scale:
        return f"DECIMAL(38,{column.scale})"
    names = {"int64": "BIGINT", "int128": "HUGEINT", "float64": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN",
             "date": "DATE", "timestamp": "TIMESTAMP"}  # fmt: skip
    return names[column.type]


class SystemCatalogue:
    """Tables of ``pg_catalog`` and ``information_schema`` for a set of relations and views."""

    def __init__(self, shown: Sequence[ShownTable], settings: Mapping[str, str]) -> None:
        """Create the catalogue; a table is computed when a question first names it."""
        self.shown = tuple(shown)
        self.columns = {table.name: {column.name: duckdb_type(column) for column in table.columns} for table in shown}
        """Relation or view → column → DuckDB's type."""
        self._oids = _oids(table.name for table in shown)
        self._settings = settings
        self._made: dict[str, pa.Table] = {}

    def beside(self, sql: str) -> Beside:
        """Return the tables and functions of the catalogue that a question uses; tables have the names of
        `SYSTEM_TABLES`."""
        lower = sql.lower()
        macros = []
        wanted = lower
        for head, body in MACROS.items():
            if f"{head[: head.index('(')]}(" in lower:
                macros.append(f"CREATE TEMP MACRO {head} AS {body}")
                wanted += body
        tables = {name: self._table(name) for name in (*SYSTEM_TABLES, TYPE_NAMES) if f'"{name}"' in wanted}
        return Beside(tables, tuple(macros))

    def _table(self, name: str) -> pa.Table:
        if name not in self._made:
            make = _ROWS.get(name)
            if name == TYPE_NAMES:
                schema = pa.schema([("oid", pa.uint32()), ("name", pa.string()), ("sql_name", pa.string())])
            else:
                schema = _schema(SYSTEM_TABLES[name])
            rows = [] if make is None else list(make(self))
            listed = [{field.name: row.get(field.name, _default(field)) for field in schema} for row in rows]
            self._made[name] = pa.Table.from_pylist(listed, schema)
        return self._made[name]

    # Rows; `_default` has the values of missing columns

    def _namespaces(self) -> Iterable[dict[str, Any]]:
        return ({"oid": oid, "nspname": name, "nspowner": _OWNER} for name, oid in _NAMESPACES.items())

    def _classes(self) -> Iterable[dict[str, Any]]:
        same = {"relowner": _OWNER, "relam": 2, "relpersistence": "p", "relispopulated": True, "relreplident": "d",
                "reltuples": -1.0, "relpartbound": None}  # fmt: skip
        for table in self.shown:
            yield {"oid": self._oids[table.name], "relname": table.name, "relnamespace": _NAMESPACES[SCHEMA],
                   "relkind": table.kind, "relnatts": len(table.columns), **same}  # fmt: skip
        for name, columns in SYSTEM_TABLES.items():
            schema, _, table_name = name.partition(".")
            yield {"oid": _system_oid(name), "relname": table_name, "relnamespace": _NAMESPACES[schema],
                   "relkind": "r" if schema == "pg_catalog" else "v", "relnatts": len(columns.split()),
                   **same}  # fmt: skip

    def _attributes(self) -> Iterable[dict[str, Any]]:
        same = {"attstattarget": -1, "attcacheoff": -1, "attislocal": True, "attalign": "d", "attstorage": "x"}
        for table in self.shown:
            for number, column in enumerate(table.columns, 1):
                kind = result_type(duckdb_type(column))
                yield {"attrelid": self._oids[table.name], "attname": column.name, "atttypid": kind.oid,
                       "attnum": number, "attlen": kind.element.size, "atttypmod": kind.modifier,
                       "attnotnull": not column.nullable,
                       "attcollation": 100 if kind.element.category == "S" else 0, **same}  # fmt: skip
        for name, columns in SYSTEM_TABLES.items():
            for number, (column_name, letter) in enumerate((each.split(":") for each in columns.split()), 1):
                type_name = _SQL_NAMES[letter]
                is_array, element = type_name.startswith("_"), BY_NAME[type_name.removeprefix("_")]
                yield {"attrelid": _system_oid(name), "attname": column_name, "attnum": number,
                       "atttypid": element.array_oid if is_array else element.oid, "atttypmod": -1,
                       "attlen": -1 if is_array else element.size, **same}  # fmt: skip

    def _types(self) -> Iterable[dict[str, Any]]:
        for kind in TYPES:
            same = {"typnamespace": _NAMESPACES["pg_catalog"], "typowner": _OWNER, "typtype": "b", "typisdefined": True,
                    "typdelim": ",", "typtypmod": -1, "typalign": "d", "typstorage": "x",
                    "typdefault": None}  # fmt: skip
            own = {"typinput": f"{kind.name}in", "typoutput": f"{kind.name}out", "typreceive": f"{kind.name}recv",
                   "typsend": f"{kind.name}send"}  # fmt: skip
            yield {"oid": kind.oid, "typname": kind.name, "typlen": kind.size, "typcategory": kind.category,
                   "typarray": kind.array_oid, "typbyval": 0 < kind.size <= 8,
                   "typcollation": 100 if kind.category == "S" else 0, **own, **same}  # fmt: skip
            if kind.array_oid:
                yield {"oid": kind.array_oid, "typname": array_name(kind), "typlen": -1, "typcategory": "A",
                       "typelem": kind.oid, "typsubscript": "array_subscript_handler", "typinput": "array_in",
                       "typoutput": "array_out", "typreceive": "array_recv", "typsend": "array_send",
                       **same}  # fmt: skip

    def _type_names(self) -> Iterable[dict[str, Any]]:
        for kind in TYPES:
            name = kind.sql or kind.name
            yield {"oid": kind.oid, "name": kind.name, "sql_name": name}
            if kind.array_oid:
                yield {"oid": kind.array_oid, "name": array_name(kind), "sql_name": f"{name}[]"}

    def _databases(self) -> Iterable[dict[str, Any]]:
        yield {"oid": _DATABASE_OID, "datname": DATABASE, "datdba": _OWNER, "encoding": 6, "datlocprovider": "c",
               "datallowconn": True, "datconnlimit": -1, "dattablespace": 1663, "datcollate": "C.UTF-8",
               "datctype": "C.UTF-8", "daticulocale": None, "datcollversion": None}  # fmt: skip

    def _roles(self) -> Iterable[dict[str, Any]]:
        yield {"rolname": "deltabook", "rolinherit": True, "rolcanlogin": True, "rolconnlimit": -1, "oid": _OWNER,
               "rolpassword": None, "rolvaliduntil": None}  # fmt: skip

    def _users(self) -> Iterable[dict[str, Any]]:
        yield {"usename": "deltabook", "usesysid": _OWNER, "passwd": None, "valuntil": None}

    def _access_methods(self) -> Iterable[dict[str, Any]]:
        yield {"oid": 2, "amname": "heap", "amhandler": "heap_tableam_handler", "amtype": "t"}

    def _tablespaces(self) -> Iterable[dict[str, Any]]:
        yield {"oid": 1663, "spcname": "pg_default", "spcowner": _OWNER}

    def _collations(self) -> Iterable[dict[str, Any]]:
        yield {"oid": 100, "collname": "default", "collnamespace": _NAMESPACES["pg_catalog"], "collowner": _OWNER,
               "collprovider": "d", "collisdeterministic": True, "collencoding": -1}  # fmt: skip

    def _view_lines(self) -> Iterable[dict[str, Any]]:
        for table in self.shown:
            if table.kind == "v":
                yield {"schemaname": SCHEMA, "viewname": table.name, "viewowner": "deltabook", "definition": table.sql}

    def _table_lines(self) -> Iterable[dict[str, Any]]:
        for table in self.shown:
            if table.kind == "r":
                yield {"schemaname": SCHEMA, "tablename": table.name, "tableowner": "deltabook", "tablespace": None}

    def _setting_lines(self) -> Iterable[dict[str, Any]]:
        for name, value in self._settings.items():
            yield {"name": name, "setting": value, "context": "user", "vartype": "string", "source": "default",
                   "boot_val": value, "reset_val": value, "unit": None, "category": "Deltabook"}  # fmt: skip

    def _schemata(self) -> Iterable[dict[str, Any]]:
        return ({"catalog_name": DATABASE, "schema_name": name, "schema_owner": "deltabook"} for name in _NAMESPACES)

    def _information_tables(self) -> Iterable[dict[str, Any]]:
        for table in self.shown:
            yield {"table_catalog": DATABASE, "table_schema": SCHEMA, "table_name": table.name,
                   "table_type": "BASE TABLE" if table.kind == "r" else "VIEW", "is_insertable_into": "NO",
                   "is_typed": "NO", "commit_action": None}  # fmt: skip

    def _information_views(self) -> Iterable[dict[str, Any]]:
        for table in self.shown:
            if table.kind == "v":
                yield {"table_catalog": DATABASE, "table_schema": SCHEMA, "table_name": table.name,
                       "view_definition": table.sql, "check_option": "NONE", "is_updatable": "NO",
                       "is_insertable_into": "NO"}  # fmt: skip

    def _information_columns(self) -> Iterable[dict[str, Any]]:
        for table in self.shown:
            for number, column in enumerate(table.columns, 1):
                kind = result_type(duckdb_type(column))
                element = kind.element
                bits = {"int2": 16, "int4": 32, "int8": 64, "float8": 53}.get(element.name)
                precision = ((kind.modifier - 4) >> 16) if kind.modifier >= 0 else bits
                scale = ((kind.modifier - 4) & 0xFFFF) if kind.modifier >= 0 else 0 if element.name == "int8" else None
                yield {"table_catalog": DATABASE, "table_schema": SCHEMA, "table_name": table.name,
                       "column_name": column.name, "ordinal_position": number, "column_default": None,
                       "is_nullable": "YES" if column.nullable else "NO",
                       "data_type": "ARRAY" if kind.is_array else element.sql or element.name,
                       "numeric_precision": precision, "numeric_scale": scale,
                       "numeric_precision_radix": (10 if kind.modifier >= 0 else 2) if precision else None,
                       "datetime_precision": 6 if element.name in ("timestamp", "timestamptz", "time") else None,
                       "character_maximum_length": None, "character_octet_length": None, "udt_catalog": DATABASE,
                       "udt_schema": "pg_catalog", "udt_name": array_name(element) if kind.is_array else element.name,
                       "dtd_identifier": str(number), "is_self_referencing": "NO", "is_identity": "NO",
                       "is_generated": "NEVER", "is_updatable": "NO", "interval_type": None, "domain_name": None,
                       "collation_name": None, "identity_generation": None, "generation_expression": None}  # fmt: skip


_ROWS: Final = {
    "pg_catalog.pg_am": SystemCatalogue._access_methods,
    "pg_catalog.pg_attribute": SystemCatalogue._attributes,
    "pg_catalog.pg_class": SystemCatalogue._classes,
    "pg_catalog.pg_collation": SystemCatalogue._collations,
    "pg_catalog.pg_database": SystemCatalogue._databases,
    "pg_catalog.pg_namespace": SystemCatalogue._namespaces,
    "pg_catalog.pg_roles": SystemCatalogue._roles,
    "pg_catalog.pg_settings": SystemCatalogue._setting_lines,
    "pg_catalog.pg_tables": SystemCatalogue._table_lines,
    "pg_catalog.pg_tablespace": SystemCatalogue._tablespaces,
    "pg_catalog.pg_type": SystemCatalogue._types,
    "pg_catalog.pg_user": SystemCatalogue._users,
    "pg_catalog.pg_views": SystemCatalogue._view_lines,
    "information_schema.columns": SystemCatalogue._information_columns,
    "information_schema.schemata": SystemCatalogue._schemata,
    "information_schema.tables": SystemCatalogue._information_tables,
    "information_schema.views": SystemCatalogue._information_views,
    TYPE_NAMES: SystemCatalogue._type_names,
}
"""Table → its rows; missing tables are empty."""


def _schema(columns: str) -> pa.Schema:
    return pa.schema([(name, _ARROW[letter]) for name, letter in (each.split(":") for each in columns.split())])


def _default(field: pa.Field) -> Any:
    """Return the value of a column that a row does not have."""
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        return 0
    return False if pa.types.is_boolean(field.type) else "" if pa.types.is_string(field.type) else None


def _oids(names: Iterable[str]) -> dict[str, int]:
    """Return the OID of each name; an OID is stable unless two names have the same hash."""
    oids: dict[str, int] = {}
    taken = set[int]()
    for name in sorted(names):
        oid = _FIRST_OID + zlib.crc32(name.encode()) % (2**31 - _FIRST_OID - 1)
        while oid in taken:
            oid += 1
        taken.add(oid)
        oids[name] = oid
    return oids


def _system_oid(name: str) -> int:
    """Return the number of one of `SYSTEM_TABLES`."""
    return _FIXED_OIDS.get(name.partition(".")[2], _FIRST_SYSTEM_OID + list(SYSTEM_TABLES).index(name))
