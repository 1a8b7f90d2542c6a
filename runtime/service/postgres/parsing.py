"""Parsing of a client's text, which is split into statements at its semicolons.

A statement is a command of the session or a question. The SQL of a question is parsed by DuckDB; this module finds only
the parameters and the epoch of the question. The time is linear in the length of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from runtime.service.postgres.errors import PostgresError
from runtime.service.postgres.statements import (
    Begin,
    Close,
    CopyOptions,
    CopyQuestion,
    CopySubscription,
    Deallocate,
    Declare,
    Discard,
    End,
    Execute,
    Fetch,
    Ignored,
    Prepare,
    Question,
    Reset,
    Savepoint,
    Set,
    Show,
    Statement,
)
from runtime.service.postgres.tokens import Token, syntax_error, tokens, unquoted
from runtime.service.postgres.types import type_oid

__all__ = ["parsed", "read_write"]

_REFUSED: Final = frozenset(
    [
        "ALTER",
        "ANALYZE",
        "ATTACH",
        "CALL",
        "CHECKPOINT",
        "CLUSTER",
        "COMMENT",
        "CREATE",
        "DELETE",
        "DETACH",
        "DO",
        "DROP",
        "EXPORT",
        "GRANT",
        "IMPORT",
        "INSERT",
        "INSTALL",
        "LOAD",
        "LOCK",
        "MERGE",
        "NOTIFY",
        "PRAGMA",
        "REASSIGN",
        "REFRESH",
        "REINDEX",
        "REVOKE",
        "SECURITY",
        "TRUNCATE",
        "UPDATE",
        "VACUUM",
    ]
)
"""First words of statements that would write."""
_UNKNOWN: Final = frozenset(["LISTEN"])
"""First words of other statements of PostgreSQL that are refused."""
_PLAN_OPTIONS: Final = frozenset(
    ["BUFFERS", "COSTS", "GENERIC_PLAN", "MEMORY", "SETTINGS", "SUMMARY", "TIMING", "VERBOSE", "WAL"]
)
"""Options of EXPLAIN that have no effect here."""
_READ_WRITE: Final = "READ WRITE"
"""Mode of a transaction that is refused; all other modes have no effect."""
_MOST_PARAMETERS: Final = 65_535
"""Greatest number of a parameter."""


def parsed(text: str) -> list[Statement]:
    """Return the statements of a text without the empty ones; raises `PostgresError` for text that cannot be parsed."""
    statements, own = list[Statement](), list[Token]()
    for token in tokens(text):
        if token.text == ";":
            if own:
                statements.append(_Reader(text, own).statement())
            own = []
        else:
            own.append(token)
    if own:
        statements.append(_Reader(text, own).statement())
    return statements


class _Reader:
    """Parser of one statement."""

    def __init__(self, text: str, own: Sequence[Token]) -> None:
        self._text, self._tokens, self._at = text, own, 0

    def statement(self) -> Statement:
        """Return the statement; raise `PostgresError` if it is not supported, and for tokens after it."""
        first = self._tokens[0]
        word = first.word
        if word in _REFUSED:
            raise PostgresError(
                "25006",
                f"expected a SELECT, as statements change neither rows nor views, was {word}",
                hint="Views are added and dropped by `deltabook query add` and `query drop`.",
                position=first.begin + 1,
            )
        if word in _UNKNOWN:
            raise PostgresError("0A000", f"expected a statement that is supported here, was {word}",
                                position=first.begin + 1)  # fmt: skip
        read = _READ.get(word)
        if read is None:
            return self._question(0, len(self._tokens))
        self._at = 1
        statement = read(self)
        if self._at < len(self._tokens):
            raise self._error("the end of the statement")
        return statement

    def _question(self, begin: int, end: int) -> Question:
        own = self._tokens[begin:end]
        if not own:
            raise self._error("a SELECT")
        epoch = None
        if [token.word for token in own[-4:-1]] == ["AS", "OF", "EPOCH"] and own[-1].kind == "number":
            epoch = self._epoch(own[-1])
            own = own[:-4]
            if not own:
                raise self._error("a SELECT")
        start, stop = own[0].begin, own[-1].end
        places = []
        for each in own:
            if each.kind == "parameter":
                if len(each.text) > 6 or not 0 < int(each.text[1:]) <= _MOST_PARAMETERS:
                    raise syntax_error(
                        f"expected a parameter $1 to ${_MOST_PARAMETERS}, was {each.text[:80]}", each.begin
                    )
                places.append(Token(each.kind, each.text, each.begin - start, each.end - start))
        return Question(self._text[start:stop], start, tuple(places), epoch)

    # The rest of a statement, after its first word

    def _begin(self) -> Begin:
        self._accept("TRANSACTION", "WORK")
        return Begin("BEGIN", self._tokens[0].begin, self._modes())

    def _start(self) -> Begin:
        self._expect("TRANSACTION")
        return Begin("START TRANSACTION", self._tokens[0].begin, self._modes())

    def _modes(self) -> bool:
        """Consume the modes of a transaction; return True if READ WRITE is among them."""
        words = [token.word for token in self._tokens[self._at :]]
        self._at = len(self._tokens)
        return _READ_WRITE in " ".join(words)

    def _commit(self) -> End:
        self._accept("TRANSACTION", "WORK")
        self._and_no_chain()
        return End(commits=True)

    def _abort(self) -> End:
        self._accept("TRANSACTION", "WORK")
        self._and_no_chain()
        return End(commits=False)

    def _rollback(self) -> End | Savepoint:
        self._accept("TRANSACTION", "WORK")
        if self._accept("TO"):
            self._accept("SAVEPOINT")
            return Savepoint("ROLLBACK", self._name())
        self._and_no_chain()
        return End(commits=False)

    def _and_no_chain(self) -> None:
        if self._accept("AND"):
            self._expect("NO")
            self._expect("CHAIN")

    def _savepoint(self) -> Savepoint:
        return Savepoint("SAVEPOINT", self._name())

    def _release(self) -> Savepoint:
        self._accept("SAVEPOINT")
        return Savepoint("RELEASE", self._name())

    def _set(self) -> Set | Ignored:
        is_local = bool(self._accept("LOCAL"))
        if not is_local:
            self._accept("SESSION")
        at = self._tokens[0].begin
        word = self._word()
        if word in ("TRANSACTION", "CHARACTERISTICS", "CONSTRAINTS"):
            if self._modes():
                raise read_write(at)
            return Ignored("SET" if word != "CONSTRAINTS" else "SET CONSTRAINTS")
        if word == "TIME":
            self._at += 1
            self._expect("ZONE")
            return self._set_to("timezone", is_local, at)
        if word in ("NAMES", "ROLE"):
            self._at += 1
            return self._set_to({"NAMES": "client_encoding"}.get(word, "role"), is_local, at)
        if word == "AUTHORIZATION":
            raise PostgresError(
                "0A000", "expected no SET SESSION AUTHORIZATION, as there are no roles", position=at + 1
            )
        name = self._dotted()
        if not self._accept("TO"):
            self._expect("=")
        return self._set_to(name, is_local, at)

    def _set_to(self, name: str, is_local: bool, begin: int) -> Set:
        values = self._tokens[self._at :]
        self._at = len(self._tokens)
        if not values:
            raise self._error("a value")
        if values[0].word in ("DEFAULT", "LOCAL") and len(values) == 1:
            return Set(name, None, is_local, begin)
        sign = "-" if values[0].text == "-" else ""
        parts = [unquoted(token) if token.kind != "word" else token.text for token in values if token.text not in ",-"]
        return Set(name, sign + ", ".join(parts), is_local, begin)

    def _show(self) -> Show:
        if [token.word for token in self._tokens[1:]] == ["TRANSACTION", "ISOLATION", "LEVEL"]:
            self._at = len(self._tokens)
            return Show("transaction_isolation")
        if [token.word for token in self._tokens[1:]] == ["TIME", "ZONE"]:
            self._at = len(self._tokens)
            return Show("timezone")
        return Show(self._dotted())

    def _reset(self) -> Reset:
        if [token.word for token in self._tokens[1:]] == ["TIME", "ZONE"]:
            self._at = len(self._tokens)
            return Reset("timezone")
        return Reset(self._dotted())

    def _discard(self) -> Discard:
        word = self._accept("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY")
        if not word:
            raise self._error("ALL, PLANS, SEQUENCES or TEMP")
        return Discard(word)

    def _unlisten(self) -> Ignored:
        self._at = len(self._tokens)
        return Ignored("UNLISTEN")

    def _explain(self) -> Question:
        options = dict[str, str]()
        if self._sign("("):
            while not options or self._sign(","):
                at = self._place()
                name, value = self._option()
                options[name] = value.upper()
                self._check_plan_option(name, options[name], at)
            self._expect(")")
        while word := self._accept("ANALYZE", "VERBOSE"):
            self._check_plan_option(word, "", self._tokens[self._at - 1].begin)
        question = self._question(self._at, len(self._tokens))
        self._at = len(self._tokens)
        return msgspec.structs.replace(question, explains=True)

    def _check_plan_option(self, name: str, value: str, begin: int) -> None:
        is_off = value in ("FALSE", "OFF", "0")
        if name == "ANALYZE" and not is_off:
            raise PostgresError("0A000", "expected EXPLAIN without ANALYZE, as the question is not run, was with it",
                                position=begin + 1)  # fmt: skip
        if name == "FORMAT" and value != "TEXT":
            raise PostgresError("0A000", f"expected EXPLAIN with FORMAT TEXT, was {value[:80]}", position=begin + 1)
        if name not in _PLAN_OPTIONS | {"ANALYZE", "FORMAT"}:
            raise syntax_error(f"expected an option of EXPLAIN, was {name[:80]}", begin)

    def _prepare(self) -> Prepare:
        name, oids = self._name(), list[int]()
        if self._sign("("):
            while not oids or self._sign(","):
                oids.append(self._type())
            self._expect(")")
        self._expect("AS")
        question = self._question(self._at, len(self._tokens))
        self._at = len(self._tokens)
        return Prepare(name, tuple(oids), question)

    def _type(self) -> int:
        """Return the OID of the type named at this position."""
        begin, name = self._place(), ""
        while self._rest() and self._peek().text not in ("(", ")", ",", "[", "::"):
            name = f"{name} {unquoted(self._peek()).lower()}".lstrip()
            self._at += 1
        if self._sign("("):  # a length or a scale, which types of parameters do not have
            while self._rest() and not self._sign(")"):
                self._at += 1
        if self._sign("["):
            self._expect("]")
            name += "[]"
        oid = type_oid(name)
        if oid is None:
            raise PostgresError(
                "42704", f"expected the name of a type, was {name[:80] or 'nothing'}", position=begin + 1
            )
        return oid

    def _execute(self) -> Execute:
        begin = self._tokens[0].begin
        name, values = self._name(), list[str]()
        if self._sign("("):
            while not values or self._sign(","):
                values.append(self._constant())
            self._expect(")")
        return Execute(name, tuple(values), begin)

    def _constant(self) -> str:
        """Return the text of a constant: a literal, optionally with a sign, a type before it or casts after it."""
        begin = self._place()
        has_sign = self._sign("-") or self._sign("+")
        kinds = [token.kind for token in self._tokens[self._at : self._at + 2]]
        if not has_sign and kinds == ["word", "string"]:
            self._at += 2
        elif self._rest() and (kinds[0] == "number" or (not has_sign and kinds[0] == "string")):
            self._at += 1
        elif has_sign or not self._accept("NULL", "TRUE", "FALSE"):
            raise self._error("a constant")
        while self._sign("::"):
            self._type()
        return self._text[begin : self._tokens[self._at - 1].end]

    def _deallocate(self) -> Deallocate:
        self._accept("PREPARE")
        return Deallocate(None if self._accept("ALL") else self._name())

    def _declare(self) -> Declare:
        name, is_binary, outlives = self._name(), False, False
        while word := self._accept("BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"):
            is_binary |= word == "BINARY"
        self._expect("CURSOR")
        if word := self._accept("WITH", "WITHOUT"):
            self._expect("HOLD")
            outlives = word == "WITH"
        self._expect("FOR")
        question = self._question(self._at, len(self._tokens))
        self._at = len(self._tokens)
        return Declare(name, question, is_binary, outlives)

    def _fetch(self) -> Fetch:
        return self._fetched(moves=False)

    def _move(self) -> Fetch:
        return self._fetched(moves=True)

    def _fetched(self, *, moves: bool) -> Fetch:
        single = {"NEXT": ("FORWARD", 1), "PRIOR": ("BACKWARD", 1), "FIRST": ("ABSOLUTE", 1), "LAST": ("ABSOLUTE", -1)}
        direction, count = "FORWARD", 1
        word = self._accept(*single, "ABSOLUTE", "RELATIVE", "FORWARD", "BACKWARD") if self._rest() > 1 else ""
        if word in single:
            direction, count = single[word]
        elif word in ("ABSOLUTE", "RELATIVE"):
            direction, count = word, self._integer()
        else:
            direction = word or direction
            if self._rest() > 1 and self._accept("ALL"):
                self._accept("FROM", "IN")
                return Fetch(self._name(), direction, None, moves)  # type: ignore[arg-type]  # as below
            if self._rest() > 1 and (self._peek().kind == "number" or self._peek().text == "-"):
                count = self._integer()
        self._accept("FROM", "IN") if self._rest() > 1 else None
        return Fetch(self._name(), direction, count, moves)  # type: ignore[arg-type]  # the four words

    def _close(self) -> Close:
        return Close(None if self._accept("ALL") else self._name())

    def _copy(self) -> CopyQuestion | CopySubscription:
        if not (self._rest() and self._peek().text == "("):
            return self._copy_table()
        begin, depth = self._at + 1, 0
        for end in range(self._at, len(self._tokens)):
            depth += {"(": 1, ")": -1}.get(self._tokens[end].text, 0)
            if not depth:
                break
        else:
            raise self._error("a closing parenthesis")
        self._at = end + 1
        options = self._copy_end()
        if self._tokens[begin].word != "SUBSCRIBE":
            return CopyQuestion(self._question(begin, end), options)
        after, self._at, whole = self._at, begin + 1, self._tokens
        self._tokens = whole[:end]
        self._accept("TO")
        place = self._peek().begin if self._rest() else whole[begin].end
        view, epoch = self._table(), None
        if self._accept("AS"):
            self._expect("OF")
            self._accept("EPOCH")
            if not self._rest() or self._peek().kind != "number":
                raise self._error("the number of an epoch")
            epoch = self._epoch(self._peek())
            self._at += 1
        if self._rest():
            raise self._error("AS OF, or the end of the subscription")
        self._tokens, self._at = whole, after
        return CopySubscription(view, place, epoch, options)

    def _copy_table(self) -> CopyQuestion:
        """Parse COPY name TO STDOUT, which is a SELECT of all rows."""
        begin = self._at
        name = self._table()
        columns = "*"
        if self._rest() and self._peek().text == "(":
            closing = next((n for n in range(self._at, len(self._tokens)) if self._tokens[n].text == ")"), None)
            if closing is None:
                raise self._error("a closing parenthesis")
            columns = self._text[self._tokens[self._at].end : self._tokens[closing].begin]
            self._at = closing + 1
        options = self._copy_end()
        sql = 'SELECT {} FROM "{}"'.format(columns, name.replace('"', '""'))
        return CopyQuestion(Question(sql, self._tokens[begin].begin), options)

    def _copy_end(self) -> CopyOptions:
        if self._accept("FROM"):
            raise PostgresError(
                "25006", "expected COPY … TO STDOUT, was COPY … FROM", position=self._tokens[0].begin + 1
            )
        self._expect("TO")
        if not self._accept("STDOUT"):
            raise PostgresError("42501", "expected COPY … TO STDOUT, as files are not written, was another place",
                                position=self._place() + 1)  # fmt: skip
        self._accept("WITH")
        options: dict[str, str] = {}
        if self._rest() and self._peek().text == "(":
            self._at += 1
            while not options or self._sign(","):
                name, value = self._option()
                options[name.lower()] = value.lower()
            if not self._sign(")"):
                raise self._error("a closing parenthesis")
        while word := self._accept("CSV", "BINARY", "HEADER"):
            options["header" if word == "HEADER" else "format"] = word.lower()
        return self._copy_options(options)

    def _copy_options(self, options: dict[str, str]) -> CopyOptions:
        form, header = options.pop("format", "text"), options.pop("header", "false")
        progress = options.pop("progress", "false")
        encoding = options.pop("encoding", "utf8")
        if form not in ("text", "csv", "binary"):
            raise PostgresError("22023", f"expected the format text, csv or binary, was {form!r}")
        if options or encoding.replace("-", "") != "utf8":
            what = ", ".join(options) or f"encoding {encoding}"
            raise PostgresError("0A000", f"expected options out of FORMAT, HEADER and PROGRESS, was {what}")
        no = ("false", "off", "0", "no")
        return CopyOptions(form, header not in no, progress not in no)  # type: ignore[arg-type]  # one of the three

    def _option(self) -> tuple[str, str]:
        """Read the name of an option in parentheses, and its value, which may be missing."""
        if not self._rest():
            raise self._error("an option")
        name, value = self._word(), ""
        self._at += 1
        if self._rest() and self._peek().text not in ",)":
            value = unquoted(self._peek())
            self._at += 1
        return name, value

    # Tokens

    def _rest(self) -> int:
        return len(self._tokens) - self._at

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _word(self) -> str:
        return self._peek().word if self._rest() else ""

    def _accept(self, *words: str) -> str:
        """Consume and return the next word if it is one of ``words``; return an empty string otherwise."""
        word = self._word()
        if word not in words or not word:
            return ""
        self._at += 1
        return word

    def _sign(self, sign: str) -> bool:
        is_next = bool(self._rest()) and self._peek().text == sign
        self._at += is_next
        return is_next

    def _expect(self, word: str) -> None:
        if not (self._accept(word) or self._sign(word)):
            raise self._error(word)

    def _name(self) -> str:
        if not self._rest() or self._peek().kind not in ("word", "quoted"):
            raise self._error("a name")
        self._at += 1
        return unquoted(self._tokens[self._at - 1])

    def _dotted(self) -> str:
        parts = [self._name()]
        while self._sign("."):
            parts.append(self._name())
        return ".".join(parts).lower()

    def _table(self) -> str:
        """Return the name of a table, without the schema that may precede it."""
        parts = [self._name()]
        while self._sign("."):
            parts.append(self._name())
        return parts[-1]

    def _integer(self) -> int:
        sign = -1 if self._sign("-") else 1
        self._sign("+")
        if not self._rest() or not self._peek().text.isdecimal():
            raise self._error("a whole number")
        self._at += 1
        return sign * min(int(self._tokens[self._at - 1].text[:19]), 2**62)

    def _epoch(self, token: Token) -> int:
        if not token.text.isdecimal() or len(token.text) > 18:
            raise syntax_error(f"expected the number of an epoch, was {token.text[:80]}", token.begin)
        return int(token.text)

    def _place(self) -> int:
        return self._peek().begin if self._rest() else self._tokens[-1].end

    def _error(self, expected: str) -> PostgresError:
        was = self._peek().text[:80] if self._rest() else "the end"
        return syntax_error(f"expected {expected}, was {was}", self._place())


_READ: Final[dict[str, Callable[[_Reader], Statement]]] = {
    "ABORT": _Reader._abort,
    "BEGIN": _Reader._begin,
    "CLOSE": _Reader._close,
    "COMMIT": _Reader._commit,
    "COPY": _Reader._copy,
    "DEALLOCATE": _Reader._deallocate,
    "DECLARE": _Reader._declare,
    "DISCARD": _Reader._discard,
    "END": _Reader._commit,
    "EXECUTE": _Reader._execute,
    "EXPLAIN": _Reader._explain,
    "FETCH": _Reader._fetch,
    "MOVE": _Reader._move,
    "PREPARE": _Reader._prepare,
    "RELEASE": _Reader._release,
    "RESET": _Reader._reset,
    "ROLLBACK": _Reader._rollback,
    "SAVEPOINT": _Reader._savepoint,
    "SET": _Reader._set,
    "SHOW": _Reader._show,
    "START": _Reader._start,
    "UNLISTEN": _Reader._unlisten,
}
"""First word of a statement → the method that parses the rest. A statement with another first word is a question."""


def read_write(begin: int) -> PostgresError:
    """Return the error for a transaction with READ WRITE."""
    return PostgresError("25006", "expected a transaction that reads only, was READ WRITE", position=begin + 1)
