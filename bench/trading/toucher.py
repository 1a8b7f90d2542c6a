"""Strategy of the timed backtests, ours and those of the peers, which reads the best prices after every message."""

from __future__ import annotations

from algo_engine import NoParameters, Strategy, ViewChange

EVERY = 1_000


class Toucher(Strategy[NoParameters]):
    """Strategy that at every thousandth change of the best prices cancels its last order and bids one lot at the best
    bid."""

    def __init__(self, parameters: NoParameters) -> None:
        super().__init__(parameters)
        self.touches = 0
        self.orders = 0
        self._touch: tuple[int | None, int | None] = (None, None)

    def on_view_change(self, change: ViewChange) -> None:
        """Handle a change of the best quote: of its prices, or only of its volume."""
        for row in change.added:
            touch = (row["bid_price"], row["ask_price"])
            if touch == self._touch:
                continue
            self._touch = touch
            self.touches += 1
            if self.touches % EVERY == 0 and touch[0] is not None:
                self.context.cancel_all()
                self.context.buy(str(row["symbol"]), 1, touch[0])
                self.orders += 1
