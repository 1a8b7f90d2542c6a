"""Settings of background agents, frozen.

Prices are in steps (`AgentSettings.step_bps` of the instrument's reference price, a tick at least), sizes in clips
(`AgentSettings.clip_lots` lots), durations in turns: a turn is one trader's chance to act, so that a market at twice
the rate lives twice as fast and looks the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec
from msgspec.structs import replace

from exchange_server.errors import ExchangeConfigurationError

__all__ = [
    "PRESETS",
    "ActivitySettings",
    "AgentSettings",
    "LargeSettings",
    "MakerSettings",
    "MomentumSettings",
    "NoiseSettings",
    "ValueSettings",
]

Weight = Annotated[float, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Positive = Annotated[float, msgspec.Meta(gt=0)]
Count = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class NoiseSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Zero-intelligence flow: fleeting orders at the touch, patient ones in the depth, market orders."""

    weight: Weight = 0.66
    """Share of all turns."""
    brokers: Count = 7
    """Broker ids that it appears under."""
    fleeting: Share = 0.2
    """Share of its turns that place a fleeting order, or cancel one."""
    fleeting_orders: Count = 6
    """Fleeting orders that are live at once; the oldest goes first."""
    inside: Share = 0.5
    """Share of the fleeting orders that better the touch; the others join it."""
    odd: Share = 0.1
    """Share of the fleeting orders of any size below a clip; the others have about that of a clip."""
    market: Share = 0.14
    """Share of its turns that send a market order."""
    market_clips: Positive = 0.4
    """Median of their sizes; those are log-normal."""
    patient_orders: Count = 130
    """Patient orders that are live at once, on average; any of them may be cancelled at any time."""
    nearest_steps: Positive = 1.0
    """Least distance of a patient order from the middle; distances are log-uniform."""
    farthest_steps: Positive = 25.0
    """Greatest distance."""
    patient_clips: Positive = 0.6
    """Median of their sizes."""
    size_spread: Weight = 0.8
    """Standard deviation of a size's logarithm."""


class MakerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Market makers: ladders of quotes on both sides of what each believes the price to be."""

    weight: Weight = 0.25
    """Share of all turns; in one a maker brings one quote to where it should stand."""
    brokers: Count = 2
    """How many there are; each is a broker of its own."""
    levels: Count = 5
    """Quotes of each on a side."""
    half_spread_steps: Positive = 2.0
    """Distance of the first quote from the believed price."""
    growth: Positive = 1.5
    """Each level is so many times as far away as the one before."""
    clips: Positive = 2.0
    """Size of the first quote."""
    clips_per_step: Weight = 0.12
    """Growth of the size for each step of distance."""
    learning: Share = 0.6
    """Part of the way that the believed price goes, at each look, to where the last trade would not surprise."""
    jitter_steps: Weight = 0.5
    """Standard deviation of what it is mistaken by at each look."""
    tolerance: Share = 0.4
    """Part of its distance by which a quote may be wrong before it is moved."""


class MomentumSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Buys what has risen and sells what has fallen."""

    weight: Weight = 0.02
    """Share of all turns."""
    brokers: Count = 1
    """How many there are; each is a broker of its own, with averages of its own."""
    fast: Share = 0.2
    """Weight of the newest price in the fast average."""
    slow: Share = 0.02
    """Weight of the newest price in the slow one."""
    threshold_steps: Positive = 3.0
    """Difference of the averages from which on it trades."""
    clips: Positive = 0.5
    """Size of an order."""


class ValueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Informed traders, and the hidden value of the instrument that they know."""

    weight: Weight = 0.07
    """Share of all turns; they pass when there is nothing to gain."""
    brokers: Count = 2
    """Broker ids that they appear under."""
    edge_steps: Weight = 1.0
    """Gain a lot from which on they trade."""
    clips: Positive = 0.4
    """Largest size of an order for each step of gain."""
    volatility_steps: Weight = 0.25
    """Standard deviation of the value's move in a turn, when volatility is at its median."""
    volatility_spread: Weight = 0.7
    """Standard deviation of the logarithm of volatility: clusters, and fat tails."""
    volatility_turns: Positive = 2_000.0
    """Turns in which a cluster fades to a third."""
    jumps: Share = 0.0
    """Jumps of the value in a turn: news."""
    jump_steps: Positive = 20.0
    """Mean size of a jump; exponential, either way."""
    return_turns: Positive = 100_000.0
    """Turns in which a distance from the reference price shrinks to a third: prices do not wander off."""


class LargeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Large traders: each hides a big order by slicing it, then rests, and begins another."""

    weight: Weight = 0.01
    """Share of all turns; in one it looks whether a slice is due."""
    brokers: Count = 1
    """How many there are; each is a broker of its own, with a big order of its own."""
    style: Literal["twap", "pov"] = "twap"
    """Equal slices over time, or a part of the volume."""
    clips: Positive = 60.0
    """Mean size of the whole; exponential."""
    slices: Count = 40
    """TWAP: into how many."""
    turns: Count = 100
    """Number of its own turns over which TWAP spreads the slices; also the mean rest between two big orders."""
    participation: Share = 0.1
    """POV: its part of the lots that the other agents send to take."""


class ActivitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bursts: the rate of all agents together rises and falls around its mean."""

    spread: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    """Standard deviation of the logarithm of the rate; 0: requests come evenly."""
    turns: Positive = 800.0
    """Turns at the mean rate in which a burst fades to a third."""


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All agents of an exchange; each symbol has its own, alike."""

    step_bps: Positive = 2.0
    """A step of prices, in hundredths of a percent of the instrument's reference price; a tick at least."""
    clip_lots: Annotated[int, msgspec.Meta(ge=1, le=10**15)] = 100
    """A usual order."""
    noise: NoiseSettings = NoiseSettings()
    makers: MakerSettings = MakerSettings()
    momentum: MomentumSettings = MomentumSettings()
    value: ValueSettings = ValueSettings()
    large: LargeSettings = LargeSettings()
    activity: ActivitySettings = ActivitySettings()

    def check(self) -> None:
        """Raises `ExchangeConfigurationError` for settings that contradict each other."""
        weights = [self.noise.weight, self.makers.weight, self.momentum.weight, self.value.weight, self.large.weight]
        if not sum(weights) > 0:
            raise ExchangeConfigurationError("expected an agent with a weight above 0, were none")
        if not self.makers.weight > 0:
            raise ExchangeConfigurationError(
                "expected makers with a weight above 0, which fill an empty book, were none"
            )
        if self.noise.fleeting + self.noise.market > 1:
            total = self.noise.fleeting + self.noise.market
            raise ExchangeConfigurationError(f"expected fleeting and market orders of 1 in sum at most, was {total:g}")
        if self.noise.farthest_steps < self.noise.nearest_steps:
            raise ExchangeConfigurationError(
                f"expected farthest_steps of at least {self.noise.nearest_steps:g}, was {self.noise.farthest_steps:g}"
            )


_CALIBRATED: Final = AgentSettings(
    noise=NoiseSettings(
        weight=0.65, fleeting=0.92, fleeting_orders=1, inside=0.18, odd=0.18, market=0.004, market_clips=0.1,
        patient_orders=280, nearest_steps=16, farthest_steps=800, patient_clips=1.9, size_spread=1.5,
    ),
    makers=MakerSettings(
        weight=0.28, brokers=3, levels=8, half_spread_steps=1.6, growth=1.45, clips=0.7, clips_per_step=0.07,
        learning=0.9, jitter_steps=0.5, tolerance=0.9,
    ),
    momentum=MomentumSettings(weight=0.005, threshold_steps=4, clips=1),
    value=ValueSettings(
        weight=0.06, edge_steps=1, clips=0.6, volatility_steps=0.045, volatility_spread=1.4, volatility_turns=1000,
        jumps=1e-5, jump_steps=25,
    ),
    large=LargeSettings(weight=0.005, clips=40, slices=40, turns=100),
)  # fmt: skip

_BY_EIGHT: Final = 8
_DAY: Final = replace(
    _CALIBRATED,
    noise=replace(_CALIBRATED.noise, brokers=151),
    value=replace(_CALIBRATED.value, brokers=30),
    # Each of eight has an eighth of the turns of one: its averages take in eight turns at once.
    momentum=replace(
        _CALIBRATED.momentum, brokers=_BY_EIGHT,
        fast=1 - (1 - _CALIBRATED.momentum.fast) ** _BY_EIGHT, slow=1 - (1 - _CALIBRATED.momentum.slow) ** _BY_EIGHT,
    ),
    large=replace(_CALIBRATED.large, brokers=_BY_EIGHT),
)  # fmt: skip
_CALM: Final = AgentSettings(value=ValueSettings(volatility_steps=0.06, volatility_spread=0.4))
PRESETS: Final[Mapping[str, AgentSettings]] = MappingProxyType(
    {
        "lively": AgentSettings(),
        "calm": _CALM,
        "calibrated": _CALIBRATED,
        "day": _DAY,
    }
)
"""By name: `lively` is a shallow book that trades a lot and leans now and then, for strategies to act on; `calm` is
the same with an eighth of its moves, for people to look at; `calibrated` looks like half an hour of BTC/USD
(docs/market.md); `day` is `calibrated` with 200 brokers in place of 14, for simulated days."""
