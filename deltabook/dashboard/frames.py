"""Frames of pages: made of sections that are encoded once, whoever they are for, and left out where nothing changed.

A section belongs to a *scope*: everybody's, or that of a symbol, of a view or of a strategy. It remembers the number of
the frame with which it last changed, so that a page that says what it has is sent what it has not, and pages in step
share the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from deltabook.dashboard.history import History

__all__ = ["Ask", "Frames", "Scope"]

_LONGEST_NAME: Final = 200
_Name = Annotated[str, msgspec.Meta(max_length=_LONGEST_NAME)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

Scope = tuple[str, str]
"""("all", ""), ("symbol", NAME), ("view", NAME) or ("strategy", NAME)."""
_ALL: Final[Scope] = ("all", "")


class Ask(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a page says when it has drawn a frame: it is sent the next one. The first also says who asks."""

    have: _Number = 0
    """Number of the newest frame that it has; 0: none."""
    symbol: _Name = ""
    """That it shows; empty: none yet."""
    symbol_have: _Number = 0
    """Number of its newest frame of this symbol."""
    view: _Name = ""
    """That is open; empty: none."""
    view_have: _Number = 0
    """Number of its newest frame of this view."""
    strategy: _Name = ""
    """That is open; empty: none."""
    strategy_have: _Number = 0
    """Number of its newest frame of this strategy."""
    token: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    """Of a dashboard that asks for one; in the first message."""


class _Section(msgspec.Struct):
    data: bytes
    """``"name":value``."""
    changed: int
    """Number of the frame that is the first to carry it."""


class Frames:
    """All sections at this moment; on the reactor's thread."""

    def __init__(self, history: History) -> None:
        self.number = 1
        """Of the frame that is being made."""
        self.encoded = 0
        """Frames that were put together; fewer than are sent, as pages share them."""
        self._history = history
        self._encoder = msgspec.json.Encoder()
        self._scopes: dict[Scope, dict[str, _Section]] = {_ALL: {}}
        self._made: dict[Ask, bytes] = {}
        self._now_ms = 0

    def begin(self, now_ms: int) -> None:
        """Make the next frame: sections that are put from now on are part of it."""
        self.number += 1
        self._now_ms = now_ms
        self._made.clear()

    def put(self, scope: Scope, name: str, value: Any) -> None:
        """Say what a section is now; nothing happens if it was the same before."""
        data = b'"%b":%b' % (name.encode("ascii"), self._encoder.encode(value))
        sections = self._scopes.setdefault(scope, {})
        old = sections.get(name)
        if old is None:
            sections[name] = _Section(data, self.number)
        elif old.data != data:
            old.data, old.changed = data, self.number

    def keep(self, scopes: Iterable[Scope]) -> None:
        """Forget the sections of all scopes but these, and but everybody's."""
        kept = {_ALL, *scopes}
        for scope in [scope for scope in self._scopes if scope not in kept]:
            del self._scopes[scope]

    def frame(self, ask: Ask) -> bytes:
        """What a page is sent, as JSON."""
        made = self._made.get(ask)
        if made is not None:
            return made
        have, symbol_have = self._known(ask.have), self._known(ask.symbol_have)
        parts = [b'"number":%d,"now_ms":%d' % (self.number, self._now_ms), *self._news(_ALL, have)]
        if ask.symbol:
            after = symbol_have if symbol_have >= self._history.begun else 0
            history = (b'"after":%d' % after, *self._history.after(ask.symbol, after))
            parts.append(self._part("symbol", ask.symbol, symbol_have, history))
        if ask.view:
            parts.append(self._part("view", ask.view, self._known(ask.view_have)))
        if ask.strategy:
            parts.append(self._part("strategy", ask.strategy, self._known(ask.strategy_have)))
        self._made[ask] = made = b"{%b}" % b",".join(parts)
        self.encoded += 1
        return made

    def _part(self, kind: str, name: str, have: int, more: Iterable[bytes] = ()) -> bytes:
        """The news of a scope under its name."""
        inside = [b'"name":' + self._encoder.encode(name), *more, *self._news((kind, name), have)]
        return b'"%b":{%b}' % (kind.encode("ascii"), b",".join(inside))

    def _known(self, have: int) -> int:
        """A page that has frames which there never were belongs to an earlier process: it is told everything."""
        return have if have <= self.number else 0

    def _news(self, scope: Scope, have: int) -> list[bytes]:
        sections = self._scopes.get(scope, {})
        return [section.data for section in sections.values() if section.changed > have]
