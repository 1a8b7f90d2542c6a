"""Which strategies are played, with which parameters, against which recording."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

__all__ = ["CASES", "LATENCY", "SNAPSHOT_RECORDS", "Case", "Recording"]

Recording = Literal["capture", "trace"]

LATENCY: Final = "fixed:feed=1ms,order=5ms,answer=5ms"
"""Of a program not far from the exchange."""
SNAPSHOT_RECORDS: Final = 6_512
"""The capture begins with so many orders that stood there before: strategies see nothing until they are entered."""


class Case(msgspec.Struct, frozen=True):
    """One strategy as it is played."""

    strategy: str
    """Built-in name."""
    parameters: tuple[str, ...] = ()
    """``field=value`` for those that are not left at their defaults."""

    @property
    def name(self) -> str:
        """Of its picture: that of the strategy where nothing is set."""
        return "_".join([self.strategy, *(each.replace("=", "") for each in self.parameters)]).replace(".", "")

    @property
    def title(self) -> str:
        """As the tables have it."""
        return " ".join([f"`{self.strategy}`", *(f"`{each}`" for each in self.parameters)])


CASES: Final = (
    Case("sobi"),
    Case("sobi", ("depth_bps=10", "factor=1.2")),
    Case("volatile_sobi", ("depth_bps=100",)),
    Case("timed_sobi"),
    Case("market_players"),
    Case("market_maker"),
)
"""None of them was chosen by what it earned; a narrower depth is there because whole books of coins say nothing."""
