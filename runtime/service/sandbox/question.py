"""Check that a question is one SELECT over relations and views alone.

The text is parsed by DuckDB's own parser, so that the check and DuckDB cannot understand the text differently. Names
are checked in the parser's tree. When the question runs, the sandbox also refuses access to files, extensions and
settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import sqlglot
from sqlglot.errors import SqlglotError

from deltabook.wire.service import LAST_EPOCH
from runtime.compiler.declarations import Text
from runtime.compiler.describe import is_outside
from runtime.compiler.errors import SqlError
from runtime.compiler.limits import expansion, is_expanding
from runtime.service.sandbox.limits import AskError

if TYPE_CHECKING:
    import duckdb

__all__ = ["CheckedQuestion", "checked", "located", "unknown", "with_epoch"]

_NAME: Final = "question"
"""Name of the question's text in messages."""
_CLOCK: Final = frozenset(
    ("age", "current_date", "current_localtime", "current_localtimestamp", "current_time", "current_timestamp",
     "get_current_time", "get_current_timestamp", "localtime", "localtimestamp", "now", "today",
     "transaction_timestamp")
)  # fmt: skip
"""Functions of the clock, including those that are called without brackets."""
_TABLE_FUNCTIONS: Final = frozenset(("generate_series", "range", "unnest"))
"""Functions that FROM may call."""
_QUERIES: Final = frozenset(("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"))
"""Types of the nodes of queries that only read."""
_PARTS_WITH_OWN_NAME: Final = ("right", "child")
"""Parts of a node of WITH that can use the name of its table: the recursive side, and the query after MATERIALIZED."""
_NO_PLACE: Final = 2**63
"""Least value of ``query_location`` that stands for no place."""
_OPEN_PIVOT: Final = (
    "expected PIVOT … ON column IN (values), as the columns of an answer are fixed before rows are read, "
    "was PIVOT without IN"
)
_AS_OF: Final = ("AS", "OF", "EPOCH")
"""Words before the epoch at the end of a question."""


class CheckedQuestion(msgspec.Struct, frozen=True):
    """Question that has passed the check."""

    sql: str
    """SELECT of the question."""
    names: tuple[tuple[str, int], ...]
    """Names of relations and views in lower case, each with the offset of its first use, in bytes."""
    reads_clock: bool = False
    """True if the question may call a function of the clock."""


def with_epoch(sql: str, epoch: int | None) -> tuple[str, int | None]:
    """Return the SELECT without ``AS OF EPOCH n``, and the epoch n; without such an ending, the SELECT and ``epoch``.

    Raises `AskError` if n and ``epoch`` are both given and differ.

    >>> with_epoch("SELECT 1 AS OF EPOCH 12;", None)
    ('SELECT 1 ', 12)
    """
    try:
        tokens = [token for token in sqlglot.tokenize(sql, read="duckdb") if token.text != ";"]
    except SqlglotError:
        return sql, epoch  # DuckDB reports the error
    last = tokens[-4:]
    if tuple(token.text.upper() for token in last[:3]) != _AS_OF or not last[-1].text.isdigit():
        return sql, epoch
    digits = last[-1].text
    if len(digits) > len(str(LAST_EPOCH)) or int(digits) > LAST_EPOCH:
        raise AskError(f"expected the number of an epoch, was {digits[:80]}")
    named = int(digits)
    if epoch is not None and epoch != named:
        raise AskError(f"expected one epoch, was {epoch} and AS OF EPOCH {named}")
    return sql[: last[0].start], named


