"""Auctions: at which price most lots execute, and their execution."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from exchange_server.matching.levels import ranks_of
from exchange_server.matching.order import CLOSING, HALTED_ONLY, MARKET, OPENING, Order, Side
from exchange_server.matching.reasons import CancelReason
from exchange_server.matching.taking import refresh

if TYPE_CHECKING:
    from exchange_server.matching.book import Book
    from exchange_server.matching.market import Market

__all__ = ["CrossKind", "say_imbalance", "uncross"]

CrossKind = Literal["O", "C", "H"]
"""Opening, closing, after a halt."""

_FLAGS: Final = {"O": OPENING, "C": CLOSING, "H": HALTED_ONLY}
_DISPLAYED, _RESERVE, _UNSEEN = 0, 1, 2


class _Lots(NamedTuple):
    """Lots of an order that take part."""

    order: Order
    lots: int
    where: int
    """Displayed, an iceberg's reserve, or of an order that is in no feed."""


class _Balance(NamedTuple):
    """What would happen at a price."""

    price: int
    demand: int
    supply: int

    @property
    def paired(self) -> int:
        """Lots that execute."""
        return min(self.demand, self.supply)


def uncross(market: Market, book: Book, kind: CrossKind) -> None:
    """End an auction: execute what executes, cancel what is left of the orders that are for this auction alone."""
    flag = _FLAGS[kind]
    buys, sells = list(_interest(book, "B", flag)), list(_interest(book, "S", flag))
    best = _equilibrium(buys, sells, book.reference())
    if best is not None:
        _execute(market, book, _reaching(buys, best), _reaching(sells, best), best, kind)
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
    book.feed.imbalance(
        book.locate,
        min(demand, supply),
        abs(demand - supply),
        direction if buys and sells else "O",
        0 if far is None else far.price,
        0 if near is None else near.price,
        reference,
        kind,
    )


def _alone(side: list[_Lots], flag: int) -> list[_Lots]:
    return [lots for lots in side if lots.order.flags & flag]


def _interest(book: Book, side: Side, flag: int) -> Iterator[_Lots]:
    """All lots of a side that take part, in priority.

    Market orders, then by price; at a price what is displayed, what icebergs hold back, hidden orders, orders for this
    auction; in each of these who came first.
    """
    shown, hidden = (book.bids, book.hidden_bids) if side == "B" else (book.asks, book.hidden_asks)
    sign = shown.sign
    alone: dict[int, list[Order]] = {}
    for order in book.waiting.values():
        if order.flags & flag and order.side == side:
            if order.flags & MARKET:
                yield _Lots(order, order.volume, _UNSEEN)
            else:
                alone.setdefault(order.price_ticks * sign, []).append(order)
    for rank in sorted({*ranks_of(shown, hidden), *alone}, reverse=True):
        queue = shown.get(rank * sign, {}).values()
        for order in queue:
            yield _Lots(order, order.volume, _DISPLAYED)
        for order in queue:
            if order.reserve:
                yield _Lots(order, order.reserve, _RESERVE)
        for order in (*hidden.get(rank * sign, {}).values(), *alone.get(rank, ())):
            yield _Lots(order, order.volume, _UNSEEN)


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
    """Those that execute, in priority, as many lots as there are for them."""
    left = balance.paired
    found: list[_Lots] = []
    for each in side:
        if not left:
            break
        found.append(each if each.lots <= left else each._replace(lots=left))
        left -= found[-1].lots
    return found


def _execute(  # noqa: PLR0917 - one call
    market: Market, book: Book, buys: list[_Lots], sells: list[_Lots], balance: _Balance, kind: CrossKind
) -> None:
    price = balance.price
    buy, sell = buys[0], sells[0]
    next_buy, next_sell = 1, 1
    while True:
        done = min(buy.lots, sell.lots)
        match_id = market.next_match_id
        market.next_match_id += 1
        for each in (buy, sell):
            _execute_lots(market, book, each, done, price, kind, match_id)
        buy, sell = buy._replace(lots=buy.lots - done), sell._replace(lots=sell.lots - done)
        if not buy.lots:
            if next_buy == len(buys):
                break
            buy, next_buy = buys[next_buy], next_buy + 1
        if not sell.lots:
            sell, next_sell = sells[next_sell], next_sell + 1
    book.feed.cross(book.locate, balance.paired, price, market.next_match_id, kind)
    market.next_match_id += 1
    book.last_trade_ticks = price
    if book.stops:
        book.stops.traded(price)
    for order in {each.order.order_id: each.order for each in (*buys, *sells)}.values():
        if not order.volume and order.reserve:
            refresh(book, order)
        elif not order.volume:
            book.remove(order)


def _execute_lots(  # noqa: PLR0917 - one call
    market: Market, book: Book, each: _Lots, done: int, price: int, kind: CrossKind, match_id: int
) -> None:
    order = each.order
    if each.where == _RESERVE:
        order.reserve -= done
    else:
        order.volume -= done
    order.executed += done
    if each.where == _DISPLAYED:
        book.feed.crossed(order, done, price, match_id)
    if order.account:
        account = market.accounts[order.account]
        if account.open_notional:
            account.open_notional -= done * order.price_ticks
        market.tellers[order.account].executed(order, done, price, kind, match_id)
