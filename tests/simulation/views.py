"""Views whose answers are computed in a few lines of Python: a handful of every class of the compiler."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from runtime.compiler import MARKET_RELATIONS, Column, NamedSelect, Relation
from tests.simulation.book import Book, Order, Row

__all__ = ["ANSWERS", "BROKERS", "RELATIONS", "VIEWS", "SimulatedView"]

BROKERS: Final = Relation("brokers", (Column("id", "int64"), Column("name", "string")))
"""Table of reference data that ends before the feed is opened."""
RELATIONS: Final = (*MARKET_RELATIONS, BROKERS)

_RECENT_NS: Final = 400

K = TypeVar("K")
Names = dict[int, str]
Answer = Callable[[Book, Names], Counter[Row]]


class SimulatedView(msgspec.Struct, frozen=True):
    """View with its expected answer."""

    select: NamedSelect
    """Name and SQL of the view."""
    answer: Answer
    """Function that returns its rows, from a book and the table of brokers."""
    is_dear: bool = False
    """True if it costs many times what the others do: few seeds have it."""


def _by(orders: Iterable[Order], key: Callable[[Order], K]) -> dict[K, list[Order]]:
    found: dict[K, list[Order]] = defaultdict(list)
    for order in orders:
        found[key(order)].append(order)
    return found


def _counts(book: Book, _: Names) -> Counter[Row]:
    groups = _by(book.bids.values(), lambda o: o.symbol)
    return Counter((symbol, len(held), sum(o.volume for o in held)) for symbol, held in groups.items())


def _total(book: Book, _: Names) -> Counter[Row]:
    held = book.asks.values()
    return Counter([(len(held), sum(o.price * o.volume for o in held) if held else None)])


def _best(book: Book, _: Names) -> Counter[Row]:
    return Counter((s, max(o.price for o in held)) for s, held in _by(book.bids.values(), lambda o: o.symbol).items())


def _spread(book: Book, _: Names) -> Counter[Row]:
    asks = _by(book.asks.values(), lambda o: o.symbol)
    bids = _by(book.bids.values(), lambda o: o.symbol)
    return Counter((s, max(o.price for o in bids[s]), min(o.price for o in asks[s])) for s in bids.keys() & asks.keys())


def _pairs(book: Book, _: Names) -> Counter[Row]:
    asks = _by(book.asks.values(), lambda o: o.broker_id)
    bids = _by(book.bids.values(), lambda o: o.broker_id)
    return Counter(
        (b, sum(x.volume for x in bids[b]) * sum(y.volume for y in asks[b])) for b in bids.keys() & asks.keys()
    )


def _vwap(book: Book, _: Names) -> Counter[Row]:
    total = sum(o.volume for o in book.bids.values())
    above = {o.price: sum(x.volume for x in book.bids.values() if x.price > o.price) for o in book.bids.values()}
    chosen = [o.price * o.volume for o in book.bids.values() if total > 4 * above[o.price]]
    return Counter([(sum(chosen) if chosen else None,)])


def _traded(book: Book, _: Names) -> Counter[Row]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in book.trades:
        groups[row[2]].append(row)
    return Counter((symbol, len(rows), sum(row[3] * row[4] for row in rows)) for symbol, rows in groups.items())


def _top(book: Book, _: Names) -> Counter[Row]:
    ranked = sorted(book.bids.values(), key=lambda o: (-o.price, o.id))
    return Counter((o.id, o.price) for o in ranked[:3])


def _seen(book: Book, _: Names) -> Counter[Row]:
    return Counter({(o.broker_id,): 1 for o in (*book.bids.values(), *book.asks.values())})


def _lonely(book: Book, _: Names) -> Counter[Row]:
    prices = {(o.symbol, o.price) for o in book.asks.values()}
    return Counter((o.id, o.volume) for o in book.bids.values() if (o.symbol, o.price) not in prices)


def _named(book: Book, names: Names) -> Counter[Row]:
    groups = _by((o for o in book.bids.values() if o.broker_id in names), lambda o: names[o.broker_id])
    return Counter((name, sum(o.volume for o in held)) for name, held in groups.items())


def _median(book: Book, _: Names) -> Counter[Row]:
    found: Counter[Row] = Counter()
    for symbol, held in _by(book.bids.values(), lambda o: o.symbol).items():
        prices = sorted(o.price for o in held)
        middle = len(prices) // 2
        median = prices[middle] if len(prices) % 2 else (prices[middle - 1] + prices[middle]) / 2
        found[(symbol, float(median))] += 1
    return found


def _recent(book: Book, _: Names) -> Counter[Row]:
    held = [o for o in book.bids.values() if book.now is not None and o.t > book.now - _RECENT_NS]
    return Counter((s, len(o), max(x.price for x in o)) for s, o in _by(held, lambda o: o.symbol).items())


def _settled(book: Book, _: Names) -> Counter[Row]:
    return Counter((o.id, o.t) for o in book.asks.values() if book.now is not None and book.now - o.t >= _RECENT_NS)


def _view(name: str, sql: str, answer: Answer, *, is_dear: bool = False) -> SimulatedView:
    return SimulatedView(NamedSelect(name, " ".join(sql.split())), answer, is_dear)


VIEWS: Final = (
    _view("counts", "SELECT symbol, COUNT(*) AS n, SUM(volume) AS volume FROM bids GROUP BY symbol", _counts),
    _view("total", "SELECT COUNT(*) AS n, SUM(price * volume) AS worth FROM asks", _total),
    _view("best", "SELECT symbol, MAX(price) AS best FROM bids GROUP BY symbol", _best),
    _view(
        "spread",
        """SELECT b.symbol, MAX(b.price) AS bid, MIN(a.price) AS ask FROM bids b, asks a
        WHERE a.symbol = b.symbol GROUP BY b.symbol""",
        _spread,
        is_dear=True,
    ),
    _view(
        "pairs",
        """SELECT b.broker_id, SUM(b.volume * a.volume) AS product FROM bids b, asks a
        WHERE a.broker_id = b.broker_id GROUP BY b.broker_id""",
        _pairs,
    ),
    _view(
        "vwap",
        """SELECT SUM(b1.price * b1.volume) AS vwap FROM bids b1 WHERE 0.25 * (SELECT SUM(b3.volume) FROM bids b3)
        > COALESCE((SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price), 0)""",
        _vwap,
    ),
    _view("traded", "SELECT symbol, COUNT(*) AS n, SUM(price * volume) AS t FROM trades GROUP BY symbol", _traded),
    _view("top", "SELECT id, price FROM bids ORDER BY price DESC, id LIMIT 3", _top),
    _view("seen", "SELECT broker_id FROM bids UNION SELECT broker_id FROM asks", _seen),
    _view(
        "lonely",
        """SELECT b.id, b.volume FROM bids b LEFT JOIN asks a ON a.symbol = b.symbol AND a.price = b.price
        WHERE a.id IS NULL""",
        _lonely,
        is_dear=True,
    ),
    _view(
        "named",
        "SELECT r.name, SUM(b.volume) AS volume FROM bids b, brokers r WHERE r.id = b.broker_id GROUP BY r.name",
        _named,
    ),
    _view(
        "recent",
        f"""SELECT symbol, COUNT(*) AS n, MAX(price) AS best FROM bids
        WHERE t > now() - INTERVAL '{_RECENT_NS}' NANOSECOND GROUP BY symbol""",
        _recent,
    ),
    _view("settled", f"SELECT id, t FROM asks WHERE now() - t >= INTERVAL '{_RECENT_NS}' NANOSECOND", _settled),
    _view("middle", "SELECT symbol, MEDIAN(price) AS m FROM bids GROUP BY symbol", _median, is_dear=True),
)
"""All simulated views."""

ANSWERS: Final = {view.select.name: view.answer for view in VIEWS}
"""Expected answers of the views, by name."""
