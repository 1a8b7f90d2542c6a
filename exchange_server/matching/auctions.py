"""Auctions, and the phases of a session: its beginning, auctions, halts and end.

An auction (opening, closing, after a halt) collects orders. When its phase changes to continuous trading or to closed,
its orders execute at a single price, the one at which the most lots execute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from exchange_server.matching.book import Book
from exchange_server.matching.inputs import Phase, PhaseName
from exchange_server.matching.market_state import MarketState
from exchange_server.matching.order import CLOSING, HALTED_ONLY, MARKET, OPENING, CancelReason, Order, Side
from exchange_server.matching.outputs import Imbalance
from exchange_server.matching.requests import cancel_all, cancel_order
from exchange_server.matching.special_orders import show_next_part, trigger_stops

__all__ = ["begin_session", "change_phase", "publish_imbalances"]

CrossKind = Literal["O", "C", "H"]
"""Kind of a cross: O opening, C closing, H after a halt."""

_FLAGS: Final = {"O": OPENING, "C": CLOSING, "H": HALTED_ONLY}

_STATES: Final[dict[PhaseName, str]] = {
    "continuous": "T",
    "auction-open": "Q",
    "auction-close": "Q",
    "auction-halt": "Q",
    "halted": "H",
    "paused": "P",
    "closed": "H",
}
"""Trading state on the feed, by phase."""

_KINDS: Final[dict[str, CrossKind]] = {"auction-open": "O", "auction-close": "C", "auction-halt": "H"}


class _Lots(NamedTuple):
    """Lots of an order that take part in an auction."""

    order: Order
    lots: int
    displayed: int
    """Number of displayed lots among them."""


class _Balance(NamedTuple):
    """Lots bid and offered at a price."""

    price: int
    demand: int
    supply: int

    @property
    def paired(self) -> int:
        """Lots that execute."""
        return min(self.demand, self.supply)


def _uncross(book: Book, kind: CrossKind, *, is_auction: bool = True) -> None:
    """End an auction: execute at its price, and cancel the rest of the orders that are for this auction only.

    In a book that is crossed without an auction, orders for an auction do not take part.
    """
    flag = _FLAGS[kind] if is_auction else 0
    buys, sells = list(_interest(book, "B", flag)), list(_interest(book, "S", flag))
    best = _equilibrium(buys, sells, book.reference())
    if best is not None:
        _execute(book, [*_reaching(buys, best), *_reaching(sells, best)], best, kind)
    for order in [order for order in book.waiting.values() if order.flags & flag]:
        cancel_order(book, order, order.volume, CancelReason.CROSS)


def _publish_imbalance(book: Book, kind: CrossKind) -> None:
    """Publish how an auction would end now."""
    flag = _FLAGS[kind]
    reference = book.reference()
    buys, sells = list(_interest(book, "B", flag)), list(_interest(book, "S", flag))
    near = _equilibrium(buys, sells, reference)
    far = _equilibrium(_alone(buys, flag), _alone(sells, flag), reference)
    demand = sum(lots.lots for lots in buys if lots.order.flags & MARKET or lots.order.price_ticks >= reference)
    supply = sum(lots.lots for lots in sells if lots.order.price_ticks <= reference)
    direction = "B" if demand > supply else "S" if supply > demand else "N"
    imbalance = Imbalance(
        book.locate,
        min(demand, supply),
        abs(demand - supply),
        direction if buys and sells else "O",
        0 if far is None else far.price,
        0 if near is None else near.price,
        reference,
        kind,
    )
    book.feed.imbalance(imbalance)


def _alone(side: list[_Lots], flag: int) -> list[_Lots]:
    return [lots for lots in side if lots.order.flags & flag]


def _interest(book: Book, side: Side, flag: int) -> Iterator[_Lots]:
    """Yield the lots of a side that take part, in order of priority.

    Market orders come first, then the other orders by price. At each price, displayed lots come first, in the order of
    the queue; then the reserves of icebergs, in the same order; then hidden orders and orders for this auction
    together, in the order of their ids.
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
    """Return the price at which the most lots execute, None if none do.

    If there are several such prices, prefer the fewest lots left over, then the price nearest to the reference, then
    the highest price.
    """
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
    """Add up lots by limit, 0 for market orders."""
    by_price: dict[int, int] = {}
    for part in lots:
        by_price[part.order.price_ticks] = by_price.get(part.order.price_ticks, 0) + part.lots
    return by_price


