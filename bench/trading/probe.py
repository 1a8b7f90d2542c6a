"""The strategy that is timed: it sells to whoever bids for one symbol, at once and at his price."""

from __future__ import annotations

import msgspec

from algo_engine import Strategy, ViewChange


class ProbeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What can be set."""

    symbol: str = "PROBE"
    """Nobody else trades it."""


class Probe(Strategy[ProbeParameters]):
    """Answers each bid with the sale that executes it."""

    parameters_type = ProbeParameters

    def on_view_change(self, change: ViewChange) -> None:
        """A bid has come: sell what it wants."""
        for row in change.added:
            if row["symbol"] == self.parameters.symbol and row["bid_price"] is not None:
                self.context.sell(self.parameters.symbol, row["bid_volume"], row["bid_price"])
