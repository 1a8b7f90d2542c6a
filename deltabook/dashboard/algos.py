"""Follows a process of strategies: how each stands, its orders and its fills."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from deltabook.dashboard.asking import Asker
from deltabook.dashboard.links import Link
from deltabook.dashboard.rounds import Rounds
from deltabook.wire.strategies import FILLS_PATH, ORDERS_PATH, STATUS_PATH, FillLine, Fills, Orders, Strategies

__all__ = ["MOST_FILLS", "Algos"]

_ROUND_S: Final = 0.3
_ORDERS_EVERY: Final = 3
"""Rounds between two looks at the orders."""
MOST_FILLS: Final = 2_000
"""That are kept, the newest of all strategies."""
_DAY_S: Final = 86_400.0
"""What a chart shows."""

_strategies: Final = msgspec.json.Decoder(Strategies)
_fills: Final = msgspec.json.Decoder(Fills)
_orders: Final = msgspec.json.Decoder(Orders)


class Algos:
    """One process. What it said last stays when it is lost."""

    def __init__(self, asker: Asker, link: Link, clock: Any, on_round: Callable[[], None]) -> None:
        self.link = link
        self.strategies: Strategies | None = None
        """None before it has answered."""
        self.orders = Orders(())
        self.fills: deque[FillLine] = deque(maxlen=MOST_FILLS)
        """Oldest first."""
        self._unplaced: deque[tuple[FillLine, bool]] = deque(maxlen=MOST_FILLS)
        """Fills that have no place in time yet, and whether they have come while this process was followed."""
        self._asker, self._on_round = asker, on_round
        self._run, self._after, self._round_number = "", 0, 0
        self._rounds = Rounds(clock, _ROUND_S, self._round, self._failed)

    def start(self) -> None:
        """Ask from now on."""
        self._rounds.start()

    def stop(self) -> None:
        """Ask no more."""
        self._rounds.stop()

    async def _round(self) -> None:
        report = _strategies.decode(await self._asker.ask(STATUS_PATH))
        if report.run != self._run:
            # Another process counts its fills anew; those of the last one are its trades no less, but not its figures.
            self._run, self._after = report.run, 0
            self.fills.clear()
            self._unplaced.clear()
            self._round_number = 0
        while report.last_fill > self._after:
            fills = _fills.decode(await self._asker.ask(f"{FILLS_PATH}?after={self._after}"))
            if fills.run != self._run or not fills.fills:
                break
            self.fills.extend(fills.fills)
            is_new = self.strategies is not None and self.strategies.run == self._run
            self._unplaced.extend((fill, is_new) for fill in fills.fills if fill.volume_lots > 0)
            self._after = max(fills.last, fills.fills[-1].number)
        if self._round_number % _ORDERS_EVERY == 0:
            self.orders = _orders.decode(await self._asker.ask(ORDERS_PATH))
        self._round_number += 1
        self.strategies = report
        self.link.up(report.up_s)
        self.link.live()
        self._on_round()

    def take_placed(self, market_s: float) -> list[tuple[FillLine, float]]:
        """Return the fills since the last call that have a place in market time, in seconds; oldest first.

        ``market_s`` is the market time of the runtime's views. They may count it otherwise than the exchange, from
        midnight: there a fill that has just come stands at the newest time, and one from before has no place.
        """
        placed: list[tuple[FillLine, float]] = []
        for fill, is_new in self._unplaced:
            time_s = fill.time_ns / 1e9
            if abs(market_s - time_s) <= _DAY_S:
                placed.append((fill, time_s))
            elif is_new:
                placed.append((fill, market_s))
        self._unplaced.clear()
        return placed

    def _failed(self, reason: str) -> None:
        self.link.lost(reason)
        self._on_round()
