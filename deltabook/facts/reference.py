"""Reference figures: half an hour of BTC/USD on Bitstamp, as `watch_capture` measures them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from deltabook.facts.figures import BANDS, MORE_ROWS, ROWS
from deltabook.facts.observation import Observation

__all__ = ["RECORDED", "Fact", "facts_of"]

RECORDED: Final[Mapping[str, float]] = MappingProxyType(
    {
        "spread, median, steps": 3.0,
        "spread, 5 %": 1.0,
        "spread, 95 %": 7.0,
        "depth of a side within 8 steps, clips": 23.02,
        "depth within 32 steps": 130.5,
        "depth within 128 steps": 382.4,
        "depth within 512 steps": 866.1,
        "orders for one trade": 12.42,
        "orders cancelled, of those displayed": 0.9647,
        "size of an order, 10 %, clips": 0.2472,
        "size, 90 %": 2.143,
        "size, 99 %": 15.31,
        "trades in a second, variance ÷ mean": 8.69,
        "move in 1 s, standard deviation, steps": 2.088,
        "move in 10 s, standard deviation": 7.684,
        "kurtosis of moves in 1 s": 169.0,
        "kurtosis of moves in 10 s": 17.35,
        "seconds without a move": 0.7241,
        "autocorrelation of moves, 1 s later": 0.2551,
        "autocorrelation of moves, 2 to 10 s later, greatest": 0.02855,
        "autocorrelation of their size, 1 s later": 0.3395,
        "autocorrelation of their size, 2 to 5 s later, mean": 0.08839,
        "orders in a second, variance ÷ mean": 29.24,
        "time between orders, median ÷ mean": 0.7174,
        "impact: move for each clip bought net in a second, steps": 0.0261,
        "correlation of lots bought net with the move": 0.07008,
    }
)
"""Figure → value; a step is a dollar, a clip 0.07 BTC (docs/market.md)."""


class Fact(msgspec.Struct, frozen=True):
    """One figure of a market beside the recording's."""

    name: str
    """Name of the figure."""
    value: float
    """Figure of the market."""
    recorded: float
    """Figure of the recording."""
    band: str
    """Band around the recorded value."""
    is_within: bool
    """True if the value is in the band."""


def facts_of(seen: Observation) -> list[Fact]:
    """Return all figures of an observation."""
    facts = []
    for name, figure in {**ROWS, **MORE_ROWS}.items():
        value, band = figure(seen), BANDS[name]
        facts.append(Fact(name, value, RECORDED[name], str(band), band.holds(value, RECORDED[name])))
    return facts
