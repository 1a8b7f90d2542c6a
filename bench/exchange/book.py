"""Our book in process, on the same flow as the peers: without a feed, and with every message encoded as ITCH."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

from bench.exchange.flow import CANCEL, Request
from deltabook.wire.symbols import Instrument
from exchange_server.matching import Book, FeedEncoder, Order

__all__ = ["run_book"]

INSTRUMENT: Final = Instrument("ACME", "0.01", "1", 10_000)


_TURN: Final = 1_000


def run_book(
    feed: FeedEncoder, filling: Sequence[Request], requests: Sequence[Request], live: Collection[int]
) -> float:
    """Return the seconds for the requests.

    Orders are created within the timed span, as in the peers; the encoder's output is taken and dropped every 1,000
    requests, as an exchange does once per turn of its reactor. Raise `RuntimeError` if the book's orders differ from
    `live` afterwards.
    """
    book = Book(1, INSTRUMENT.symbol, feed)
    _drive(book, filling)
    feed.take()
    pieces = [requests[start : start + _TURN] for start in range(0, len(requests), _TURN)]
    gc.collect()
    gc.freeze()
    try:
        start = time.perf_counter()
        for piece in pieces:
            _drive(book, piece)
            feed.take()
        seconds = time.perf_counter() - start
    finally:
        gc.unfreeze()
    if book.orders.keys() != set(live):
        raise RuntimeError(f"expected the {len(live)} orders of the flow to rest, was {len(book.orders)}")
    return seconds


def _drive(book: Book, requests: Sequence[Request]) -> None:
    enter: Callable[[Order], object] = book.enter
    cancel: Callable[[int], object] = book.cancel
    for kind, order_id, side, price, volume in requests:
        if kind == CANCEL:
            cancel(order_id)
        else:
            enter(Order(order_id, order_id, 1, "S" if side else "B", price, volume, 7))
