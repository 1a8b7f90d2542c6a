"""Commands that mend this installation: `make` in a checkout, pip for a wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypeAlias

__all__ = ["IS_CHECKOUT", "install_command"]

Extra: TypeAlias = Literal["spark", "java"]

_ROOT: Final = Path(__file__).resolve().parents[2]
IS_CHECKOUT: Final = (_ROOT / "Makefile").is_file() and (_ROOT / "scripts" / "setup.sh").is_file()
"""True if the packages are imported from a checkout, where `make` works."""


def install_command(*extras: Extra, is_checkout: bool = IS_CHECKOUT) -> str:
    """Return the command that installs optional parts of Deltabook, or all of it where none is named.

    >>> install_command("spark", "java", is_checkout=False)
    "pip install 'deltabook[spark,java]'"
    >>> install_command("java", is_checkout=True)
    'make setup'
    """
    if is_checkout:
        return "make setup"
    return f"pip install 'deltabook[{','.join(extras)}]'" if extras else "pip install --force-reinstall deltabook"
