"""Auctions: at which price most lots execute, and their execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from exchange_server.matching.order import CLOSING, HALTED_ONLY, MARKET, OPENING, Order, Side
from exchange_server.matching.outputs import Imbalance
from exchange_server.matching.reasons import CancelReason
from exchange_server.matching.taking import refresh

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["CrossKind", "say_imbalance", "uncross"]

CrossKind = Literal["O", "C", "H"]
"""Opening, closing, after a halt."""

_FLAGS: Final = {"O": OPENING, "C": CLOSING, "H": HALTED_ONLY}


class _Lots(NamedTuple):
    """Lots of an order that take part."""

    order: Order
    lots: int
    displayed: int
    """So many of them are on display."""


class _Balance(NamedTuple):
    """What would happen at a price."""

    price: int
    demand: int
    supply: int

    @property
    def paired(self) -> int:
        """Lots that execute."""
        return min(self.demand, self.supply)


def uncross(market: Market, book: Book, kind: CrossKind, *, is_auction: bool = True) -> None:
    """End an auction: execute what executes, cancel what is left of the orders that are for this auction alone.

    Of a book that is crossed without an auction, those do not take part.
    """
    flag = _FLAGS[kind] if is_auction else 0
    buys, sells = list(_interest(book, "B", flag)), list(_interest(book, "S", flag))
    best = _equilibrium(buys, sells, book.reference())
    if best is not None:
        _execute(market, book, [*_reaching(buys, best), *_reaching(sells, best)], best, kind)
    for order in [order for order in book.waiting.values() if order.flags & flag]:
        market.cancel(order, order.volume, CancelReason.CROSS)


def say_imbalance(book: Book, kind: CrossKind) -> None:
    """How an auction would end now, on the feed."""
    flag = _FLAGS[kind]
    reference = book.reference()
    buys, sells = list(_interest(book, "B", flag)), list(_interest(book, "S", flag))
    near = _equilibrium(buys, sells, reference)
    far = _equilibrium(_alone(buys, flag), _alone(sells, flag), reference)
    demand = sum(lots.lots for lots in buys if lots.order.flags & MARKET or lots.order.price_ticks >= reference)
    supply = sum(lots.lots for lots in sells if lots.order.price_ticks <= reference)
    direction = "B" if demand > supply else "S" if supply > demand else "N"
    found = Imbalance(
        book.locate,
        min(demand, supply),
        abs(demand - supply),
        direction if buys and sells else "O",
        0 if far is None else far.price,
        0 if near is None else near.price,
        reference,
        kind,
    )
    book.feed.imbalance(found)


def _alone(side: list[_Lots], flag: int) -> list[_Lots]:
    return [lots for lots in side if lots.order.flags & flag]


def _interest(book: Book, side: Side, flag: int) -> Iterator[_Lots]:
    """All lots of a side that take part, in priority.

    Market orders, then by price; at a price what is displayed, then what icebergs hold back, in the same order, then
    hidden orders and orders for this auction, in the order of their ids.
    """
    shown, hidden = (book.bids, book.hidden_bids) if side == "B" else (book.asks, book.hidden_asks)
    sign = shown.sign
    unseen: dict[int, list[Order]] = {rank: list(hidden[rank * sign].values()) for rank in hidden.best_first()}
    for order in book.waiting.values():
        if order.flags & flag and order.side == side:
            if order.flags & MARKET:
                yield _Lots(order, order.volume, 0)
            else:
                unseen.setdefault(order.price_ticks * sign, []).append(order)
    for rank in sorted({*shown.best_first(), *unseen}, reverse=True):
        queue = shown.get(rank * sign, {}).values()
        for order in queue:
            yield _Lots(order, order.volume, order.volume)
        for order in queue:
            if order.reserve:
                yield _Lots(order, order.reserve, 0)
        for order in sorted(unseen.get(rank, ()), key=_id):
            yield _Lots(order, order.volume, 0)


def _id(order: Order) -> int:
    return order.order_id


def _equilibrium(buys: Iterable[_Lots], sells: Iterable[_Lots], reference: int) -> _Balance | None:
    """The price at which most lots execute, then fewest are left over, then nearest to the reference, then the higher;
    None if nothing executes."""
    demand, supply = _by_price(buys), _by_price(sells)
    prices = sorted({*demand, *supply, *([reference] if reference > 0 else [])} - {0})
    wanted = sum(demand.values())
    offered = supply.get(0, 0)
    best: _Balance | None = None
    for price in prices:
        offered += supply.get(price, 0)
        balance = _Balance(price, wanted, offered)
        if best is None or _merit(balance, reference) >= _merit(best, reference):
            best = balance
        wanted -= demand.get(price, 0)
    return best if best is not None and best.paired else None


def _by_price(lots: Iterable[_Lots]) -> dict[int, int]:
    """Lots by limit, 0 for market orders."""
    found: dict[int, int] = {}
    for each in lots:
        found[each.order.price_ticks] = found.get(each.order.price_ticks, 0) + each.lots
    return found


def _merit(balance: _Balance, reference: int) -> tuple[int, int, int]:
    return balance.paired, -abs(balance.demand - balance.supply), -abs(balance.price - reference)


def _reaching(side: list[_Lots], balance: _Balance) -> list[_Lots]:
    """What executes of each order, in priority."""
    left = balance.paired
    found: dict[int, _Lots] = {}
    for order, lots, displayed in side:
        if not left:
            break
        done = min(lots, left)
        left -= done
        before = found.get(order.order_id)
        if before is None:
            found[order.order_id] = _Lots(order, done, min(displayed, done))
        else:
            found[order.order_id] = before._replace(lots=before.lots + done)
    return list(found.values())


def _execute(market: Market, book: Book, sides: list[_Lots], balance: _Balance, kind: CrossKind) -> None:
    """One trade: everybody's part of it, then the whole."""
    price = balance.price
    match_id = market.next_match_id
    market.next_match_id = match_id + 1
    for order, lots, displayed in sides:
        held_back = lots - displayed if displayed else 0
        order.volume -= lots - held_back
        order.reserve -= held_back
        order.executed += lots
        if displayed:
            book.feed.crossed(order, displayed, price, match_id)
        if order.account:
            account = market.accounts[order.account]
            if account.open_notional:
                account.open_notional -= lots * order.price_ticks
            market.executions.append((match_id, order, lots, price))
            market.tellers[order.account].executed(order, lots, price, kind, match_id)
    book.feed.cross(book.locate, balance.paired, price, match_id, kind)
    book.last_trade_ticks = price
    if book.stops:
        book.stops.traded(price)
    for order, _, _ in sides:
        if not order.volume and order.reserve:
            refresh(book, order)
        elif not order.volume:
            book.remove(order)
