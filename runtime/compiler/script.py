"""Parser of a file of SQL: INCLUDE, CREATE STREAM, CREATE TABLE, and the SELECTs of views and derived streams.

A derived stream declares how long its rows are retained, and how late its input may be::

    CREATE STREAM name [RETAIN n ROWS] [RETAIN INTERVAL 'n' unit] [LATENESS INTERVAL 'n' unit] AS SELECT …
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast

import msgspec

from runtime.compiler.declarations import StreamDeclaration, Text, Token, TokenCursor, parse_declaration, tokenise
from runtime.compiler.errors import MissingFileError, SqlError
from runtime.compiler.intervals import UNITS_NS
from runtime.plan import Lane, Relation

__all__ = [
    "UNLIMITED_NS",
    "NamedSelect",
    "Script",
    "StreamClauses",
    "StreamSelect",
    "is_column_name",
    "is_view_name",
    "parse_script",
    "read_script",
]

MOST_RETAINED_ROWS: Final = 10_000_000
"""Greatest number in RETAIN … ROWS."""
UNLIMITED_NS: Final = 1 << 62
"""Retention time of a stream that has only RETAIN … ROWS: rows of any age are retained."""
_NAME: Final = re.compile(r"[^\s/,%?#&\"'\\]{1,100}")
"""Pattern of names of views, which occur in the paths of URLs and in lists with commas."""
_ROWS_OF_INTERVAL: Final = 1_000_000
"""Greatest number of rows retained by a stream with only RETAIN INTERVAL."""
_BYTE_ORDER_MARK: Final = "\ufeff"
"""Character with which some editors begin a file in UTF-8; it is not part of the text."""
_DEFAULT_ROWS: Final = 20_000
_DEFAULT_NS: Final = 5 * UNITS_NS["minute"]


class StreamClauses(msgspec.Struct, frozen=True):
    """Clauses between the name of a derived stream and its SELECT."""

    retain_rows: int = _DEFAULT_ROWS
    """Number of newest rows that are retained; the default is that of TRADES."""
    retain_ns: int = _DEFAULT_NS
    """Greatest age of a retained row, in nanoseconds before the newest row; the default is that of TRADES."""
    lateness_ns: int = 0
    """Longest time in nanoseconds by which a row may be behind the watermark."""


DEFAULT_CLAUSES: Final = StreamClauses()
"""Clauses of a stream that declares none."""


def parse_clauses(cursor: TokenCursor) -> StreamClauses:
    """Parse the clauses, in any order and each once, and AS after them; raise `SqlError` for anything else."""
    rows: int | None = None
    age: int | None = None
    lateness: int | None = None
    while (token := cursor.token).is_word("RETAIN", "LATENESS"):
        cursor.advance()
        if token.is_word("LATENESS"):
            lateness = _once(cursor, token, "LATENESS", lateness, _interval(cursor))
        elif cursor.token.kind == "number":
            rows = _once(cursor, token, "RETAIN … ROWS", rows, _row_count(cursor))
        else:
            age = _once(cursor, token, "RETAIN INTERVAL", age, _interval(cursor))
    cursor.expect("RETAIN, LATENESS or AS", lambda following: following.is_word("AS"))
    if rows is None and age is None:
        return StreamClauses(lateness_ns=lateness or 0)
    return StreamClauses(
        _ROWS_OF_INTERVAL if rows is None else rows, UNLIMITED_NS if age is None else age, lateness or 0
    )


def _once(cursor: TokenCursor, token: Token, clause: str, before: int | None, value: int) -> int:
    if before is not None:
        raise cursor.text.error(token.start, f"expected {clause} once, was a second")
    return value


def _row_count(cursor: TokenCursor) -> int:
    token = cursor.number("a number of rows")
    rows = int(token.text)
    if not 1 <= rows <= MOST_RETAINED_ROWS:
        raise cursor.text.error(token.start, f"expected 1 to {MOST_RETAINED_ROWS} rows, was {rows}")
    cursor.keyword("ROWS", "ROW")
    return rows


def _interval(cursor: TokenCursor) -> int:
    """Parse the nanoseconds of ``INTERVAL '5' MINUTE``, ``INTERVAL 5 MINUTES`` or ``INTERVAL '5 minutes'``."""
    cursor.keyword("INTERVAL")
    token = cursor.expect("a number in quotes", lambda following: following.kind in ("string", "number"))
    number, _, unit = token.text.strip().partition(" ")
    if not (number.isascii() and number.isdigit()):
        raise cursor.text.error(token.start, f"expected a whole number in INTERVAL, was {token.text!r}")
    place = token.start
    if not unit:
        word = cursor.word("a unit of time")
        unit, place = word.text, word.start
    size = UNITS_NS.get(unit.strip().lower().removesuffix("s"))
    if size is None:
        known = ", ".join(UNITS_NS).upper()
        raise cursor.text.error(place, f"expected a unit of time ({known}), was {unit.strip()!r}")
    if (length := int(number) * size) >= UNLIMITED_NS:
        raise cursor.text.error(token.start, f"expected an INTERVAL of less than 2^62 nanoseconds, was {length}")
    return length


_LANES: Final = ("spark", "express")


@dataclass(frozen=True, slots=True)
class NamedSelect:
    """View of a script."""

    name: str
    """Name in lower case: that of CREATE VIEW, else the file's stem, numbered if the file has several plain SELECTs."""
    sql: str
    """SELECT as it was written."""
    line: int = 1
    """Line of its start, from 1."""
    column: int = 1
    """Column of its start, from 1."""
    file: str = ""
    """Script, for messages."""
    lane: Lane = "spark"
    """Lane of the view: the ``lane`` of its TBLPROPERTIES."""
    any_lane: bool = field(default=False, compare=False)
    """True if no property sets the lane; a runtime that lacks the default lane may then use another lane."""
    readers: tuple[str, ...] = ()
    """Readers to whose relations the view is restricted; empty if the view may use all relations."""


