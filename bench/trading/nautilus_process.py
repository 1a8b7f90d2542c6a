"""Script that plays a recorded flow through `BacktestEngine` of nautilus_trader; the interpreter must have
nautilus_trader.

The script reads ``t,id,action,volume,price`` (B S add, E executes in part, F in full, D deletes; times in ms). Before
the clock starts, each line becomes an `OrderBookDelta` of an L3 book. A strategy reads the best prices after every
delta. At every thousandth change of the best prices it cancels its order and bids one lot at the best bid. The script
prints messages, seconds (of `run` alone), touches and orders as one line of JSON. It imports nothing of this project.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from nautilus_trader.backtest.engine import BacktestEngine, BacktestEngineConfig
from nautilus_trader.config import LoggingConfig
from nautilus_trader.model import BookOrder, Money, OrderBookDelta, Price, Quantity, Venue
from nautilus_trader.model.currencies import USD
from nautilus_trader.model.enums import AccountType, BookAction, BookType, OmsType, OrderSide, TimeInForce
from nautilus_trader.model.identifiers import InstrumentId, Symbol
from nautilus_trader.model.instruments import Equity
from nautilus_trader.trading.strategy import Strategy

EVERY = 1_000
ONE = Quantity.from_int(1)


class Toucher(Strategy):  # type: ignore[misc]
    """Strategy that trades like `bench.trading.toucher`."""

    def __init__(self, instrument_id: Any) -> None:
        super().__init__()
        self._instrument_id = instrument_id
        self._touch: tuple[Any, Any] = (None, None)
        self._order: Any = None
        self.touches = 0
        self.orders = 0

    def on_start(self) -> None:
        """Subscribe to every delta."""
        self.subscribe_order_book_deltas(self._instrument_id, book_type=BookType.L3_MBO)

    def on_order_book_deltas(self, deltas: Any) -> None:
        """Read the best prices after a change of the book, and trade."""
        del deltas
        book = self.cache.order_book(self._instrument_id)
        touch = (book.best_bid_price(), book.best_ask_price())
        if touch == self._touch:
            return
        self._touch = touch
        self.touches += 1
        if self.touches % EVERY or touch[0] is None:
            return
        if self._order is not None and not self._order.is_closed:
            self.cancel_order(self._order)
        self._order = self.order_factory.limit(self._instrument_id, OrderSide.BUY, ONE, touch[0], TimeInForce.GTC)
        self.submit_order(self._order)
        self.orders += 1


def deltas_of(path: Path, instrument_id: Any) -> list[Any]:
    """Return the lines as deltas."""
    live: dict[int, tuple[Any, Any, int]] = {}
    found = []
    for number, line in enumerate(path.read_text("ascii").splitlines()):
        t, order, action, volume, price = line.split(",")
        order_id, lots = int(order), int(volume)
        if action in "BS":
            side, at = (OrderSide.BUY if action == "B" else OrderSide.SELL), Price(int(price) / 100, 2)
            live[order_id], kind = (side, at, lots), BookAction.ADD
        else:
            side, at, lots_left = live.pop(order_id)
            lots = lots_left - lots if action == "E" else 0
            kind = BookAction.UPDATE if lots else BookAction.DELETE
            if lots:
                live[order_id] = (side, at, lots)
        entry = BookOrder(side, at, Quantity.from_int(lots), order_id)
        time_ns = int(t) * 1_000_000
        found.append(OrderBookDelta(instrument_id, kind, entry, 128, number, time_ns, time_ns))
    return found


def main(path: Path) -> None:
    """Run the backtest once."""
    venue = Venue("SIM")
    instrument_id = InstrumentId(Symbol("ACME"), venue)
    engine = BacktestEngine(BacktestEngineConfig(logging=LoggingConfig(bypass_logging=True)))
    engine.add_venue(
        venue,
        oms_type=OmsType.NETTING,
        account_type=AccountType.MARGIN,
        base_currency=USD,
        starting_balances=[Money(1_000_000_000, USD)],
        book_type=BookType.L3_MBO,
    )
    engine.add_instrument(Equity(instrument_id, Symbol("ACME"), USD, 2, Price(0.01, 2), ONE, 0, 0))
    deltas = deltas_of(path, instrument_id)
    engine.add_data(deltas)
    strategy = Toucher(instrument_id)
    engine.add_strategy(strategy)
    gc.collect()
    started = time.perf_counter()
    engine.run()
    seconds = time.perf_counter() - started
    result = {"messages": len(deltas), "seconds": seconds, "touches": strategy.touches, "orders": strategy.orders}
    sys.stdout.write(json.dumps(result) + "\n")


main(Path(sys.argv[1]))
