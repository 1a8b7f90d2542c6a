"""Advice in error messages: the name that was probably meant, and the command that repairs this installation."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal, TypeAlias

__all__ = ["IS_CHECKOUT", "did_you_mean", "install_command"]

Extra: TypeAlias = Literal["spark", "java"]

_ROOT: Final = Path(__file__).resolve().parents[2]
IS_CHECKOUT: Final = (_ROOT / "Makefile").is_file() and (_ROOT / "scripts" / "setup.sh").is_file()
"""True if the packages are imported from a checkout, where `make` works."""


def install_command(*extras: Extra, is_checkout: bool = IS_CHECKOUT) -> str:
    """Return the command that installs optional parts of Deltabook, or all of it if none is named.

    >>> install_command("spark", "java", is_checkout=False)
    "pip install 'deltabook[spark,java]'"
    >>> install_command("java", is_checkout=True)
    'make setup'
    """
    if is_checkout:
        return "make setup"
    return f"pip install 'deltabook[{','.join(extras)}]'" if extras else "pip install --force-reinstall deltabook"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of an error message that names the closest known name; empty if none is close.

    >>> did_you_mean("market_marker", ["market_maker", "sobi"])
    "; did you mean 'market_maker'?"
    >>> did_you_mean("xyz", ["market_maker", "sobi"])
    ''
    """
    close = get_close_matches(word[:100], list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
