"""Parser of CREATE STREAM and CREATE TABLE in DBToaster's dialect, and the tokens of scripts.

There are just enough kinds of tokens to find the statements of a script; each token has its position for errors.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from runtime.compiler.errors import MissingFileError, SqlError
from runtime.plan import Column, ColumnType, Relation

__all__ = [
    "DeclaredFile",
    "DeclaredSocket",
    "StreamDeclaration",
    "Text",
    "Token",
    "TokenCursor",
    "parse_declaration",
    "tokenise",
]

TokenKind = Literal["word", "string", "number", "symbol", "end"]

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
      | (?P<string>'(?:[^']|'')*')
      | (?P<quoted>"(?:[^"]|"")*"|`[^`]*`)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<word>[A-Za-z_][A-Za-z_0-9$]*)
      | (?P<symbol>:=|.)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """Token of a script."""

    kind: TokenKind
    """Kind of the token."""
    text: str
    """Text: a string without its quotes, a word as it was written."""
    start: int
    """Offset of its first character."""
    end: int
    """Offset after its last character."""

    def is_word(self, *words: str) -> bool:
        """Return True if it is one of these keywords, in any case."""
        return self.kind == "word" and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        """Return True if it is this symbol."""
        return self.kind == "symbol" and self.text == symbol


class Text:
    """Text of a script with its name, which converts offsets to positions and positions to errors."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of this offset, both from 1."""
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def error(self, offset: int, reason: str) -> SqlError:
        """Return the error with this reason at that offset."""
        line, column = self.position(offset)
        return SqlError(reason, file=self.name, line=line, column=column)


def tokenise(text: Text) -> list[Token]:
    """Return all tokens of the text without comments and white space, an end token last."""
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text.text):
        kind, value = match.lastgroup, match.group()
        if kind == "space":
            continue
        if kind == "string":
            tokens.append(Token("string", value[1:-1].replace("''", "'"), match.start(), match.end()))
        elif kind == "quoted":
            tokens.append(Token("word", value[1:-1].replace('""', '"'), match.start(), match.end()))
        elif kind == "symbol" and value in "'\"`":
            raise text.error(match.start(), f"expected a closing {value}, was the end of the file")
        elif kind == "symbol" and text.text.startswith("/*", match.start()):
            raise text.error(match.start(), "expected a closing */, was the end of the file")
        else:
            assert kind in ("number", "word", "symbol")
            tokens.append(Token(kind, value, match.start(), match.end()))  # type: ignore[arg-type]  # narrowed above
    tokens.append(Token("end", "the end of the file", len(text.text), len(text.text)))
    return tokens


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
"""Type in SQL → type of the input, for types that have fewer values than the type of their column."""
_INT64_DIGITS = 18
_INT128_DIGITS = 38
_SECOND_DIGITS = 6
_MOST_PORT: Final = 65_535
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|(.?))", re.DOTALL)
_ESCAPES = {"t": b"\t", "n": b"\n", "r": b"\r", "0": b"\0", "\\": b"\\"}


@dataclass(frozen=True, slots=True)
class DeclaredFile:
    """File that a stream reads to its end."""

    name: str
    """Name as in the script."""
    tried: tuple[Path, ...]
    """Possible paths, in order."""
    position: str
    """``file:line:column`` of the declaration."""

    @property
    def path(self) -> Path:
        """First of the possible paths that is a file; raises `MissingFileError`, which lists them."""
        for place in self.tried:
            if place.is_file():
                return place
        raise MissingFileError(self.name, self.tried, where=self.position)


@dataclass(frozen=True, slots=True)
class DeclaredSocket:
    """Server that a stream connects to."""

    host: str
    """Name or address."""
    port: int
    """TCP port."""


@dataclass(frozen=True, slots=True)
class StreamDeclaration:
    """Relation of a script and the source of its rows."""

    name: str
    """Name in lower case."""
    columns: tuple[Column, ...]
    """Declared columns; in an order book every number is an exact integer."""
    source: DeclaredFile | DeclaredSocket
    """Source of the bytes."""
    delimiter: bytes
    """Delimiter of tuples."""
    adaptor: str
    """Name of the adaptor in lower case, such as ``csv`` or ``orderbook``."""
    options: dict[str, str]
    """The adaptor's options, names in lower case."""
    is_table: bool
    """True for CREATE TABLE: the source of a table is read to its end before any stream."""
    position: tuple[int, int]
    """Line and column of the declaration."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Name of a column → type of its field in the input; only for fields that have fewer values than the column."""

    def relation(self) -> Relation:
        """Return the relation as views read it."""
        return Relation(name=self.name, columns=self.columns)


