"""Tokens of a script with their positions: just enough to find statements and read declarations."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass
from typing import Literal

from runtime.compiler.errors import SqlError

__all__ = ["Text", "Token", "tokenise"]

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