def checked(sql: str, connection: duckdb.DuckDBPyConnection) -> CheckedQuestion:
    """Check a question; raises `SqlError` with the position for anything except one SELECT over relations and views.

    ``connection`` is an empty database, which parses the question without running it.
    """
    import duckdb

    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise located(sql, error) from None
    if len(statements) != 1:
        raise SqlError(f"expected one SELECT, was {len(statements) or 'no'} statements", file=_NAME)
    kind = statements[0].type.name
    if kind == "MULTI":  # DuckDB splits such a PIVOT into a CREATE TYPE of the values that it finds, and a SELECT
        raise _error(sql, _OPEN_PIVOT, 0)
    if kind != "SELECT":
        raise _error(sql, f"expected a SELECT, was {kind}", 0)
    ((text,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchall()
    tree = msgspec.json.decode(text)
    if tree.get("error"):
        raise _error(sql, f"expected a SELECT, was {tree.get('error_message', kind)}", 0)
    places, total, reads_clock = dict[str, int](), 1, False
    for node, local in _nodes(tree):
        place = node.get("query_location", 0)
        place = place if isinstance(place, int) and place < _NO_PLACE else 0
        _check(sql, node, place)
        _check_reads_only(sql, node)
        total = _expanded(sql, node, place, total)
        reads_clock = reads_clock or _reads_clock(node)
        if node.get("type") == "BASE_TABLE" and (name := node["table_name"].lower()) not in local:
            places.setdefault(name, place)
    return CheckedQuestion(sql, tuple(places.items()), reads_clock)


def located(sql: str, error: duckdb.Error) -> SqlError:
    """Return DuckDB's error at the position that its message shows."""
    reason, _, shown = str(error).partition("\nLINE ")
    reason = " ".join(reason.split())
    match = re.match(r"(\d+): (.*)\n( *)\^", shown)
    if match is None:
        return SqlError(reason, file=_NAME)
    number, line, indent = int(match[1]), match[2], len(match[3])
    at = indent - len(f"LINE {number}: ")
    lines = sql.split("\n")
    text = lines[number - 1] if 0 < number <= len(lines) else ""
    shown_line = line.removesuffix("...")
    if shown_line.startswith("...") and not text.startswith("..."):  # DuckDB cuts long lines
        at -= 3
        shown_line = shown_line[3:]
    return SqlError(reason, file=_NAME, line=number, column=max(text.find(shown_line), 0) + max(at, 0) + 1)


def unknown(question: CheckedQuestion, name: str, place: int, relations: list[str], views: list[str]) -> SqlError:
    """Return the error for a name that is neither a relation nor a view."""
    known = f"the relations are: {', '.join(sorted(relations)) or 'none'}; the views are: {', '.join(views) or 'none'}"
    return _error(question.sql, f"unknown relation or view {name!r}; {known}", place)


def _check(sql: str, node: dict[str, Any], place: int) -> None:
    kind = node.get("type")
    if kind == "BASE_TABLE":
        path = node.get("qualified_name", {}).get("path", [])
        if node.get("schema_name") or node.get("catalog_name") or len(path) > 1:
            raise _error(sql, f"expected a relation or a view, was {'.'.join(map(str, path))!r}", place)
    elif kind == "SHOW_REF":
        raise _error(sql, "expected a SELECT, was DESCRIBE, SHOW or SUMMARIZE", place)
    elif kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in _TABLE_FUNCTIONS:
            allowed = ", ".join(sorted(_TABLE_FUNCTIONS))
            raise _error(
                sql, f"expected a relation, a view or one of the functions {allowed} in FROM, was {name}()", place
            )
        node["function"]["is_in_from"] = True
    elif node.get("class") == "FUNCTION":
        name = str(node.get("function_name", "")).lower()
        if node.get("schema") or node.get("catalog"):
            if is_expanding(name):
                raise _error(sql, f"expected {name}() without a schema, which has a bound", place)
            if name in _CLOCK:
                raise _error(sql, f"expected {name}() without a schema, which has the time of the epoch", place)
        if is_outside(name):
            raise _error(sql, f"expected functions of the rows alone, was {name}()", place)


def _check_reads_only(sql: str, node: dict[str, Any]) -> None:
    """Raise `SqlError` for a table of WITH whose query is a statement that writes, such as INSERT or COPY."""
    query = node.get("query_node")
    kind = str(query.get("type")) if isinstance(query, dict) else ""
    if kind and kind not in _QUERIES:
        word = kind.partition("_")[0]
        match = re.search(rf"\(\s*({re.escape(word)})\b", sql, re.IGNORECASE)
        place = len(sql[: match.start(1)].encode()) if match else 0
        raise _error(sql, f"expected a SELECT in WITH, was {word}", place)


def _expanded(sql: str, node: dict[str, Any], place: int, before: int) -> int:
    """Return the total `expansion` of values by the calls up to this node.

    Calls in FROM do not count, because such a call yields its rows one by one. Raises `SqlError` if the total is too
    large.
    """
    name = str(node.get("function_name", "")).lower()
    if node.get("class") != "FUNCTION" or not is_expanding(name) or node.get("is_in_from"):
        return before
    try:
        return expansion(name, [_constant(part.get("expression", {})) for part in node.get("arguments", [])], before)
    except ValueError as error:
        raise _error(sql, str(error), place) from None


def _constant(node: dict[str, Any]) -> int | str | None:
    """Return the value of a constant; None for any other node."""
    literal = node.get("literal", {})
    kind, text = literal.get("kind"), str(literal.get("text", ""))
    if kind == "INTEGER" and text.removeprefix("-").isdigit():
        return int(text)
    return text if kind == "STRING" else None


def _reads_clock(node: dict[str, Any]) -> bool:
    if node.get("class") == "FUNCTION":
        return str(node.get("function_name", "")).lower() in _CLOCK
    names = node.get("column_names") or [""]
    return node.get("class") == "COLUMN_REF" and str(names[-1]).lower() in _CLOCK


def _nodes(tree: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Yield all nodes of the tree, each before its parts, with the names of the tables of WITH that the node can
    use."""
    pending: list[tuple[Any, frozenset[str]]] = [(tree, frozenset())]
    while pending:
        node, local = pending.pop()
        if isinstance(node, list):
            pending += [(part, local) for part in reversed(node)]
        elif isinstance(node, dict):
            yield node, local
            pending += reversed(_parts(node, local))


def _parts(node: dict[str, Any], local: frozenset[str]) -> list[tuple[Any, frozenset[str]]]:
    """Return the parts of a node, each with the tables of WITH that the part can use.

    A table of WITH can use the tables before it; a recursive table can also use itself in the right side of its UNION.
    All other parts of the query, and of the queries inside it, can use all tables of WITH.
    """
    parts: list[tuple[Any, frozenset[str]]] = []
    tables = node.get("cte_map")
    for entry in (tables.get("map") or []) if isinstance(tables, dict) else []:
        parts.append((entry.get("value"), local))
        local |= {str(entry.get("key")).lower()}
    own = {str(name).lower()} if (name := node.get("cte_name")) else set()
    for key, part in node.items():
        if key != "cte_map":
            parts.append((part, local | own if key in _PARTS_WITH_OWN_NAME else local))
    return parts


def _error(sql: str, reason: str, place: int) -> SqlError:
    text = Text(sql, _NAME)
    line, column = text.position(len(sql.encode()[:place].decode("utf-8", "ignore")))
    return SqlError(reason, file=_NAME, line=line, column=column)