def _merit(balance: _Balance, reference: int) -> tuple[int, int, int]:
    return balance.paired, -abs(balance.demand - balance.supply), -abs(balance.price - reference)


def _reaching(side: list[_Lots], balance: _Balance) -> list[_Lots]:
    """Return the lots of each order that execute, in order of priority."""
    left = balance.paired
    reached: dict[int, _Lots] = {}
    for order, lots, displayed in side:
        if not left:
            break
        done = min(lots, left)
        left -= done
        before = reached.get(order.order_id)
        if before is None:
            reached[order.order_id] = _Lots(order, done, min(displayed, done))
        else:
            reached[order.order_id] = before._replace(lots=before.lots + done)
    return list(reached.values())


def _execute(book: Book, sides: list[_Lots], balance: _Balance, kind: CrossKind) -> None:
    """Execute the trade of an auction; publish each order's part, then the trade as a whole."""
    shared, price = book.shared, balance.price
    match_id = shared.next_match_id
    shared.next_match_id = match_id + 1
    for order, lots, displayed in sides:
        from_reserve = lots - displayed if displayed else 0
        order.volume -= lots - from_reserve
        order.reserve -= from_reserve
        order.executed += lots
        if displayed:
            book.feed.crossed(order, displayed, price, match_id)
        if order.account:
            account = shared.accounts[order.account]
            if account.open_notional:
                account.open_notional -= lots * order.price_ticks
            shared.executions.append((match_id, order, lots, price))
            shared.tellers[order.account].executed(order, lots, price, kind, match_id)
    book.feed.cross(book.locate, balance.paired, price, match_id, kind)
    book.last_trade_ticks = price
    if book.stops:
        book.stops.traded(price)
    for order, _, _ in sides:
        if not order.volume and order.reserve:
            show_next_part(book, order)
        elif not order.volume:
            book.remove(order)


def begin_session(shared: MarketState, books: Mapping[str, Book]) -> None:
    """Publish the session's beginning, the instruments and their trading states."""
    feed = shared.feed
    shared.has_begun = True
    feed.system("O")
    for book in books.values():
        feed.listed(book.locate)
    feed.system("S")
    for book in books.values():
        feed.trading(book.locate, _STATES[book.phase], "")
    _publish_hours(shared, books)


def change_phase(shared: MarketState, books: Mapping[str, Book], item: Phase) -> None:
    """Move a symbol, or all symbols, to a phase; a closed symbol stays closed."""
    if not item.symbol:
        changed = list(books.values())
    elif item.symbol in books:
        changed = [books[item.symbol]]
    else:
        return
    for book in changed:
        if book.phase != "closed":
            _enter_phase(book, item.phase, item.reason)
    _publish_hours(shared, books)


def publish_imbalances(books: Mapping[str, Book]) -> None:
    """Publish the imbalance of each running auction."""
    for book in books.values():
        if book.phase in _KINDS and not book.is_followed:
            _publish_imbalance(book, _KINDS[book.phase])


def _enter_phase(book: Book, phase: PhaseName, reason: str) -> None:
    if not book.is_followed:
        if book.phase in _KINDS and phase in {"continuous", "closed"}:
            _uncross(book, _KINDS[book.phase])
        elif phase == "continuous" and book.bid_edge >= book.ask_edge:
            _uncross(book, "H", is_auction=False)
    book.phase = phase
    book.is_special = book.is_followed or phase != "continuous"
    book.feed.trading(book.locate, _STATES[phase], reason)
    if phase == "continuous":
        trigger_stops(book)
    elif phase == "closed":
        cancel_all((book,), CancelReason.CLOSED)


def _publish_hours(shared: MarketState, books: Mapping[str, Book]) -> None:
    """Publish the beginning of market hours once all symbols have opened, and their end once all are closed."""
    phases = {book.phase for book in books.values()}
    if not shared.has_opened and "auction-open" not in phases:
        shared.has_opened = True
        shared.feed.system("Q")
    if not shared.has_ended and phases == {"closed"}:
        shared.has_ended = True
        for code in "MEC":
            shared.feed.system(code)
        for teller in shared.tellers:
            teller.system("E")
