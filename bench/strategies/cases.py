"""Cases: strategies with their parameters."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["CASES", "LATENCY", "SNAPSHOT_RECORDS", "Case", "Recording"]

Recording = Literal["capture", "trace"]

LATENCY: Final = "fixed:feed=1ms,order=5ms,answer=5ms"
"""Latency of a program close to the exchange."""
SNAPSHOT_RECORDS: Final = 6_512
"""Number of orders that were live before the capture began; strategies see nothing until these orders are entered."""


class Case(msgspec.Struct, frozen=True):
    """One strategy with its parameters."""

    strategy: str
    """Built-in name."""
    parameters: tuple[str, ...] = ()
    """Parameters that differ from their defaults, as ``field=value``."""

    @property
    def name(self) -> str:
        """Name of the case's plot: the name of the strategy, followed by the parameters."""
        return "_".join([self.strategy, *(each.replace("=", "") for each in self.parameters)]).replace(".", "")

    @property
    def title(self) -> str:
        """Title in the tables."""
        return " ".join([f"`{self.strategy}`", *(f"`{each}`" for each in self.parameters)])


CASES: Final = (
    Case("sobi"),
    Case("sobi", ("depth_bps=10", "factor=1.2")),
    Case("volatile_sobi", ("depth_bps=100",)),
    Case("timed_sobi"),
    Case("market_players"),
    Case("market_maker"),
)
"""Cases, none of which was chosen by its profit. Some use a part of the book near the best price, since the whole book
of a coin carries no information.
"""
