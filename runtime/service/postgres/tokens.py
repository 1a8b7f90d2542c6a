"""Tokens of SQL in PostgreSQL's syntax, found in time linear in the length of the text."""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from runtime.service.postgres.errors import PostgresError

__all__ = ["Token", "syntax_error", "tokens", "unquoted"]

Kind = Literal["word", "quoted", "string", "number", "parameter", "sign"]
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)
    |(?P<string>[eE]'(?:[^'\\]|\\.|'')*'|(?:[uU]&|[bBxXnN])?'(?:[^']|'')*')
    |(?P<quoted>(?:[uU]&)?"(?:[^"]|"")*")
    |(?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][\w\x80-\U0010ffff]*)?\$)
    |(?P<parameter>\$\d+)
    |(?P<number>\d[\d_]*(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)
    |(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)
    |(?P<sign>::|.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")


class Token(msgspec.Struct, frozen=True):
    """Token of a text: a word, a sign or a literal; comments and blanks are not tokens."""

    kind: Kind
    """Kind of the token."""
    text: str
    """Characters of the token."""
    begin: int
    """Offset of its first character in the text."""
    end: int
    """Offset after its last character."""

    @property
    def word(self) -> str:
        """Text of a word in upper case; empty for other kinds of tokens."""
        return self.text.upper() if self.kind == "word" else ""


def tokens(text: str) -> list[Token]:
    """Return the tokens of a text; raises `PostgresError` for a string or a comment that does not end."""
    result: list[Token] = []
    at = 0
    while match := _TOKEN.match(text, at):
        kind, begin, at = str(match.lastgroup), at, match.end()
        if kind == "space":
            continue
        if kind == "comment":
            at = _end_of_comment(text, begin)
            continue
        if kind == "dollar":
            end = text.find(match[0], at)
            if end < 0:
                raise syntax_error(f"expected {match[0]} at the end of a string, was none", begin)
            kind, at = "string", end + len(match[0])
        elif (kind == "sign" and match[0] in "'\"") or (match[0] in ("e", "E") and text.startswith("'", at)):
            raise syntax_error(
                f"expected {text[at] if kind == 'word' else match[0]} at the end of a string, was none", begin
            )
        result.append(Token(kind, text[begin:at], begin, at))  # type: ignore[arg-type]  # the names of the groups
    return result


def unquoted(token: Token) -> str:
    """Return the name or the text that a token denotes; escapes of ``E'…'`` and ``U&…`` are left as they are."""
    text = token.text
    if token.kind == "word":
        return text.lower()
    if token.kind == "quoted":
        return text[text.index('"') + 1 : -1].replace('""', '"')
    if token.kind == "string" and text.startswith("$"):
        mark = text.index("$", 1) + 1
        return text[mark:-mark]
    if token.kind == "string":
        return text[text.index("'") + 1 : -1].replace("''", "'")
    return text


def _end_of_comment(text: str, begin: int) -> int:
    depth = 0
    for match in _COMMENT.finditer(text, begin):
        depth += 1 if match[0] == "/*" else -1
        if not depth:
            return match.end()
    raise syntax_error("expected */ at the end of a comment, was none", begin)


def syntax_error(message: str, begin: int) -> PostgresError:
    """Return a syntax error at an offset of the text."""
    return PostgresError("42601", message, position=begin + 1)