class TokenCursor:
    """Position in a script's tokens."""

    def __init__(self, text: Text, tokens: list[Token]) -> None:
        self.text = text
        self._tokens = tokens
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def advance(self) -> Token:
        """Return the next token and move past it."""
        token = self.token
        if token.kind != "end":
            self._at += 1
        return token

    def take(self, *words: str) -> bool:
        """Return True and move past the next token if it is one of these keywords."""
        is_match = self.token.is_word(*words)
        if is_match:
            self.advance()
        return is_match

    def take_symbol(self, symbol: str) -> bool:
        """Return True and move past the next token if it is this symbol."""
        is_match = self.token.is_symbol(symbol)
        if is_match:
            self.advance()
        return is_match

    def expect(self, what: str, test: Callable[[Token], bool]) -> Token:
        """Return the next token and move past it if it passes ``test``; else raise an error at the token's position."""
        if not test(self.token):
            raise self.text.error(self.token.start, f"expected {what}, was {self.token.text!r}")
        return self.advance()

    def word(self, what: str) -> Token:
        """Take a name."""
        return self.expect(what, lambda token: token.kind == "word")

    def keyword(self, *words: str) -> Token:
        """Take one of these keywords."""
        return self.expect(" or ".join(words), lambda token: token.is_word(*words))

    def symbol(self, symbol: str) -> Token:
        """Take this symbol."""
        return self.expect(repr(symbol), lambda token: token.is_symbol(symbol))

    def string(self, what: str) -> Token:
        """Take a string in single quotes."""
        return self.expect(what, lambda token: token.kind == "string")

    def number(self, what: str) -> Token:
        """Take an unsigned whole number."""
        return self.expect(what, lambda token: token.kind == "number" and token.text.isdigit())


def parse_declaration(
    cursor: TokenCursor, start: int, name: Token, is_table: bool, places: Callable[[str], tuple[Path, ...]]
) -> StreamDeclaration:
    """Parse the declaration after CREATE STREAM or CREATE TABLE and its name.

    ``places`` returns the possible paths of a file that the declaration names.
    """
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
    """Return the column of an order book: any number is an int64, because the adaptor delivers ticks and lots."""
    return Column(column.name, "int64") if column.type in ("float64", "int64", "int128") else column


def _columns(cursor: TokenCursor) -> tuple[tuple[Column, ...], dict[str, str]]:
    """Parse the columns; return them, and the value of `StreamDeclaration.written`."""
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


def _column(cursor: TokenCursor, name: str, written: dict[str, str]) -> Column:
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
            expected = f"at most {_INT128_DIGITS} digits, no more of them after the point than there are"
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


def _source(
    cursor: TokenCursor, places: Callable[[str], tuple[Path, ...]], position: str
) -> DeclaredFile | DeclaredSocket:
    if cursor.keyword("FILE", "SOCKET").is_word("FILE"):
        name = cursor.string("the path of a file in quotes").text
        return DeclaredFile(name, places(name), position)
    host = cursor.string("the address of a server in quotes").text
    token = cursor.number("a port")
    port = int(token.text)
    if not 1 <= port <= _MOST_PORT:
        raise cursor.text.error(token.start, f"expected a port from 1 to {_MOST_PORT}, was {port}")
    return DeclaredSocket(host, port)


def _framing(cursor: TokenCursor) -> bytes:
    """Parse the delimiter of tuples: LINE DELIMITED, 'x' DELIMITED, or nothing, which means lines."""
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


def _unescaped(cursor: TokenCursor, token: Token) -> bytes:
    """Return the bytes of a delimiter, in which a backslash begins an escape sequence."""
    parts: list[bytes] = []
    place = 0
    for escape in _ESCAPE.finditer(token.text):
        code, letter = escape.groups()
        if code is None and letter not in _ESCAPES:
            known = r"\t, \n, \r, \0, \\ or \xNN"
            raise cursor.text.error(token.start, f"expected {known} in a delimiter, was {token.text!r}")
        parts += (token.text[place : escape.start()].encode(), bytes.fromhex(code) if code else _ESCAPES[letter])
        place = escape.end()
    return b"".join([*parts, token.text[place:].encode()])


def _options(cursor: TokenCursor) -> dict[str, str]:
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
