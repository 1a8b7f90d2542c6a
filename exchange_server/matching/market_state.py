"""The state of a market apart from its books: identifiers, accounts and counters, which all books share.

The state consists of plain values. The books, the rules of matching and the market use this module, and it imports none
of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from exchange_server.matching.inputs import MarketRules, Party
from exchange_server.matching.order import Account, Order, RefuseReason
from exchange_server.matching.outputs import FeedEncoder, Now, SilentTeller, Teller
from exchange_server.matching.triggers import Expiries

__all__ = ["INT64_MAX", "MOST_EXECUTIONS", "Execution", "MarketState"]

INT64_MAX: Final = 2**63 - 1
MOST_EXECUTIONS: Final = 60_000
"""Largest number of executions of accounts' orders that are remembered; a match outside auctions has at most two."""
Execution = tuple[int, Order, int, int]
"""Number of the match, one of its orders, that order's executed lots, and the price in ticks."""
_NO_RULES: Final = MarketRules(instruments=())


class MarketState:
    """Identifiers, accounts, the feed and counters: shared by all books of a market, or belonging to a single book."""

    __slots__ = (
        "accounts",
        "collar_bps",
        "executions",
        "expiries",
        "feed",
        "full_at",
        "has_begun",
        "has_ended",
        "has_opened",
        "inputs",
        "is_plain",
        "named",
        "next_match_id",
        "next_order_id",
        "now",
        "orders_at",
        "other_ids",
        "recorded_ids",
        "refused",
        "replay_counts",
        "replay_position",
        "rules",
        "tellers",
    )

    def __init__(self, feed: FeedEncoder, rules: MarketRules = _NO_RULES, now: Now | None = None) -> None:
        self.feed = feed
        self.rules = rules
        self.now = Now() if now is None else now
        nobody = Account(0, "", "", 0)
        self.accounts: list[Account] = [nobody]
        """Accounts by index; 0 is the account of agents and recordings, which are not notified."""
        self.tellers: list[Teller] = [SilentTeller(nobody)]
        """Tellers by index of the account."""
        self.is_plain: list[bool] = [True]
        """For each account, by index: True if it has no limits, is not killed and may trade with itself."""
        self.named: dict[str, Account] = {}
        """Accounts by name."""
        self.orders_at: list[Mapping[int, Order]] = [{}]
        """Live orders of each book, by locate and then by id."""
        self.expiries = Expiries(self.orders_at)
        self.collar_bps = rules.collar_bps
        self.next_order_id = rules.first_order_id
        self.other_ids = 0
        """Number of ids that were not given to an accepted order (but, for example, to a displayed part of an iceberg),
        minus the number of accepted orders whose id comes from a recording.
        """
        self.next_match_id = 1
        self.executions: deque[Execution] = deque(maxlen=MOST_EXECUTIONS)
        """Latest executions of accounts' orders, whose owners are notified if a trade is declared void."""
        self.full_at = self.next_order_id + rules.max_live_orders
        """Order id from which on `has_room` counts the live orders before another order is accepted."""
        self.inputs = 0
        """Number of inputs applied so far."""
        self.has_begun = False
        """True once the feed has announced the session, which it does before the first input is applied."""
        self.has_opened = False
        """True once the feed has announced market hours."""
        self.has_ended = False
        """True once every symbol is closed."""
        self.refused: dict[RefuseReason, int] = {}
        """Number of requests refused since this object was made, by reason; for operators, and no part of snapshots."""
        self.replay_position = 0
        """Position of the last applied record of a file."""
        self.replay_counts: dict[str, int] = {}
        """Number of records that had no effect or a different effect than recorded, by kind."""
        self.recorded_ids: dict[int, tuple[int, int]] = {}
        """For a file replayed as orders: id in the file → id in the market, and the volume that remains according to
        the file.
        """

    def parties(self, match_id: int) -> tuple[Party, ...]:
        """Return the orders of accounts that took part in a match; none if the match is no longer remembered."""
        return tuple(
            Party(order.account, order.ref, order.order_id, order.locate, volume, price, order.echo)
            for number, order, volume, price in self.executions
            if number == match_id
        )

    @property
    def live_orders(self) -> int:
        """Number of orders that rest or wait."""
        return sum(map(len, self.orders_at))

    @property
    def orders(self) -> int:
        """Number of orders accepted so far."""
        return self.next_order_id - self.rules.first_order_id - self.other_ids

    @property
    def trades(self) -> int:
        """Number of executions, crosses and printed trades so far."""
        return self.next_match_id - 1

    def register_orders(self, locate: int, orders: Mapping[int, Order]) -> None:
        """Register the live orders of the book at a locate."""
        self.orders_at.extend({} for _ in range(len(self.orders_at), locate + 1))
        self.orders_at[locate] = orders

    def add_account(self, account: Account, teller: Teller) -> None:
        """Add the account with the next index, and the teller that notifies it."""
        self.accounts.append(account)
        self.tellers.append(teller)
        self.named[account.name] = account
        self.is_plain.append(True)
        self.note_settings(account)

    def note_settings(self, account: Account) -> None:
        """Set `is_plain` of an account after its settings have changed."""
        limits = account.limits
        is_limited = limits.requests_per_s or limits.open_orders or limits.order_notional or limits.open_notional
        self.is_plain[account.index] = not (is_limited or account.killed or account.self_trade != "allow")

    def is_new(self, index: int, ref: int | bytes) -> bool:
        """Return True if an account has not used a reference before, and mark a number as used."""
        account = self.accounts[index]
        if not isinstance(ref, int):
            return ref not in account.orders
        if ref <= account.last_ref:
            return False
        account.last_ref = ref
        return True

    def number(self, order: Order) -> None:
        """Assign an order its ids."""
        order.order_id = order.feed_id = self.next_order_id
        self.next_order_id += 1

    def has_room(self) -> bool:
        """Return True if another order may be live.

        The live orders are counted again only after the room found by the last count has been used up.
        """
        if self.next_order_id >= self.full_at:
            self.full_at = self.next_order_id + max(0, self.rules.max_live_orders - self.live_orders)
        return self.next_order_id < self.full_at

    def turn_down(self, account: int, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None:
        """Notify an account that its request has no effect, and count the refusal."""
        self.refused[reason] = self.refused.get(reason, 0) + 1
        self.tellers[account].refused(ref, reason, detail, item)

    def refuse(self, order: Order, reason: RefuseReason, detail: str, item: object = None) -> None:
        """Notify an order's owner that the order is refused; `item` is the request if it contains more."""
        self.turn_down(order.account, order.ref, reason, detail, order if item is None else item)
