"""CREATE STREAM and CREATE TABLE of DBToaster's dialect, read from tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from runtime.compiler.errors import MissingFileError
from runtime.compiler.tokens import Text, Token
from runtime.plan import Column, ColumnType, Relation

__all__ = ["Cursor", "FileSource", "SocketSource", "StreamDeclaration", "parse_declaration"]

_TYPES: dict[str, ColumnType] = {
    **dict.fromkeys(("INT", "INTEGER", "BIGINT", "LONG", "SMALLINT", "TINYINT"), "int64"),
    **dict.fromkeys(("FLOAT", "DOUBLE", "REAL"), "float64"),
    **dict.fromkeys(("STRING", "VARCHAR", "CHAR", "TEXT"), "string"),
    **dict.fromkeys(("BOOL", "BOOLEAN"), "bool"),
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER"), "int64"),
    "UBIGINT": "int128",
}
_WRITTEN: Final = {"UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64"}
"""Types whose values are fewer than those of their column → the type of the input."""
_INT64_DIGITS = 18
_INT128_DIGITS = 38
_SECOND_DIGITS = 6
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}


@dataclass(frozen=True, slots=True)
class FileSource:
    """A file that a stream reads to its end."""

    name: str
    """As the script wrote it."""
    tried: tuple[Path, ...]
    """Where it may lie, in order."""
    position: str
    """``file:line:column`` of the declaration."""

    @property
    def path(self) -> Path:
        """The first of the places where a file is; raises `MissingFileError`, which lists them."""
        for place in self.tried:
            if place.is_file():
                return place
        raise MissingFileError(self.name, self.tried, where=self.position)


@dataclass(frozen=True, slots=True)
class SocketSource:
    """A server that a stream connects to."""

    host: str
    """Name or address."""
    port: int
    """TCP port."""


@dataclass(frozen=True, slots=True)
class StreamDeclaration:
    """A relation of a script and where its rows come from."""

    name: str
    """Lower case."""
    columns: tuple[Column, ...]
    """As declared; of an order book every number is an exact integer."""
    source: FileSource | SocketSource
    """Where the bytes are."""
    delimiter: bytes
    """What ends a tuple."""
    adaptor: str
    """``csv``, ``orderbook`` or another, lower case."""
    options: dict[str, str]
    """The adaptor's options, names in lower case."""
    is_table: bool
    """CREATE TABLE: read to its end before any stream."""
    position: tuple[int, int]
    """Line and column of the declaration."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Columns whose values in the input are of a narrower type than the column → that type, as formats call it."""

    def relation(self) -> Relation:
        """What views see of it."""
        return Relation(name=self.name, columns=self.columns)


