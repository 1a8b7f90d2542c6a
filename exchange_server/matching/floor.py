"""What the books of a market share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from exchange_server.matching.account import Account
from exchange_server.matching.outputs import FeedEncoder, Now, Teller
from exchange_server.matching.silence import SilentTeller

if TYPE_CHECKING:
    from exchange_server.matching.book import Book

__all__ = ["INT64_MAX", "Floor"]

INT64_MAX: Final = 2**63 - 1


class Floor:
    """Numbers, accounts and the feed: one for all books of a market, or a book's own."""

    def __init__(self, feed: FeedEncoder, now: Now | None = None) -> None:
        self.feed = feed
        self.now = Now() if now is None else now
        nobody = Account(0, "", "", 0)
        self.accounts: list[Account] = [nobody]
        """By index; 0 is nobody: of agents and recordings."""
        self.tellers: list[Teller] = [SilentTeller(nobody)]
        """By index of the account."""
        self.book_at: list[Book | None] = [None]
        """By locate."""
        self.next_order_id = 1
        self.other_ids = 0
        """Ids that were given to something else than an order that was taken: parts of icebergs; a recording's own
        orders, which have ids of their own, count as less than nothing."""
        self.next_match_id = 1
        self.collar_bps = 0
        self.next_due_ns = INT64_MAX
        """No live order expires before."""
        self.expiries: list[tuple[int, int, int]] = []
        """A heap of times, ids and locates; of orders that are gone too."""

        self.most_expiries = 64
        """With so many entries those of orders that are gone are thrown out."""

    @property
    def live_orders(self) -> int:
        """Orders that rest or wait."""
        return sum(len(book.orders) for book in self.book_at if book is not None)

    @property
    def trades(self) -> int:
        """Executions, crosses and printed trades so far."""
        return self.next_match_id - 1
