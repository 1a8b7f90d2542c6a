"""What the books of a market share."""

from __future__ import annotations

from typing import Final

from exchange_server.matching.account import Account
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import FeedEncoder, Now, Teller
from exchange_server.matching.silence import SilentTeller

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
        self.live: dict[int, Order] = {}
        """By id: all orders that rest or wait."""
        self.next_order_id = 1
        self.next_match_id = 1
        self.collar_bps = 0
        self.next_due_ns = INT64_MAX
        """No live order expires before."""
        self.expiries: list[tuple[int, int]] = []
        """A heap of times and ids; of orders that are gone too."""

    @property
    def live_orders(self) -> int:
        """Orders that rest or wait."""
        return len(self.live)

    @property
    def trades(self) -> int:
        """Executions, crosses and printed trades so far."""
        return self.next_match_id - 1
