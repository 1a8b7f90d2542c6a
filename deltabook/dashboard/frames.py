"""Frames of pages: made of sections that are encoded once for all pages, and omitted if nothing changed.

A section belongs to a *scope*: it is common to all pages, or belongs to a symbol, a view or a strategy. A section is of
one of three kinds: a value, which is sent as a whole; rows, of which the changed rows are sent with their places; or a
`Series`, of which the new rows are sent. Each section has the numbers of the frames in which it changed. A page is sent
only the changes after its own newest frame, and pages with the same newest frame are sent the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from deltabook.dashboard.history import Series

__all__ = ["Ask", "Frames", "Scope"]

_LONGEST_NAME: Final = 200
"""Longest name of a symbol, a view or a strategy, in characters."""
_Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

Scope = tuple[str, str]
"""Scope of a section: ("all", ""), ("symbol", NAME), ("view", NAME) or ("strategy", NAME)."""
_ALL: Final[Scope] = ("all", "")


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page's request for the next frame, sent when it has drawn one. The first request also has the token."""

    have: _Number = 0
    """Number of the page's newest frame; 0: none."""
    symbol: _Name = ""
    """Symbol that the page shows; empty: none yet."""
    symbol_have: _Number = 0
    """Number of the page's newest frame of this symbol."""
    view: _Name = ""
    """Open view; empty: none."""
    view_have: _Number = 0
    """Number of the page's newest frame of this view."""
    strategy: _Name = ""
    """Open strategy; empty: none."""
    strategy_have: _Number = 0
    """Number of the page's newest frame of this strategy."""
    token: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    """Token, in the first message to a dashboard that requires one."""


class _Value(msgspec.Struct):
    """A section that is sent as a whole."""

    data: bytes
    """Value as JSON."""
    changed: int
    """Number of the first frame that has the value."""

    def changes_after(self, have: int) -> bytes | None:
        """Return the value if a page with frame number ``have`` does not have it, else None."""
        return self.data if self.changed > have else None


class _Rows(msgspec.Struct):
    """A section whose rows are sent singly, each with its place."""

    rows: list[_Value] = []
    """Rows by place."""
    changed: int = 0
    """Number of the first frame that has the rows as they are; 0 before the first."""

    def put(self, number: int, data: Sequence[bytes]) -> None:
        if len(data) != len(self.rows) or not self.changed:
            self.changed = number
        del self.rows[len(data) :]
        for place, each in enumerate(data):
            if place == len(self.rows):
                self.rows.append(_Value(each, number))
            elif self.rows[place].data != each:
                self.rows[place] = _Value(each, number)
            else:
                continue
            self.changed = number

    def changes_after(self, have: int) -> bytes | None:
        """Return the number of rows, and the rows that a page with frame number ``have`` does not have; None if nothing
        changed.
        """
        if self.changed <= have:
            return None
        rows = (b"[%d,%b]" % (place, row.data) for place, row in enumerate(self.rows) if row.changed > have)
        return b'{"count":%d,"rows":[%b]}' % (len(self.rows), b",".join(rows))


class Frames:
    """The present state of all sections; used on the reactor's thread only."""

    def __init__(self) -> None:
        self.number = 1
        """Number of the frame that is being made."""
        self.encoded = 0
        """Number of frames that were encoded; pages share frames, so it is at most the number of frames sent."""
        self._encoder = msgspec.json.Encoder()
        self._scopes: dict[Scope, dict[str, _Value | _Rows | Series]] = {_ALL: {}}
        self._made: dict[Ask, bytes] = {}
        self._market_ms = 0

    def begin(self, market_ms: int) -> None:
        """Begin the next frame, of this market time: sections that are set from now on are part of the frame."""
        self.number += 1
        self._market_ms = market_ms
        self._made.clear()

    def put(self, scope: Scope, name: str, value: Any) -> None:
        """Set the value of a section; an unchanged value has no effect."""
        data = self._encoder.encode(value)
        sections = self._scopes.setdefault(scope, {})
        old = sections.get(name)
        if not isinstance(old, _Value):
            sections[name] = _Value(data, self.number)
        elif old.data != data:
            old.data, old.changed = data, self.number

    def put_rows(self, scope: Scope, name: str, rows: Iterable[Any]) -> None:
        """Set the rows of a section; rows that are unchanged in their place are not sent again."""
        sections = self._scopes.setdefault(scope, {})
        old = sections.get(name)
        if not isinstance(old, _Rows):
            old = sections[name] = _Rows()
        old.put(self.number, [self._encoder.encode(row) for row in rows])

    def put_series(self, scope: Scope, series: Mapping[str, Series]) -> None:
        """Make histories sections of a scope, each under its name."""
        self._scopes.setdefault(scope, {}).update(series)

    def keep(self, scopes: Iterable[Scope]) -> None:
        """Remove the sections of all scopes except the given ones and the common one."""
        kept = {_ALL, *scopes}
        for scope in [scope for scope in self._scopes if scope not in kept]:
            del self._scopes[scope]

    def frame(self, ask: Ask) -> bytes:
        """Return a page's next frame as JSON."""
        made = self._made.get(ask)
        if made is not None:
            return made
        parts = [b'"number":%d,"market_ms":%d' % (self.number, self._market_ms)]
        parts += self._changes_after(_ALL, self._known(ask.have))
        if ask.symbol:
            parts.append(self._part("symbol", ask.symbol, self._known(ask.symbol_have)))
        if ask.view:
            parts.append(self._part("view", ask.view, self._known(ask.view_have)))
        if ask.strategy:
            parts.append(self._part("strategy", ask.strategy, self._known(ask.strategy_have)))
        self._made[ask] = made = b"{%b}" % b",".join(parts)
        self.encoded += 1
        return made

    def _part(self, kind: str, name: str, have: int) -> bytes:
        """Return the changes of a scope under its name."""
        inside = [b'"name":' + self._encoder.encode(name), *self._changes_after((kind, name), have)]
        return b'"%b":{%b}' % (kind.encode("ascii"), b",".join(inside))

    def _known(self, have: int) -> int:
        """Return the number of a page's frame; 0 if it is from an earlier process, so that the page is sent
        everything.
        """
        return have if have <= self.number else 0

    def _changes_after(self, scope: Scope, have: int) -> list[bytes]:
        changes = ((name, section.changes_after(have)) for name, section in self._scopes.get(scope, {}).items())
        return [b'"%b":%b' % (name.encode("ascii"), data) for name, data in changes if data is not None]
