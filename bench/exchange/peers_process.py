"""Script that runs a flow through one peer; it must be called with the interpreter of an environment that has the peer.

The script reads a plain file. The first line is the number of requests that fill the book; every further line is a
request, ``kind order side price volume``. The script prints requests, seconds and executions (-1: not reported) of the
remaining requests as one line of JSON. It imports nothing of this project, so that it runs wherever the peer is
installed.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Request = tuple[int, int, int, int, int]
ADD, CANCEL, CROSS = 0, 1, 2


def pyorderbook(requests: Sequence[Request]) -> Callable[[Sequence[Request]], int]:
    """Return a runner of `Book.match` and `Book.cancel`; ids are the peer's own, prices are Decimals."""
    from pyorderbook import Book, ask, bid

    logging.disable(logging.CRITICAL)
    book = Book()
    orders: dict[int, Any] = {}

    def run(requests: Sequence[Request]) -> int:
        executions = 0
        for kind, order_id, side, price, volume in requests:
            if kind == CANCEL:
                book.cancel(orders.pop(order_id))
            else:
                order = orders[order_id] = (ask if side else bid)("X", price, volume)
                executions += len(book.match(order).trades)
        return executions

    return run


def lightmatchingengine(requests: Sequence[Request]) -> Callable[[Sequence[Request]], int]:
    """Return a runner of `LightMatchingEngine.add_order` and `.cancel_order`. The trades that the engine also reports
    for the taker, one per level, are not counted.
    """
    from lightmatchingengine.lightmatchingengine import LightMatchingEngine

    engine = LightMatchingEngine()
    ids: dict[int, int] = {}

    def run(requests: Sequence[Request]) -> int:
        executions = 0
        for kind, order_id, side, price, volume in requests:
            if kind == CANCEL:
                engine.cancel_order(ids.pop(order_id), "X")
            else:
                order, trades = engine.add_order("X", price, volume, 2 if side else 1)
                ids[order_id] = order.order_id
                executions += sum(trade.order_id != order.order_id for trade in trades)
        return executions

    return run


def limit_order_book(requests: Sequence[Request]) -> Callable[[Sequence[Request]], int]:
    """Return a runner of `LimitOrderBook` (C++ behind ctypes), which does not report executions."""
    from limit_order_book import LimitOrderBook

    book = LimitOrderBook()

    def run(requests: Sequence[Request]) -> int:
        for kind, order_id, side, price, volume in requests:
            if kind == CANCEL:
                book.cancel(order_id)
            elif side:
                book.limit_sell(order_id, volume, price)
            else:
                book.limit_buy(order_id, volume, price)
        return -1

    return run


def order_book(requests: Sequence[Request]) -> Callable[[Sequence[Request]], int]:
    """Return a runner of a sorted map of price levels in C without orders and matching: only the levels are kept up to
    date.
    """
    from order_book import OrderBook

    book = OrderBook()
    volumes: dict[int, tuple[Any, int, int]] = {}

    def run(requests: Sequence[Request]) -> int:
        bids, asks = book.bids, book.asks
        for kind, order_id, side, price, volume in requests:
            levels = asks if side else bids
            if kind == CANCEL:
                rested, at, lots = volumes.pop(order_id)
                left = rested[at] - lots if at in rested else 0
                if left > 0:
                    rested[at] = left
                elif at in rested:
                    del rested[at]
            elif kind == ADD:
                volumes[order_id] = (levels, price, volume)
                levels[price] = levels[price] + volume if price in levels else volume
            else:
                volumes[order_id] = (levels, price, 0)
        return -1

    return run


PEERS = {
    "pyorderbook": pyorderbook,
    "lightmatchingengine": lightmatchingengine,
    "limit-order-book": limit_order_book,
    "order-book": order_book,
}


def _request(line: str) -> Request:
    kind, order_id, side, price, volume = map(int, line.split())
    return kind, order_id, side, price, volume


def main(name: str, path: str) -> None:
    """Fill the book, then time the remaining requests."""
    with Path(path).open(encoding="ascii") as file:
        filling = int(file.readline())
        requests = [_request(line) for line in file]
    run = PEERS[name](requests)
    run(requests[:filling])
    gc.collect()
    gc.freeze()
    start = time.perf_counter()
    executions = run(requests[filling:])
    seconds = time.perf_counter() - start
    print(json.dumps({"requests": len(requests) - filling, "seconds": seconds, "executions": executions}))


if __name__ == "__main__":
    main(*sys.argv[1:])
