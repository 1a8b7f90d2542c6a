"""Frames for a page that follows one symbol, each sent when the page asks for it.

A part of the admin port (`deltabook.wire.admin`). Prices and quantities are decimal strings, exact and with all the
decimals of tick and lot: what shows them has nothing to calculate. Times of day fit into a float exactly.
"""

from __future__ import annotations

from typing import Final

import msgspec

from deltabook.wire.admin import PhaseName, Replay

__all__ = ["LIVE_DEPTH", "LIVE_PATH", "MOST_TRADES", "Live", "LiveFigures", "LiveLevel", "LiveTrade"]

LIVE_PATH: Final = "/v1/live/"
"""And the symbol; ``?after=N`` leaves out the trades of the feed's messages up to N."""
LIVE_DEPTH: Final = 10
"""Levels of a side."""
MOST_TRADES: Final = 50
"""Trades in one frame, the newest."""


class LiveLevel(msgspec.Struct, frozen=True, array_like=True):
    """What is displayed at one price."""

    price: str
    quantity: str
    orders: int


class LiveTrade(msgspec.Struct, frozen=True, array_like=True):
    """One execution that the feed has told of."""

    number: int
    """Number of the feed's message."""
    day_ns: int
    """Market time since midnight UTC."""
    price: str | None
    """None if the message does not say it, and the order that does lies too far back (ITCH)."""
    quantity: str


class LiveFigures(msgspec.Struct, frozen=True):
    """Figures of the session, or of the moment."""

    inputs: int
    """Requests in the journal."""
    messages: int
    """Messages of the feed."""
    orders: int
    """Orders that were taken."""
    trades: int
    live_orders: int
    """Orders in the books, or waiting."""
    sessions: int
    """Connections."""
    listeners: int
    """Those of them that are sent a stream."""
    refused: int
    """Requests that were refused since the process began."""


class Live(msgspec.Struct, frozen=True):
    """One symbol and the exchange around it at one moment."""

    session: str
    """Name of the session; another one has other messages."""
    up_s: float
    """Seconds since the process began; rates are differences by it."""
    day_ns: int
    """Market time since midnight UTC."""
    symbol: str
    phase: PhaseName
    last: str | None
    """Price of the last trade."""
    spread: str | None
    """Best ask less best bid, if there are both."""
    bids: tuple[LiveLevel, ...]
    """Best first, as `asks`."""
    asks: tuple[LiveLevel, ...]
    trades: tuple[LiveTrade, ...]
    """Oldest first, as far as they are among the feed's newest messages."""
    next_after: int
    """What to ask the next frame with."""
    figures: LiveFigures
    replay: Replay | None
    """None if no recorded file is played."""
