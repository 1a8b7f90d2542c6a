"""Rewriting of questions from PostgreSQL's SQL to DuckDB's.

Some names of PostgreSQL are missing in DuckDB or defined differently (`_CATALOGUE`, `_CALLED`). In a question without
such names, only ``public.`` is replaced by blanks, and parameters by values, so that the question means what DuckDB
makes of it and the positions of errors are exact; session functions such as ``current_user`` are macros. A question
with such names is parsed by sqlglot and written for DuckDB, with the tables of `SYSTEM_TABLES` under their qualified
names.

```
text ──schema blanked, parameters replaced─┬──────────────────────────▶ DuckDB, with relations, views and macros
                                           └─sqlglot──▶ _Rewriter ────▶ DuckDB, also with `SystemCatalogue.beside`
```
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from runtime.compiler.limits import MOST_NESTED, deep_recursion
from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.settings import SERVER_VERSION
from runtime.service.postgres.statements import Question
from runtime.service.postgres.system_schemas import SYSTEM_TABLES
from runtime.service.postgres.system_tables import DATABASE, SCHEMA
from runtime.service.postgres.tokens import Token, tokens, unquoted

__all__ = ["Rewritten", "SessionFacts", "inferred_types", "is_slow", "rewritten", "session_macros", "with_values"]

_CATALOGUE: Final = re.compile(r"pg_\w+|information_schema|reg(class|type|proc|procedure|namespace|role|oper)")
"""Pattern of the names of PostgreSQL's schemas, system tables and types of OIDs, which DuckDB lacks or defines
differently."""
_CALLED: Final = re.compile(
    r"current_schemas|current_setting|set_config|quote_ident|quote_literal|array_lower|array_upper|to_reg\w+|"
    r"has_\w+_privilege|obj_description|col_description|shobj_description|inet_server_\w+|txid_current|operator|"
    r"format_type"
)
"""Pattern of the names of PostgreSQL's functions that DuckDB lacks or defines differently, except `_MACROS`; without a
bracket after it, such a name is that of a column."""
_MACROS: Final = frozenset(
    ("current_catalog", "current_database", "current_role", "current_schema", "current_user", "pg_backend_pid",
     "session_user", "user", "version")
)  # fmt: skip
"""Session functions without arguments; a question that has no other names of PostgreSQL is not rewritten."""
_OWN: Final = re.compile(rf"\b({_CATALOGUE.pattern}|{_CALLED.pattern}|{'|'.join(sorted(_MACROS))})\b", re.IGNORECASE)
"""Pattern that finds all names of PostgreSQL, and the same words in strings, comments and names of columns."""
_SCHEMAS: Final = ("pg_catalog", "information_schema", SCHEMA)
_REGISTERED: Final = ("regclass", "regtype", "regnamespace")
"""Types of OIDs that are shown as names; the catalogue has functions for these types."""
_AS_TEXT: Final = ("regproc", "regprocedure", "regrole", "regoper")
"""Types of OIDs that are text here."""
_LONGEST: Final = 64 * 1024
"""Length in characters above which a text is left to DuckDB: parsing it here would take too long."""
_DUCKDB_NAMES: Final = {
    "DECIMAL": "DECIMAL(18,3)", "INT": "INTEGER", "REAL": "FLOAT", "TEXT": "VARCHAR",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
}  # fmt: skip
"""Name of a type in sqlglot → its name in DuckDB."""
_RENAMED: Final = {
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "json_agg": "json_group_array",
}
"""Function → its name in DuckDB, where it differs."""
_UNPARSED: Final = {"oid": "uint", "name": "text", '"char"': "text", "regclass": "text", "regtype": "text"}
"""Types whose arrays sqlglot cannot parse → a type that it can parse."""
_LONG: Final = 4 * 1024
"""Length in characters above which a text is rewritten on another thread."""
_DIALECTS: Final = ("postgres", "duckdb")
"""Dialects of questions, tried in this order: clients may use DuckDB's own syntax as well."""
_HEXADECIMAL: Final = re.compile(r"'\\x((?:[0-9a-fA-F]{2}){2,})'")
"""Pattern of PostgreSQL's text of two bytes or more."""
_OPENING: Final = frozenset("([{")
_CLOSING: Final = frozenset(")]}")
_PREFIXES: Final = frozenset("-+~")
_BARE: Final = {name.partition(".")[2]: name for name in reversed(SYSTEM_TABLES) if name.startswith("pg_catalog.")}
"""Unqualified name of a table of ``pg_catalog`` → its qualified name."""


