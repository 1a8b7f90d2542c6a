"""What is said where nobody listens."""

from __future__ import annotations

from exchange_server.matching.account import Account
from exchange_server.matching.inputs import Party
from exchange_server.matching.order import Order
from exchange_server.matching.outputs import FeedEncoder, Imbalance, Teller
from exchange_server.matching.reasons import CancelReason, RefuseReason

__all__ = ["Silence", "SilentTeller"]


class Silence(FeedEncoder):
    """A feed without listeners: for a book by itself, and for backtests that look at the books."""

    __slots__ = ()

    def system(self, code: str) -> None: ...

    def listed(self, locate: int) -> None: ...

    def trading(self, locate: int, state: str, reason: str) -> None: ...

    def added(self, order: Order) -> None: ...

    def executed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def crossed(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def cross(self, locate: int, volume: int, price_ticks: int, match_id: int, kind: str) -> None: ...

    def traded(self, order: Order, volume: int, price_ticks: int, match_id: int) -> None: ...

    def reduced(self, order: Order, volume: int) -> None: ...

    def deleted(self, order: Order, volume: int) -> None: ...

    def replaced(self, old: Order, order: Order) -> None: ...

    def printed(self, locate: int, broker_id: int, volume: int, price_ticks: int, match_id: int) -> None: ...

    def imbalance(self, found: Imbalance) -> None: ...

    def busted(self, locate: int, match_id: int) -> None: ...

    def take(self) -> tuple[bytes, int]:
        return b"", 0

    def state(self) -> object:
        return None

    def restore(self, state: object) -> None: ...


class SilentTeller(Teller):
    """Of accounts whose protocol nobody speaks here, and (number 0) of agents and recordings."""

    __slots__ = ("account",)

    def __init__(self, account: Account) -> None:
        self.account = account

    def accepted(self, order: Order) -> None: ...

    def refused(self, ref: int | bytes, reason: RefuseReason, detail: str, item: object) -> None: ...

    def executed(self, order: Order, volume: int, price_ticks: int, liquidity: str, match_id: int) -> None: ...

    def busted(self, party: Party, match_id: int) -> None: ...

    def canceled(self, order: Order, volume: int, reason: CancelReason, ref: int | bytes) -> None: ...

    def prevented(self, order: Order, volume: int, prevented: int, price_ticks: int) -> None: ...

    def replaced(self, old: Order, order: Order) -> None: ...

    def modified(self, order: Order) -> None: ...

    def refreshed(self, order: Order) -> None: ...

    def triggered(self, order: Order) -> None: ...

    def system(self, code: str) -> None: ...

    def take(self) -> tuple[bytes, int]:
        return b"", 0
