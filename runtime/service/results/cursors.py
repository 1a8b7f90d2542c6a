"""Cursors, by which clients read the result of a view at one version page by page.

Cursors at the same version share one result. Cursors are bounded in number, bytes and age; a client that uses an
expired or evicted cursor gets an error with the reason.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import msgspec

from deltabook.wire.service import CursorFigures
from runtime.service.errors import ServiceError
from runtime.service.results.materialised import FullRows

__all__ = [
    "ClosedCursorError",
    "CursorLimits",
    "Cursors",
    "Kept",
    "OpenCursor",
    "TooManyCursorsError",
    "UnknownCursorError",
]

_MOST_REASONS: Final = 1_000
"""Greatest number of closed cursors whose reason is remembered."""
_MARK_BYTES: Final = 12
"""Size in bytes of the mark that authenticates the name of a cursor."""


class ClosedCursorError(ServiceError):
    """The cursor has been closed; the message has the reason."""


class UnknownCursorError(ServiceError, LookupError):
    """The service has not opened such a cursor since it started."""


class TooManyCursorsError(ServiceError):
    """There is no room for another cursor."""


class CursorLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of cursors and their results."""

    cursors: int = 200
    """Greatest number of open cursors."""
    held_bytes: int = 1024 * 1024 * 1024
    """Greatest total size of all results in bytes, each result counted once."""
    unused_s: float = 60.0
    """Time in seconds without use after which a cursor is closed."""
    longest_s: float = 3_600.0
    """Age in seconds at which a cursor is closed even if it is used."""
    settled_s: float = 5.0
    """Time in seconds without use after which a cursor may be evicted to make room for another."""


class Kept(msgspec.Struct, frozen=True, eq=False):
    """Result of a view at a version, kept for cursors."""

    view: str
    """Name of the view."""
    epoch: int
    """Epoch of the version."""
    step: int
    """Step of the version."""
    rows: FullRows
    """All rows."""
    is_sorted: bool
    """True if the rows are sorted."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Key that cursors of the same result share."""
        return self.view, self.epoch, self.step, self.is_sorted


