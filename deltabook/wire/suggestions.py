"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that names the closest known name; empty if none is close.

    >>> did_you_mean("market_marker", ["market_maker", "sobi"])
    "; did you mean 'market_maker'?"
    >>> did_you_mean("xyz", ["market_maker", "sobi"])
    ''
    """
    close = get_close_matches(word[:100], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