class SessionFacts(msgspec.Struct, frozen=True):
    """Results of session functions."""

    user: str
    """Result of ``current_user``."""
    number: int
    """Result of ``pg_backend_pid()``."""
    settings: Mapping[str, str]
    """Results of ``current_setting``, by the name of the setting."""


class Rewritten(msgspec.Struct, frozen=True):
    """Question rewritten for DuckDB."""

    sql: str
    """SQL for DuckDB."""
    moves: tuple[tuple[int, int, int, int], ...] = ()
    """Entry for each inserted value: the begin and the end of the value in ``sql``, the begin of its parameter in the
    original question, and the number of characters by which ``sql`` up to the end of the value is longer than the
    original."""
    is_moved: bool = False
    """True if positions in ``sql`` do not correspond to positions in the original question."""

    def place(self, position: int) -> int:
        """Return the position in the original question, from 1; 0 if it is not known."""
        if self.is_moved or not position:
            return 0
        at = position - 1
        for begin, end, origin, longer in reversed(self.moves):
            if at >= end:
                return at - longer + 1
            if at >= begin:
                return origin + 1
        return position


def rewritten(question: Question, values: Sequence[str], facts: SessionFacts, taken: Collection[str]) -> Rewritten:
    """Return the question for DuckDB, with the values in place of its parameters.

    ``taken`` are the names of relations and views, which tables of PostgreSQL do not replace. The call may take some
    milliseconds, see `is_slow`. Raises `PostgresError` for a question that needs to be rewritten and is nested too
    deeply to be parsed.
    """
    values_of = {token: values[int(token.text[1:]) - 1] for token in question.places}
    sql, moves = _replaced(_blanked(question.sql), values_of | _bytes_of(question.sql))
    own = tokens(question.sql) if len(question.sql) <= _LONGEST and _OWN.search(question.sql) else []
    if _is_of_postgres(own):
        deepest, moved = _first_too_deep(own), None
        if deepest is None:
            try:
                moved = _for_duckdb(sql, facts, taken)
            except RecursionError:
                deepest = own[0]
        if moved is not None:
            return Rewritten(moved, is_moved=True)
        if deepest is not None:
            raise _too_deep(question, deepest)
    return Rewritten(sql, moves)


def is_slow(question: Question) -> bool:
    """Return True if rewriting may take more than a fraction of a millisecond."""
    return len(question.sql) > _LONG or _OWN.search(question.sql) is not None


def session_macros(question: Question, facts: SessionFacts) -> tuple[str, ...]:
    """Return statements that define session functions which a question may call and DuckDB has as well.

    The statements are for a question that has not been rewritten, because it has no other names of PostgreSQL, is too
    long, or cannot be parsed by sqlglot. Without these statements, DuckDB would return its own version, user and
    database.
    """
    if not _OWN.search(question.sql):
        return ()
    session = _session_functions(facts)
    names = [name for name in sorted(_MACROS) if name in question.sql.lower()]
    return tuple(f"CREATE TEMP MACRO {name}() AS {session[name]([]).sql(dialect='duckdb')}" for name in names)


def inferred_types(question: Question, columns: Mapping[str, Mapping[str, str]]) -> dict[int, str]:
    """Return DuckDB's type of each parameter, by number, if the type follows from the expression around the parameter.

    The type is the one to which the parameter is cast, or the type of another operand of the expression. ``columns``
    are the columns of relations and views, see `SystemCatalogue.columns`.
    """
    if not question.places or len(question.sql) > _LONGEST or _first_too_deep(tokens(question.sql)) is not None:
        return {}
    # sqlglot takes `$1,$` for the mark of a string if no blank follows the number.
    apart = with_values(question, [f"${number} " for number in range(1, question.parameters + 1)])
    try:
        with deep_recursion():
            tree: Any = sqlglot.parse_one(_simplified(apart), read="postgres")
    except (SqlglotError, RecursionError):
        return {}
    known = _columns_read(tree, columns)
    types: dict[int, str] = {}
    for node in tree.find_all(exp.Parameter, exp.Placeholder):
        number = _number(node)
        kind = _wanted_type(node, known)
        if number and kind:
            types.setdefault(number, kind)
    return types


