"""The session and its phases: its beginning, auctions, halts, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from exchange_server.matching.crossing import CrossKind, say_imbalance, uncross
from exchange_server.matching.inputs import Phase, PhaseName
from exchange_server.matching.reasons import CancelReason

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["STATES", "begin", "change", "tick"]

STATES: Final[dict[PhaseName, str]] = {
    "continuous": "T",
    "auction-open": "Q",
    "auction-close": "Q",
    "auction-halt": "Q",
    "halted": "H",
    "paused": "P",
    "closed": "H",
}
"""The trading state that the feed says of a phase."""

_KINDS: Final[dict[str, CrossKind]] = {"auction-open": "O", "auction-close": "C", "auction-halt": "H"}


def begin(market: Market) -> None:
    """The session begins: what is traded, and how."""
    feed = market.feed
    market.has_begun = True
    feed.system("O")
    for book in market.books.values():
        feed.listed(book.locate)
    feed.system("S")
    for book in market.books.values():
        feed.trading(book.locate, STATES[book.phase], "")
    _say_hours(market)


def change(market: Market, item: Phase) -> None:
    """Bring a symbol, or all, into a phase; a symbol that is closed stays so."""
    if not item.symbol:
        books = list(market.books.values())
    elif item.symbol in market.books:
        books = [market.books[item.symbol]]
    else:
        return
    for book in books:
        if book.phase != "closed":
            _enter_phase(market, book, item.phase, item.reason)
    _say_hours(market)


def tick(market: Market) -> None:
    """Time passes: auctions say their imbalance."""
    for book in market.books.values():
        if book.phase in _KINDS and not book.is_followed:
            say_imbalance(book, _KINDS[book.phase])


def _enter_phase(market: Market, book: Book, phase: PhaseName, reason: str) -> None:
    if not book.is_followed:
        if book.phase in _KINDS and phase in {"continuous", "closed"}:
            uncross(market, book, _KINDS[book.phase])
        elif phase == "continuous" and book.bid_edge >= book.ask_edge:
            uncross(market, book, "H", is_auction=False)
    book.phase = phase
    book.is_special = book.is_followed or phase != "continuous"
    market.feed.trading(book.locate, STATES[phase], reason)
    if phase == "continuous":
        market.trigger(book)
    elif phase == "closed":
        market.mass_cancel(0, book.symbol, CancelReason.CLOSED)


def _say_hours(market: Market) -> None:
    """Market hours begin when no symbol waits for its opening any more, and end when all are closed."""
    phases = {book.phase for book in market.books.values()}
    if not market.has_opened and "auction-open" not in phases:
        market.has_opened = True
        market.feed.system("Q")
    if not market.has_ended and phases == {"closed"}:
        market.has_ended = True
        for code in "MEC":
            market.feed.system(code)
        for teller in market.tellers:
            teller.system("E")
