"""What the books of a market share."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from exchange_server.matching.account import Account
from exchange_server.matching.inputs import Party
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import FeedEncoder, Now, Teller
from exchange_server.matching.silence import SilentTeller

if TYPE_CHECKING:
    from exchange_server.matching.book import Book

__all__ = ["INT64_MAX", "MOST_EXECUTIONS", "Execution", "Floor"]

INT64_MAX: Final = 2**63 - 1
MOST_EXECUTIONS: Final = 60_000
"""Executions of accounts' orders that are remembered, at most two for a match outside auctions."""

Execution = tuple[int, Order, int, int]
"""Number of the match, one order that took part, its executed lots, the price in ticks."""


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
        self.executions: deque[Execution] = deque(maxlen=MOST_EXECUTIONS)
        """The newest executions of accounts' orders: who is told if a trade is declared void."""
        self.collar_bps = 0
        self.next_due_ns = INT64_MAX
        """No live order expires before."""
        self.expiries: list[tuple[int, int, int]] = []
        """A heap of times, ids and locates; of orders that are gone too."""

        self.most_expiries = 64
        """With so many entries those of orders that are gone are thrown out."""

    def parties(self, match_id: int) -> tuple[Party, ...]:
        """Return the orders of accounts that took part in a match; none if it is not remembered any more."""
        return tuple(
            Party(order.account, order.ref, order.order_id, order.locate, volume, price, order.echo)
            for number, order, volume, price in self.executions
            if number == match_id
        )

    @property
    def live_orders(self) -> int:
        """Orders that rest or wait."""
        return sum(len(book.orders) for book in self.book_at if book is not None)

    @property
    def trades(self) -> int:
        """Executions, crosses and printed trades so far."""
        return self.next_match_id - 1
