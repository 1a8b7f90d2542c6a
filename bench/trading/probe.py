"""The strategy that is timed: it sells at once to every bid for one symbol, at the bid's price."""

from __future__ import annotations

import msgspec

from algo_engine import Strategy, ViewChange


class ProbeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the strategy."""

    symbol: str = "PROBE"
    """Symbol that nobody else trades."""


class Probe(Strategy[ProbeParameters]):
    """Strategy that answers each bid with a sale that executes the bid."""

    parameters_type = ProbeParameters

    def on_view_change(self, change: ViewChange) -> None:
        """Sell to each new bid."""
        for row in change.added:
            if row["symbol"] == self.parameters.symbol and row["bid_price"] is not None:
                self.context.sell(self.parameters.symbol, row["bid_volume"], row["bid_price"])