class OpenCursor(msgspec.Struct, eq=False):
    """Open cursor, which is a position in a result."""

    id: str
    """Name of the cursor for clients."""
    kept: Kept
    """Result that is read."""
    page_rows: int
    """Number of rows of a page."""
    opened_s: float
    """Time at which the cursor was opened, in seconds of the clock of `Cursors`."""
    used_s: float
    """Time at which the cursor was last used, on the same clock."""
    next_page: int = 0
    """Number of the page that a request for the next page gets."""

    @property
    def pages(self) -> int:
        """Number of pages, at least 1: an empty result has one empty page."""
        return max(1, -(-len(self.kept.rows) // self.page_rows))


class Cursors:
    """All cursors of a service. Not thread-safe."""

    def __init__(self, limits: CursorLimits, now_s: Callable[[], float], secret: bytes | None = None) -> None:
        """Create an empty set of cursors; ``secret`` is the key of the marks in the names of cursors, None for a random
        key."""
        self.limits = limits
        self._now_s = now_s
        self._secret = secret or secrets.token_bytes(32)
        self._open: OrderedDict[str, OpenCursor] = OrderedDict()  # least recently used first
        self._kept: dict[tuple[Any, ...], tuple[Kept, int]] = {}  # key → result, number of cursors
        self._reasons: OrderedDict[str, str] = OrderedDict()
        self._held_bytes = 0
        self._opened = self._expired = self._evicted = 0

    def figures(self) -> CursorFigures:
        """Return the current figures."""
        return CursorFigures(len(self._open), self._held_bytes, self._opened, self._expired, self._evicted)

    def kept(self, view: str, epoch: int, step: int, *, is_sorted: bool) -> Kept | None:
        """Return the kept result of this version; None if there is none."""
        entry = self._kept.get((view, epoch, step, is_sorted))
        return entry[0] if entry else None

    def open(self, kept: Kept, page_rows: int) -> OpenCursor:
        """Open a cursor at the beginning of a result; raises `TooManyCursorsError` if no room can be made for it."""
        self.expire()
        own_bytes = kept.rows.nbytes
        if own_bytes > self.limits.held_bytes:
            raise TooManyCursorsError(
                f"expected a result of at most {self.limits.held_bytes} bytes for a cursor, was one of {own_bytes}"
            )
        self._make_room(kept)
        kept, users = self._kept.get(kept.key, (kept, 0))
        if not users:
            self._held_bytes += own_bytes
        self._kept[kept.key] = kept, users + 1
        now_s = self._now_s()
        self._opened += 1
        cursor = OpenCursor(self._named(self._opened), kept, page_rows, now_s, now_s)
        self._open[cursor.id] = cursor
        return cursor

    def used(self, name: str) -> OpenCursor:
        """Return the cursor of this name and record its use.

        Raises `ClosedCursorError` for a cursor that has been closed, and `UnknownCursorError` for a name that no cursor
        had.
        """
        self.expire()
        cursor = self._open.get(name)
        if cursor is None:
            if not self._is_given(name):
                raise UnknownCursorError(f"expected a cursor of this runtime since it began, was {name[:80]!r}")
            reason = self._reasons.get(name, "it is closed")
            raise ClosedCursorError(f"expected an open cursor, was {name}: {reason}")
        cursor.used_s = self._now_s()
        self._open.move_to_end(name)
        return cursor

    def close(self, name: str) -> None:
        """Close a cursor; raises the errors of `used`."""
        self._forget(self.used(name), "it was closed by a request")

    def expire(self) -> None:
        """Close all cursors that are unused for too long or too old."""
        now_s, limits = self._now_s(), self.limits
        for cursor in list(self._open.values()):
            if now_s - cursor.used_s >= limits.unused_s:
                self._forget(cursor, f"it was not used for {limits.unused_s:g} s")
                self._expired += 1
            elif now_s - cursor.opened_s >= limits.longest_s:
                self._forget(cursor, f"it was open for {limits.longest_s:g} s")
                self._expired += 1

    def _make_room(self, kept: Kept) -> None:
        """Evict least recently used cursors until a cursor of this result fits.

        Raises `TooManyCursorsError` if the next cursor to evict was used too recently.
        """
        limits, now_s = self.limits, self._now_s()
        while True:
            own_bytes = 0 if kept.key in self._kept else kept.rows.nbytes
            if len(self._open) < limits.cursors and self._held_bytes + own_bytes <= limits.held_bytes:
                return
            oldest = next(iter(self._open.values()))
            if now_s - oldest.used_s < limits.settled_s:
                raise TooManyCursorsError(
                    f"expected at most {limits.cursors} cursors that hold {limits.held_bytes} bytes, was one more: "
                    "close one, or try later"
                )
            self._forget(oldest, "it made room for others")
            self._evicted += 1

    def _forget(self, cursor: OpenCursor, reason: str) -> None:
        del self._open[cursor.id]
        kept, users = self._kept.pop(cursor.kept.key)
        if users > 1:
            self._kept[kept.key] = kept, users - 1
        else:
            self._held_bytes -= kept.rows.nbytes
        self._reasons[cursor.id] = reason
        if len(self._reasons) > _MOST_REASONS:
            self._reasons.popitem(last=False)

    def _named(self, number: int) -> str:
        mark = hmac.new(self._secret, str(number).encode(), hashlib.sha256).hexdigest()
        return f"{number}-{mark[: 2 * _MARK_BYTES]}"

    def _is_given(self, name: str) -> bool:
        """Return True if a cursor of this name was ever opened: the mark, which cannot be guessed, fits the number."""
        number = name.partition("-")[0]
        if not (number.isascii() and number.isdigit() and len(number) < 20):
            return False
        return hmac.compare_digest(self._named(int(number)).encode(), name.encode("utf-8", "surrogateescape"))