def _columns_read(tree: Any, columns: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return DuckDB's types of the columns of the relations and views that a question reads, by their names and by
    ``alias.name``; a name that has several types has none here."""
    by_name = {name.lower(): kinds for name, kinds in columns.items()}
    kinds_of: dict[str, set[str]] = {}
    for table in tree.find_all(exp.Table):
        for name, kind in by_name.get(table.name.lower(), {}).items():
            for known in (name.lower(), f"{table.alias_or_name.lower()}.{name.lower()}"):
                kinds_of.setdefault(known, set()).add(kind)
    return {name: kinds.pop() for name, kinds in kinds_of.items() if len(kinds) == 1}


def with_values(question: Question, values: Sequence[str]) -> str:
    """Return the SQL of the question with these expressions in place of its parameters."""
    return _replaced(question.sql, {token: values[int(token.text[1:]) - 1] for token in question.places})[0]


def _number(node: Any) -> int:
    text = str(node.this.name if isinstance(node.this, exp.Expression) else node.this or "")
    return int(text) if text.isdigit() else 0


def _wanted_type(node: Any, known: Mapping[str, str]) -> str:
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Neg):
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Cast):
        return _duckdb_name(parent.to)
    if isinstance(parent, exp.Limit | exp.Offset):
        return "BIGINT"
    if isinstance(parent, exp.Binary | exp.In | exp.Between | exp.Tuple):
        around: Any = parent.parent if isinstance(parent, exp.Tuple) else parent
        others = [each for each in around.iter_expressions() if each is not node and each is not parent]
        if isinstance(parent, exp.Tuple) and node.index is not None:  # (a, b) > ($1, $2)
            others = [
                (each.expressions[node.index : node.index + 1] or [each])[0] if isinstance(each, exp.Tuple) else each
                for each in others
            ]
        for other in others:
            kind = _type_of(other, known)
            if kind:
                return kind
    return ""


def _duckdb_name(kind: Any) -> str:
    """Return DuckDB's own name of a type."""
    name = str(kind.sql(dialect="duckdb"))
    base, lists = name.partition("[")[0], name[len(name.partition("[")[0]) :]
    return _DUCKDB_NAMES.get(base, base) + lists


def _type_of(node: Any, known: Mapping[str, str]) -> str:
    if isinstance(node, exp.Column):
        return known.get(f"{node.table}.{node.name}".lower()) or known.get(node.name.lower(), "")
    if isinstance(node, exp.Cast):
        return _duckdb_name(node.to)
    if isinstance(node, exp.Literal):
        return "VARCHAR" if node.is_string else "BIGINT" if node.is_int else "DECIMAL(38,9)"
    if isinstance(node, exp.Count):
        return "BIGINT"
    if isinstance(node, exp.Paren | exp.Neg | exp.Sum | exp.Min | exp.Max):
        return _type_of(node.this, known)
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Predicate):
        return _type_of(node.this, known) or _type_of(node.expression, known)
    return ""


def _blanked(sql: str) -> str:
    """Return the text with blanks in place of ``public.`` and ``deltabook.public.``, so that no position changes."""
    if SCHEMA not in sql.lower():
        return sql
    own = tokens(sql)
    pieces, at = [], 0
    for number, token in enumerate(own[:-2]):
        if token.kind not in ("word", "quoted") or unquoted(token) not in (SCHEMA, DATABASE):
            continue
        before = own[number - 1].text if number else ""
        follows = own[number + 1].text == "." and own[number + 2].kind in ("word", "quoted")
        is_database = unquoted(token) == DATABASE
        if follows and before != "." and (not is_database or unquoted(own[number + 2]) == SCHEMA):
            end = own[number + 1].end
            if is_database and len(own) > number + 3 and own[number + 3].text == ".":
                end = own[number + 3].end
            pieces += [sql[at : token.begin], " " * (end - token.begin)]
            at = end
    return "".join([*pieces, sql[at:]])