def is_column_name(name: str) -> bool:
    """Return True if a column of a runtime's view may have this name: changes of a view have a column `weight` of their
    own.
    """
    return name.lower() != "weight"


def is_view_name(name: str) -> bool:
    """Return True if a view or a stream of a runtime may have this name.

    >>> is_view_name("book_depth"), is_view_name("Book"), is_view_name("book depth"), is_view_name("")
    (True, False, False, False)
    """
    return _NAME.fullmatch(name) is not None and name == name.lower()


@dataclass(frozen=True, slots=True)
class StreamSelect:
    """Derived stream of a script: CREATE STREAM … AS SELECT."""

    select: NamedSelect
    """Name, SELECT and position of the stream."""
    clauses: StreamClauses = DEFAULT_CLAUSES
    """Retention and lateness of the stream."""

    @property
    def name(self) -> str:
        """Name in lower case."""
        return self.select.name


@dataclass(frozen=True, slots=True)
class Script:
    """Content of a file of SQL."""

    name: str
    """File, for messages."""
    streams: tuple[StreamDeclaration, ...]
    """Declarations of the file and of the files that it includes, in order."""
    selects: tuple[NamedSelect, ...]
    """Views of the file and of the files that it includes, in order."""
    derived: tuple[StreamSelect, ...] = ()
    """Derived streams of the file and of the files that it includes, in order."""

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Return the declared streams and tables as relations for views."""
        return tuple(stream.relation() for stream in self.streams)


def read_script(path: Path | str, *, data_dir: Path | None = None) -> Script:
    """Return the script in this file; raise `SqlError` with a position, or `MissingFileError`."""
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(str(path), (path.absolute(),))
    reader = _Reader(data_dir)
    reader.read_file(path)
    return reader.script(str(path))


def parse_script(text: str, *, name: str, base_dir: Path, data_dir: Path | None = None) -> Script:
    """Return the script in this text, as if it were the file ``base_dir/name``."""
    reader = _Reader(data_dir)
    reader.read_text(Text(text, name), base_dir, Path(name).stem, ())
    return reader.script(name)


@dataclass(slots=True)
class _Reader:
    """Reader of a script and of all scripts that it includes."""

    data_dir: Path | None
    streams: dict[str, tuple[StreamDeclaration, str]] = field(default_factory=dict)
    selects: dict[str, NamedSelect] = field(default_factory=dict)
    derived: dict[str, StreamSelect] = field(default_factory=dict)

    def script(self, name: str) -> Script:
        streams = tuple(stream for stream, _ in self.streams.values())
        return Script(name, streams, tuple(self.selects.values()), tuple(self.derived.values()))

    def read_file(self, path: Path, chain: tuple[Path, ...] = ()) -> None:
        try:
            content = path.read_text(encoding="utf-8").removeprefix(_BYTE_ORDER_MARK)
        except UnicodeDecodeError as error:
            raise SqlError(f"expected UTF-8 text, was byte {error.object[error.start]:#04x} at {error.start}",
                           file=str(path)) from error  # fmt: skip
        self.read_text(Text(content, str(path)), path.parent, path.stem, (*chain, path.resolve()))

    def read_text(self, text: Text, folder: Path, stem: str, chain: tuple[Path, ...]) -> None:
        cursor = TokenCursor(text, tokenise(text))
        # Plain SELECTs get names only when their number is known.
        named: list[tuple[int, int, str | None, Lane | None]] = []
        while cursor.token.kind != "end":
            if cursor.take_symbol(";"):
                continue
            start = cursor.token.start
            if cursor.take("INCLUDE"):
                self._include(cursor, folder, chain)
            elif cursor.token.is_word("SELECT", "WITH") or cursor.token.is_symbol("("):
                named.append((*_statement(cursor), None, None))
            elif cursor.take("CREATE"):
                view = self._create(cursor, start, folder)
                if view is not None:
                    named.append((*_statement(cursor), *view))
            else:
                raise text.error(start, f"expected SELECT, CREATE STREAM, CREATE TABLE, CREATE VIEW or INCLUDE, "
                                        f"was {cursor.token.text!r}")  # fmt: skip
        unnamed = sum(name is None for _, _, name, _ in named)
        stems = iter([stem] if unnamed == 1 else [f"{stem}_{number}" for number in range(1, unnamed + 1)])
        for start, end, name, lane in named:
            self._add_select(text, start, end, (name or next(stems)).lower(), lane)

    def _create(self, cursor: TokenCursor, start: int, folder: Path) -> tuple[str, Lane | None] | None:
        """Parse a statement after CREATE; return the name and lane of a view, and None for a stream or table.

        Of CREATE VIEW, only the part before the SELECT is parsed.
        """
        is_replacing = cursor.take("OR")
        if is_replacing:
            cursor.keyword("REPLACE")
        kind = cursor.keyword("STREAM", "TABLE", "VIEW")
        if kind.is_word("VIEW"):
            name = cursor.word("the name of a view").text
            lane = _properties(cursor) if cursor.take("TBLPROPERTIES") else None
            cursor.keyword("AS")
            return name, lane
        what = "table" if kind.is_word("TABLE") else "stream"
        name_token = cursor.word(f"the name of a {what}")
        if what == "stream" and cursor.token.is_word("RETAIN", "LATENESS", "AS"):
            self._derive(cursor, start, name_token.text.lower(), is_replacing=is_replacing)
            return None
        stream = parse_declaration(cursor, start, name_token, what == "table", lambda name: self._places(name, folder))
        self._expect_new(cursor.text, start, stream.name)
        # The word of the next statement is not taken here.
        if cursor.token.kind != "end" and not cursor.token.is_word("CREATE", "SELECT", "INCLUDE", "WITH"):
            cursor.symbol(";")
        self.streams[stream.name] = (stream, cursor.text.name)
        return None

    def _derive(self, cursor: TokenCursor, start: int, name: str, *, is_replacing: bool) -> None:
        """Parse CREATE STREAM … AS SELECT after the name."""
        text = cursor.text
        if is_replacing:
            reason = "the rows that the old one has brought cannot be recreated; drop it first, then create the new one"
            raise text.error(start, f"expected CREATE STREAM {name} AS, was CREATE OR REPLACE: {reason}")
        clauses = parse_clauses(cursor)
        if not (cursor.token.is_word("SELECT", "WITH") or cursor.token.is_symbol("(")):
            raise text.error(cursor.token.start, f"expected SELECT or WITH, was {cursor.token.text!r}")
        begin, end = _statement(cursor)
        sql = text.text[begin:end]
        known = self.derived.get(name)
        if known is not None and (known.select.sql, known.clauses) == (sql, clauses):
            return  # the file is included several times
        self._expect_new(text, start, name)
        line, column = text.position(begin)
        self.derived[name] = StreamSelect(NamedSelect(name, sql, line, column, text.name), clauses)

    def _expect_new(self, text: Text, start: int, name: str) -> None:
        """Raise `SqlError` if the script has a stream or table of this name already."""
        if name in self.streams:
            first, file = self.streams[name]
            where = f"{file}:{first.position[0]}:{first.position[1]}"
        elif name in self.derived:
            other = self.derived[name].select
            where = f"{other.file}:{other.line}:{other.column}"
        else:
            return
        reason = f"expected one declaration of {name!r}, was a second; the first is at {where}"
        raise text.error(start, reason)

    def _places(self, name: str, folder: Path) -> tuple[Path, ...]:
        """Return the possible paths of a data file."""
        path = Path(name)
        if path.is_absolute():
            return (path,)
        folders = [] if self.data_dir is None else [self.data_dir / path, self.data_dir / path.name]
        return tuple(dict.fromkeys((*folders, folder / path, Path.cwd() / path)))

    def _include(self, cursor: TokenCursor, folder: Path, chain: tuple[Path, ...]) -> None:
        token = cursor.string("the path of a script in quotes")
        roots = [folder, *folder.absolute().parents, Path.cwd()] + ([self.data_dir] if self.data_dir else [])
        places = tuple(dict.fromkeys(root / token.text for root in roots))
        included = next((place for place in places if place.is_file()), None)
        line, column = cursor.text.position(token.start)
        if included is None:
            raise MissingFileError(token.text, places, where=f"{cursor.text.name}:{line}:{column}")
        if included.resolve() in chain:
            loop = " -> ".join(path.name for path in (*chain, included))
            raise cursor.text.error(token.start, f"expected files that do not include each other, was {loop}")
        self.read_file(included, chain)

    def _add_select(self, text: Text, start: int, end: int, name: str, lane: Lane | None) -> None:
        line, column = text.position(start)
        if name in self.selects:
            other = self.selects[name]
            raise text.error(start, f"expected names of views once each, was {name!r} again; "
                                    f"the first is at {other.file}:{other.line}:{other.column}")  # fmt: skip
        self.selects[name] = NamedSelect(
            name, text.text[start:end], line, column, text.name, lane or "spark", any_lane=lane is None
        )


def _properties(cursor: TokenCursor) -> Lane:
    """Parse the properties of a view, as in ``('lane' = 'express')``; a view has no other property."""
    cursor.symbol("(")
    cursor.expect("'lane', the one property of a view", lambda t: t.kind == "string" and t.text.lower() == "lane")
    cursor.symbol("=")
    lane = cursor.expect(
        f"one of the lanes {', '.join(_LANES)}", lambda t: t.kind == "string" and t.text.lower() in _LANES
    )
    cursor.symbol(")")
    return cast(Lane, lane.text.lower())


def _statement(cursor: TokenCursor) -> tuple[int, int]:
    """Return start and end of the query at the cursor, and move the cursor to the next ``;`` or the end."""
    start = end = cursor.token.start
    while cursor.token.kind != "end" and not cursor.token.is_symbol(";"):
        end = cursor.advance().end
    return start, end
