"""HOST:PORT as options take it."""

from __future__ import annotations

from deltabook.cli._errors import OptionError
from deltabook.wire.http.peer import split_address

__all__ = ["address"]


def address(text: str, option: str) -> tuple[str, int]:
    """Host and port; raises `OptionError` with the option's name for anything else, a URL say."""
    try:
        return text.rpartition(":")[0], split_address(text)[1]
    except ValueError:
        raise OptionError(f"expected HOST:PORT for {option}, was {text!r}") from None
