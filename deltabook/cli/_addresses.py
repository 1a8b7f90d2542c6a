"""HOST:PORT as options take it."""

from __future__ import annotations

from deltabook.cli._errors import OptionError

__all__ = ["address"]


def address(text: str, option: str) -> tuple[str, int]:
    """Host and port; raises `OptionError` with the option's name for anything else, a URL say."""
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        raise OptionError(f"expected HOST:PORT for {option}, was {text!r}")
    return host, int(port)
