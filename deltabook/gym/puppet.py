"""The strategy that an environment's actions move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from algo_engine.order import OrderEvent
from algo_engine.strategy import NoParameters, Strategy

__all__ = ["Puppet"]


class Puppet(Strategy[NoParameters]):
    """Keeps account of its fills and otherwise does what it is called for through its context."""

    def __init__(self, views: tuple[str, ...], queries: Mapping[str, str]) -> None:
        super().__init__(NoParameters())
        self.views, self.queries = views, queries
        self.cash = 0
        """Ticks × lots received less those paid, and fees."""
        self.position_lots = 0
        """Bought less sold."""
        self.filled_lots = 0
        """Bought and sold."""

    def on_order_event(self, event: OrderEvent) -> None:
        """Book an execution."""
        if event.is_fill:
            sign: Any = event.order.side.sign
            self.cash -= sign * event.volume_lots * event.price_ticks + event.fee
            self.position_lots += sign * event.volume_lots
            self.filled_lots += event.volume_lots