class Cursor:
    """A place in a script's tokens."""

    def __init__(self, text: Text, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def advance(self) -> Token:
        """The next token, which is then behind."""
        token = self.token
        if token.kind != "end":
            self._at += 1
        return token

    def take(self, *words: str) -> bool:
        """Whether the next token is one of these keywords, which is then behind."""
        found = self.token.is_word(*words)
        if found:
            self.advance()
        return found

    def take_symbol(self, symbol: str) -> bool:
        """Whether the next token is this symbol, which is then behind."""
        found = self.token.is_symbol(symbol)
        if found:
            self.advance()
        return found

    def expect(self, what: str, test: Callable[[Token], bool]) -> Token:
        """The next token if it passes; an error with its position if not."""
        if not test(self.token):
            raise self.text.error(self.token.start, f"expected {what}, was {self.token.text!r}")
        return self.advance()

    def word(self, what: str) -> Token:
        """A name."""
        return self.expect(what, lambda token: token.kind == "word")

    def keyword(self, *words: str) -> Token:
        """One of these keywords."""
        return self.expect(" or ".join(words), lambda token: token.is_word(*words))

    def symbol(self, symbol: str) -> Token:
        """This symbol."""
        return self.expect(repr(symbol), lambda token: token.is_symbol(symbol))

    def string(self, what: str) -> Token:
        """A string in single quotes."""
        return self.expect(what, lambda token: token.kind == "string")

    def number(self, what: str) -> Token:
        """An unsigned whole number."""
        return self.expect(what, lambda token: token.kind == "number" and token.text.isdigit())


def parse_declaration(
    cursor: Cursor, start: int, name: Token, is_table: bool, places: Callable[[str], tuple[Path, ...]]
) -> StreamDeclaration:
    """The declaration behind CREATE STREAM or CREATE TABLE and its name; ``places`` says where a file may lie."""
    columns, written = _columns(cursor)
    cursor.keyword("FROM")
    line, column = cursor.text.position(start)
    source = _source(cursor, places, f"{cursor.text.name}:{line}:{column}")
    delimiter = _framing(cursor)
    adaptor, options = "csv", dict[str, str]()
    if cursor.token.kind == "word":
        adaptor, options = cursor.word("the name of an adaptor").text.lower(), _options(cursor)
    if adaptor == "orderbook":
        columns, written = tuple(_exact(column) for column in columns), {}
    return StreamDeclaration(
        name=name.text.lower(), columns=columns, source=source, delimiter=delimiter, adaptor=adaptor,
        options=options, is_table=is_table, position=(line, column), written=written,
    )  # fmt: skip


def _exact(column: Column) -> Column:
    """The order-book adaptor delivers ticks and lots: FLOAT in an order book's declaration holds exact integers."""
    return Column(column.name, "int64") if column.type in ("float64", "int64", "int128") else column


def _columns(cursor: Cursor) -> tuple[tuple[Column, ...], dict[str, str]]:
    """The columns, and the types of the input where they are narrower than those of the columns."""
    cursor.symbol("(")
    columns: dict[str, Column] = {}
    written: dict[str, str] = {}
    while True:
        name = cursor.word("the name of a column")
        if name.text.lower() in columns:
            raise cursor.text.error(name.start, f"expected column names once each, was {name.text!r} again")
        columns[name.text.lower()] = _column(cursor, name.text.lower(), written)
        if not cursor.take_symbol(","):
            cursor.expect("',' or ')'", lambda token: token.is_symbol(")"))
            return tuple(columns.values()), written


def _column(cursor: Cursor, name: str, written: dict[str, str]) -> Column:
    token = cursor.word(f"a type for the column {name!r}")
    kind = token.text.upper()
    sizes: list[int] = []
    if cursor.take_symbol("("):
        sizes.append(int(cursor.number("a size").text))
        if cursor.take_symbol(","):
            sizes.append(int(cursor.number("a scale").text))
        cursor.symbol(")")
    cursor.take("PRECISION")
    nullable = True
    if cursor.take("NOT"):
        cursor.keyword("NULL")
        nullable = False
    if kind in ("DECIMAL", "NUMERIC"):
        if not sizes:
            return Column(name, "float64", nullable)
        precision, scale = (*sizes, 0)[:2]
        if not 1 <= precision <= _INT128_DIGITS or scale > precision:
            expected = f"at most {_INT128_DIGITS} digits, no more of them behind the point than there are"
            raise cursor.text.error(token.start, f"expected {expected}, was {kind}({precision},{scale})")
        written[name] = f"numeric({precision},{scale})"
        return Column(name, "int64" if precision <= _INT64_DIGITS else "int128", nullable, scale)
    if kind == "TIMESTAMP" and sizes and sizes[0] > _SECOND_DIGITS:
        expected = f"at most {_SECOND_DIGITS} digits of a second; count nanoseconds in a BIGINT"
        raise cursor.text.error(token.start, f"expected {expected}, was {kind}({sizes[0]})")
    if kind not in _TYPES:
        known = ", ".join(sorted((*_TYPES, "DECIMAL")))
        raise cursor.text.error(token.start, f"expected a type ({known}), was {token.text!r}")
    if kind in _WRITTEN:
        written[name] = _WRITTEN[kind]
    return Column(name, _TYPES[kind], nullable)


def _source(cursor: Cursor, places: Callable[[str], tuple[Path, ...]], position: str) -> FileSource | SocketSource:
    if cursor.keyword("FILE", "SOCKET").is_word("FILE"):
        name = cursor.string("the path of a file in quotes").text
        return FileSource(name, places(name), position)
    host = cursor.string("the address of a server in quotes").text
    return SocketSource(host, int(cursor.number("a port").text))


def _framing(cursor: Cursor) -> bytes:
    """What ends a tuple: LINE DELIMITED, 'x' DELIMITED, or nothing said, which is lines."""
    token = cursor.token
    if token.is_word("FIXEDWIDTH"):
        raise cursor.text.error(token.start, "expected LINE DELIMITED, was FIXEDWIDTH, which is not supported")
    if cursor.take("LINE"):
        cursor.keyword("DELIMITED")
        return b"\n"
    if token.kind == "string":
        cursor.advance()
        cursor.keyword("DELIMITED")
        return _unescaped(cursor, token)
    return b"\n"


def _unescaped(cursor: Cursor, token: Token) -> bytes:
    """The bytes of a delimiter, written as in options of formats."""
    parts: list[bytes] = []
    place = 0
    for found in _ESCAPE.finditer(token.text):
        code, letter = found.groups()
        if code is None and letter not in _ESCAPES:
            known = r"\t, \n, \r, \0, \\ or \xNN"
            raise cursor.text.error(token.start, f"expected {known} in a delimiter, was {token.text!r}")
        parts += (token.text[place : found.start()].encode(), bytes.fromhex(code) if code else _ESCAPES[letter])
        place = found.end()
    return b"".join([*parts, token.text[place:].encode()])


def _options(cursor: Cursor) -> dict[str, str]:
    options: dict[str, str] = {}
    if not cursor.take_symbol("(") or cursor.take_symbol(")"):
        return options
    while True:
        start = cursor.word("the name of an option")
        name = start.text.lower()
        while cursor.take_symbol("."):
            name += "." + cursor.word("the name of a column").text.lower()
        if name in options:
            raise cursor.text.error(start.start, f"expected each option once, was {name!r} again")
        cursor.symbol(":=")
        options[name] = cursor.expect(
            "a value in quotes", lambda token: token.kind in ("string", "number", "word")
        ).text
        if not cursor.take_symbol(","):
            cursor.expect("',' or ')'", lambda token: token.is_symbol(")"))
            return options