def _bytes_of(sql: str) -> dict[Token, str]:
    """Return the strings of hexadecimal digits that are cast to bytea, each with DuckDB's form, ``\\x`` for each byte.

    DuckDB would read only the first byte as digits, and the rest as text.
    """
    if "\\x" not in sql or "bytea" not in sql.lower():
        return {}
    own, forms = tokens(sql), dict[Token, str]()
    for number, token in enumerate(own):
        match = _HEXADECIMAL.fullmatch(token.text)
        follows = [each.text.lower() for each in own[number + 1 : number + 3]]
        if match and (follows == ["::", "bytea"] or (number and own[number - 1].word == "BYTEA")):
            forms[token] = "'" + re.sub("(..)", r"\\x\1", match[1]) + "'"
    return forms


def _replaced(sql: str, texts: Mapping[Token, str]) -> tuple[str, tuple[tuple[int, int, int, int], ...]]:
    """Return the SQL with these texts in place of the tokens, and the moves, see `Rewritten`."""
    pieces, at, longer, moves = list[str](), 0, 0, list[tuple[int, int, int, int]]()
    for token in sorted(texts, key=lambda token: token.begin):
        text = texts[token]
        pieces += [sql[at : token.begin], text]
        begin = token.begin + longer
        longer += len(text) - (token.end - token.begin)
        moves.append((begin, token.end + longer, token.begin, longer))
        at = token.end
    return "".join([*pieces, sql[at:]]), tuple(moves)


# Rewriting for DuckDB


def _for_duckdb(sql: str, facts: SessionFacts, taken: Collection[str]) -> str | None:
    """Return a question in DuckDB's SQL; None if it cannot be parsed."""
    simple = _simplified(sql)
    with deep_recursion():
        for dialect in _DIALECTS:
            try:
                tree: Any = sqlglot.parse_one(simple, read=dialect)
                if isinstance(tree, exp.Query | exp.Values):
                    return str(_Rewriter(facts, taken).rewrite(tree).sql(dialect="duckdb"))
            except SqlglotError:
                continue
    return None


def _is_of_postgres(own: Sequence[Token]) -> bool:
    """Return True if a question uses names of PostgreSQL beside `_MACROS`; words in strings and comments do not
    count."""
    for number, token in enumerate(own):
        name = unquoted(token).lower() if token.kind in ("word", "quoted") else ""
        if _CATALOGUE.fullmatch(name) and name not in _MACROS:
            return True
        if _CALLED.fullmatch(name) and number + 1 < len(own) and own[number + 1].text == "(":
            return True
    return False


def _first_too_deep(own: Sequence[Token]) -> Token | None:
    """Return the first token beyond the limits of a recursive parser, see `MOST_NESTED`."""
    depth = run = 0
    for token in own:
        if token.text in _OPENING or token.word == "CASE":
            depth += 1
        elif token.text in _CLOSING or token.word == "END":
            depth = max(depth - 1, 0)
        run = run + 1 if token.text in _PREFIXES or token.word == "NOT" else 0
        if max(depth, run) > MOST_NESTED:
            return token
    return None


def _too_deep(question: Question, token: Token) -> PostgresError:
    return PostgresError(
        "54001",
        f"expected at most {MOST_NESTED} levels of brackets and CASE, and as many signs or NOTs in a row, in a "
        f"question that names tables or functions of PostgreSQL, was more",
        position=(question.begin + token.begin if question.call is None else question.call) + 1,
    )


def _simplified(sql: str) -> str:
    """Return the text in a form that sqlglot can parse.

    Collations, and the schema ``pg_catalog`` of functions, types and operators, are left out; types whose arrays
    sqlglot cannot parse are replaced.
    """
    own = tokens(sql)
    pieces, at, number = list[str](), 0, 0

    def text(offset: int) -> str:
        index = number + offset
        return own[index].text.lower() if 0 <= index < len(own) else ""

    def substitute(begin: int, end: int, instead: str = " ") -> None:
        nonlocal at
        pieces.extend((sql[at:begin], instead))
        at = end

    while number < len(own):
        if text(0) == "operator" and text(1) == "(" and text(2) == "pg_catalog" and text(3) == ".":
            end = next((index for index in range(number, len(own)) if own[index].text == ")"), None)
            if end is None:
                break
            substitute(own[number].begin, own[end].end, " " + sql[own[number + 3].end : own[end].begin] + " ")
            number = end
        elif text(0) == "collate":
            last = number + (3 if text(2) == "." else 1)
            if last < len(own):
                substitute(own[number].begin, own[last].end)
                number = last
        elif text(0) == "pg_catalog" and text(1) == "." and (text(3) == "(" or text(-1) in ("::", "as")):
            substitute(own[number].begin, own[number + 1].end)
            number += 1
        elif text(0) in _UNPARSED and text(1) == "[" and text(-1) in ("::", "as", "."):
            substitute(own[number].begin, own[number].end, _UNPARSED[text(0)])
        number += 1
    return "".join([*pieces, sql[at:]])


