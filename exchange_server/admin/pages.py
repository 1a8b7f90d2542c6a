"""The files of the live page, and what a browser is told of them."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

import msgspec

__all__ = ["PAGE_HEADERS", "PageFile", "page_files"]

_FILES: Final = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
"""Path → file in the folder ``page`` and its type."""

PAGE_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Nothing but these files runs in the page, it asks nobody but this port, and no other page shows it in a frame."""


class PageFile(msgspec.Struct, frozen=True):
    """One of them."""

    body: bytes
    content_type: str


def page_files() -> dict[str, PageFile]:
    """Path → file."""
    folder = files("exchange_server.admin") / "page"
    return {path: PageFile((folder / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()}
