"""Fields of a line of text."""

from __future__ import annotations

from typing import Final

from deltabook.wire.errors import WireError

__all__ = ["SYMBOL_LIMIT", "int64", "is_symbol"]

_LARGEST: Final = str(2**63 - 1)
_SMALLEST: Final = str(2**63)
_SAFE_DIGITS: Final = len(_LARGEST)
SYMBOL_LIMIT: Final = 16
"""Characters of an instrument's name."""


def int64(text: str, name: str, line: bytes) -> int:
    """The decimal int64 in an ASCII field; raises `WireError`, which says which field of which line is none.

    Digits, with a minus before them or without: no blanks, no plus and no underscores.
    """
    if text.isdigit() and len(text) < _SAFE_DIGITS:
        return int(text)
    digits, limit = (text[1:], _SMALLEST) if text[:1] == "-" else (text, _LARGEST)
    if digits.isdigit() and (len(digits) < len(limit) or (len(digits) == len(limit) and digits <= limit)):
        return int(text)
    raise WireError(f"expected an int64 for {name}, was {text[:40]!r} in {line[:80]!r}")


def is_symbol(text: str) -> bool:
    """Return True if an ASCII field can be an instrument's name, or is empty."""
    return len(text) <= SYMBOL_LIMIT and (text.isalnum() or (text.isprintable() and " " not in text))