def _session_functions(facts: SessionFacts) -> dict[str, Callable[[list[Any]], Any]]:
    """Return the session functions by name; each callable makes the expression of the result from the arguments."""
    settings = facts.settings
    text, many = exp.Literal.string, exp.Array
    return {
        "current_schema": lambda _: text(SCHEMA),
        "current_schemas": lambda _: many(expressions=[text("pg_catalog"), text(SCHEMA)]),
        "current_database": lambda _: text(DATABASE),
        "current_catalog": lambda _: text(DATABASE),
        "current_user": lambda _: text(facts.user),
        "current_role": lambda _: text(facts.user),
        "session_user": lambda _: text(facts.user),
        "user": lambda _: text(facts.user),
        "version": lambda _: text(f"PostgreSQL {SERVER_VERSION} ({settings['server_version'].partition('(')[2]}"),
        "pg_backend_pid": lambda _: exp.Literal.number(facts.number),
        "current_setting": lambda given: _setting(given, settings),
        "set_config": lambda given: given[1] if len(given) > 1 else exp.Null(),
    }


class _Rewriter:
    """Rewriter of one question's tree."""

    def __init__(self, facts: SessionFacts, taken: Collection[str]) -> None:
        self._taken = taken
        self._session = _session_functions(facts)

    def rewrite(self, tree: Any) -> Any:
        """Change the tree in place, and return it."""
        for select in [tree, *tree.find_all(exp.Select)]:
            if isinstance(select, exp.Select):
                _name_columns(select)
        local = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        for node in reversed(list(tree.walk())):  # children before their parents
            replacement = self._node(node, local)
            if replacement is not node:
                node.replace(replacement)
        return tree

    def _node(self, node: Any, local: Collection[str]) -> Any:
        if isinstance(node, exp.Table):
            return self._table(node, local)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Dot) and _name(node.this) in _SCHEMAS:
            return node.expression
        if isinstance(node, exp.Cast):
            return _cast(node)
        if isinstance(node, exp.Anonymous) and node.name.lower() in _RENAMED:
            node.set("this", _RENAMED[node.name.lower()])
            return node
        if isinstance(node, exp.Func):
            return self._function(node)
        if isinstance(node, exp.Collate):
            return node.this
        if isinstance(node, exp.Div) and isinstance(node.expression, exp.Literal) and node.expression.is_int:
            left = node.this
            is_integer = isinstance(left, exp.Cast) and left.to.is_type("int", "bigint", "smallint")
            if is_integer:  # in PostgreSQL, the quotient of integers is an integer
                return exp.IntDiv(this=left, expression=node.expression)
        return node

    def _table(self, node: Any, local: Collection[str]) -> Any:
        if isinstance(node.this, exp.Func):
            return self._function_table(node)
        schema, name = node.db.lower(), node.name.lower()
        whole = f"{schema}.{name}" if schema else ""
        if not schema and name not in local and name not in self._taken:
            whole = _BARE.get(name, "")
        if whole in SYSTEM_TABLES:
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(name)))
            node.set("this", exp.to_identifier(whole, quoted=True))
            node.set("db", None)
            node.set("catalog", None)
        return node

    def _function_table(self, node: Any) -> Any:
        """Rewrite ``f(x) AS a`` in FROM: the alias also names the column; a scalar function becomes a subquery."""
        alias = node.args.get("alias")
        name = alias.name if alias else ""
        function = node.this
        if isinstance(function, exp.GenerateSeries | exp.Unnest | exp.ExplodingGenerateSeries):
            if name and not alias.args.get("columns"):
                alias.set("columns", [exp.to_identifier(name)])
            return node
        column = exp.alias_(function.copy(), name or function.sql_name().lower())
        subquery = exp.Subquery(this=exp.Select(expressions=[column]), alias=alias or exp.TableAlias(
            this=exp.to_identifier(function.sql_name().lower())))  # fmt: skip
        for key in ("joins", "laterals"):
            if node.args.get(key):
                subquery.set(key, node.args[key])
        return subquery

    def _column(self, node: Any) -> Any:
        if node.args.get("db") is not None and node.db.lower() in _SCHEMAS:
            node.set("db", None)
            node.set("catalog", None)
        if not node.table and isinstance(node.this, exp.Identifier) and not node.this.quoted:
            make = self._session.get(node.name.lower())
            if make is not None and node.name.lower() in ("current_role", "session_user", "user", "current_catalog"):
                return make([])
        return node

    def _function(self, node: Any) -> Any:
        function = self._session.get(_function_name(node))
        if function is None:
            return node
        return function(list(node.expressions) if isinstance(node, exp.Anonymous) else list(node.iter_expressions()))


