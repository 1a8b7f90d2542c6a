"""Strategy that sends random requests at any time."""

from __future__ import annotations

import random

import msgspec

from algo_engine import Context, OrderEvent, OrderOptions, Strategy, ViewChange

__all__ = ["Frantic", "FranticParameters"]


class FranticParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Seed of the strategy, and its failure."""

    seed: int = 0
    interval_ms: int = 40
    fails_after: int = 0
    """Number of orders after which it raises; 0: never."""


class Frantic(Strategy[FranticParameters]):
    """Sends orders with all kinds of options, and changes them, on a timer and on events."""

    parameters_type = FranticParameters

    def __init__(self, parameters: FranticParameters) -> None:
        super().__init__(parameters)
        self._random = random.Random(parameters.seed)
        self._orders = 0
        self._views = 0

    def on_start(self, context: Context) -> None:
        context.set_timer("act", self.parameters.interval_ms, repeat=True)

    def on_timer(self, name: str) -> None:
        self._act()

    def on_view_change(self, change: ViewChange) -> None:
        if self._random.random() < 0.02:
            self._act()

    def on_order_event(self, event: OrderEvent) -> None:
        if self._random.random() < 0.05:
            self._act()

    def _act(self) -> None:
        rng, context = self._random, self.context
        symbols = context.symbols()
        if not symbols:
            return
        draw = rng.random()
        orders = context.open_orders()
        if draw < 0.03 and self._views < 2:
            self._views += 1
            context.add_view(f"own{self._views}", "SELECT symbol, SUM(volume) AS lots FROM bids GROUP BY symbol")
        elif draw < 0.15 and orders:
            context.cancel(rng.choice(orders).client_id)
        elif draw < 0.25 and orders:
            order = rng.choice(orders)
            context.replace(order.client_id, rng.randint(1, 300), max(1, order.price_ticks + rng.randint(-5, 5)))
        elif draw < 0.3 and orders:
            context.reduce(rng.choice(orders).client_id, rng.randint(1, 50))
        elif draw < 0.32:
            context.cancel_all()
        else:
            self._send(rng.choice(symbols))

    def _send(self, symbol: str) -> None:
        rng, quote = self._random, self.context.quote(symbol)
        self._orders += 1
        if self.parameters.fails_after and self._orders > self.parameters.fails_after:
            raise RuntimeError("as it was asked to")
        double_mid = None if quote is None else quote.double_mid_ticks
        mid = 10_000 if double_mid is None else double_mid // 2
        lots, price = rng.randint(1, 400), max(1, mid + rng.randint(-30, 30))
        send = self.context.buy if rng.random() < 0.5 else self.context.sell
        options = rng.choice(
            [
                OrderOptions(),
                OrderOptions(),
                OrderOptions(immediate=True),
                OrderOptions(post_only=True),
                OrderOptions(hidden=True),
                OrderOptions(display=max(1, lots // 4)),
                OrderOptions(immediate=True, minimum=max(1, lots // 2)),
                OrderOptions(stop_ticks=max(1, mid + rng.randint(-10, 10))),
                OrderOptions(expire_ns=self.context.now_ns + rng.randint(1, 3_000_000_000)),
                OrderOptions(auction=rng.choice(("open", "close", "halt"))),
            ]
        )
        send(symbol, lots, 0 if rng.random() < 0.1 and options == OrderOptions() else price, options=options)
