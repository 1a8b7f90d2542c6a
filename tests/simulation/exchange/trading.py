"""Random requests of the simulation's traders."""

from __future__ import annotations

import random

from deltabook.wire import text
from tests.simulation.exchange.shape import Shape
from tests.simulation.exchange.traders import OuchTrader, TextTrader

__all__ = ["Trading"]


class Trading:
    """Random requests near one price, so that they meet each other."""

    def __init__(self, chance: random.Random, shape: Shape) -> None:
        self._chance = chance
        self._shape = shape

    def ask(self, trader: TextTrader | OuchTrader, now_s: float) -> None:
        """Let a trader send a random request."""
        if isinstance(trader, TextTrader):
            self._ask_in_text(trader, now_s)
        else:
            self._ask_in_ouch(trader)

    def symbol(self) -> str:
        """Return a random traded symbol."""
        return self._chance.choice(self._shape.rules.instruments).symbol

    def _price(self, side: str) -> int:
        return 100 + self._chance.choice((-3, -2, -2, -1, -1, 0, 1, 2)) * (1 if side == "B" else -1)

    def _ask_in_text(self, trader: TextTrader, now_s: float) -> None:
        chance = self._chance
        what = chance.random()
        if what < 0.3 and trader.live:
            order_id = chance.choice(trader.live)
            action = chance.choice("XDDU")
            price = self._price("B") if action == "U" else 0
            trader.ask(action, order_id, chance.randint(1, 8), price, self.symbol())
        elif what < 0.32:
            trader.ask("M", 0, 0, 0, chance.choice(("", self.symbol())))
        else:
            side = chance.choice("BS")
            options = text.PLAIN
            if chance.random() < 0.4:
                options = self._options(now_s)
            market = chance.random() < 0.08 and options == text.PLAIN
            trader.ask(side, 0, chance.randint(1, 12), 0 if market else self._price(side), self.symbol(), options)

    def _options(self, now_s: float) -> text.OrderOptions:
        chance = self._chance
        return chance.choice(
            (
                text.OrderOptions(immediate=True),
                text.OrderOptions(immediate=True, minimum=3),
                text.OrderOptions(post_only=True),
                text.OrderOptions(hidden=True),
                text.OrderOptions(display=2),
                text.OrderOptions(stop_ticks=chance.randint(98, 102)),
                text.OrderOptions(expire_ns=self._shape.start_ns + int((now_s + chance.random() * 20) * 1e9)),
                text.OrderOptions(auction=chance.choice(("open", "close", "halt"))),
                text.OrderOptions(hidden=True, display=2),
            )
        )

    def _ask_in_ouch(self, trader: OuchTrader) -> None:
        chance = self._chance
        what = chance.random()
        if what < 0.2 and trader.live:
            trader.cancel(chance.choice(trader.live), chance.choice((0, 0, 1, 3)))
        elif what < 0.35 and trader.live:
            trader.replace(chance.choice(trader.live), chance.randint(1, 12), self._price("B"))
        else:
            side = chance.choice("BS")
            trader.enter(
                side, chance.randint(1, 12), self._price(side), self.symbol(), immediate=chance.random() < 0.2,
                hidden=chance.random() < 0.1,
            )  # fmt: skip