def _function_name(node: Any) -> str:
    name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
    return "version" if name == "current_version" else str(name)


def _name(node: Any) -> str:
    return str(getattr(node, "name", "")).lower()


def _setting(given: Sequence[Any], settings: Mapping[str, str]) -> Any:
    name = given[0].name.lower() if given and isinstance(given[0], exp.Literal) else ""
    return exp.Literal.string(settings[name]) if name in settings else exp.Null()


def _cast(node: Any) -> Any:
    """Rewrite casts to registered types: ``'x'::regclass`` is a number, ``oid::regclass`` a name."""
    target = node.to.sql(dialect="postgres").lower().strip('"')
    if target in _AS_TEXT:
        return exp.Cast(this=node.this, to=exp.DataType.build("text"))
    if target in _REGISTERED:
        value = node.this
        is_name = isinstance(value, exp.Literal) and value.is_string
        if is_name or (isinstance(value, exp.Cast) and value.to.is_type("text", "varchar")):
            return exp.Anonymous(this=f"to_{target}", expressions=[value])
        outer = node.parent
        if isinstance(outer, exp.Cast) and outer.to.sql(dialect="postgres").lower() in (
            "oid",
            "uint",
            "uinteger",
            "bigint",
            "int",
        ):
            return value
        return exp.Anonymous(this=f"{target}_name", expressions=[value])
    if target in ("oid", "xid", "cid"):
        node.set("to", exp.DataType.build("uint"))
    elif target in ("name", "char", "bpchar", "aclitem", "pg_node_tree", "unknown", '"char"'):
        node.set("to", exp.DataType.build("text"))
    elif target.endswith("[]"):
        return _array_cast(node, target[:-2].strip('"'))
    return node


def _array_cast(node: Any, element: str) -> Any:
    kind = {"oid": "uint", "name": "text", "char": "text", "regclass": "text", "regtype": "text"}.get(element)
    if kind is not None:
        node.set("to", exp.DataType.build(f"{kind}[]", dialect="postgres"))
    value = node.this
    if isinstance(value, exp.Literal) and value.is_string and value.name.startswith("{"):
        parts = [part.strip().strip('"') for part in value.name.strip("{}").split(",") if part.strip()]
        node.set("this", exp.Array(expressions=[exp.Literal.string(part) for part in parts]))
    return node


def _name_columns(select: Any) -> None:
    """Name columns as PostgreSQL would: DuckDB names them after their expressions, which rewriting changes."""
    for number, column in enumerate(select.expressions):
        if isinstance(column, exp.Alias | exp.Column | exp.Star) or not _column_name(column):
            continue
        select.expressions[number].replace(exp.alias_(column.copy(), _column_name(column), quoted=True))


def _column_name(node: Any) -> str:
    if isinstance(node, exp.Dot):
        return _column_name(node.expression)
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    if isinstance(node, exp.Cast):
        return _column_name(node.this) or str(node.to.sql(dialect="postgres")).lower()
    if isinstance(node, exp.Column):
        return str(node.name)
    if isinstance(node, exp.Func):
        return _function_name(node)
    return ""
