"""The files of a page that a part serves of itself, and what a browser is told of them."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

import msgspec

__all__ = ["PAGE_HEADERS", "PageFile", "page_files", "read_file"]

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
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


def page_files(package: str) -> dict[str, PageFile]:
    """Path → file: what lies in a package's folder ``page``; ``page.html`` is ``/``."""
    folder = files(package) / "page"
    by_path = {f"/{file.name}": read_file(file) for file in folder.iterdir() if file.name.partition(".")[2] in _TYPES}
    by_path["/"] = by_path.pop("/page.html")
    return by_path


def read_file(file: Traversable) -> PageFile:
    """A file with the type that its name says."""
    return PageFile(file.read_bytes(), _TYPES[file.name.rpartition(".")[2]])
