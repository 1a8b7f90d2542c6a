"""Settings of background agents, frozen.

Prices are in steps (`AgentSettings.step_bps` of the instrument's reference price, a tick at least), sizes in clips
(`AgentSettings.clip_lots` lots), durations in turns. A turn is one trader's chance to act, so a market at twice the
rate behaves in the same way, twice as fast.
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
    """Number of broker ids of the noise traders."""
    fleeting: Share = 0.2
    """Share of the noise traders' turns in which a fleeting order is placed or cancelled."""
    fleeting_orders: Count = 6
    """Largest number of live fleeting orders; the oldest is cancelled first."""
    inside: Share = 0.5
    """Share of the fleeting orders that improve the best price; the others join it."""
    odd: Share = 0.1
    """Share of the fleeting orders with a random size below a clip, mostly small; the others are of about a clip."""
    market: Share = 0.14
    """Share of the noise traders' turns in which a market order is sent."""
    market_clips: Positive = 0.4
    """Median size of the market orders, in clips; sizes are log-normal."""
    patient_orders: Count = 130
    """Average number of live patient orders; any of them may be cancelled at any time."""
    nearest_steps: Positive = 1.0
    """Smallest distance of a patient order from the middle, in steps; distances are log-uniform."""
    farthest_steps: Positive = 25.0
    """Greatest distance of a patient order from the middle, in steps."""
    patient_clips: Positive = 0.6
    """Median size of the patient orders, in clips."""
    size_spread: Weight = 0.8
    """Standard deviation of a size's logarithm."""


class MakerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Market makers: ladders of quotes on both sides of the price that each maker believes in."""

    weight: Weight = 0.25
    """Share of all turns; in a turn a maker moves one quote to its intended price."""
    brokers: Count = 2
    """Number of makers; each has a broker id of its own."""
    levels: Count = 5
    """Number of quotes of each maker on each side."""
    half_spread_steps: Positive = 2.0
    """Distance of the first quote from the believed price, in steps."""
    growth: Positive = 1.5
    """Factor by which the distance grows from one level to the next."""
    clips: Positive = 2.0
    """Size of a quote at distance 0, in clips; the size of a real quote grows with its distance."""
    clips_per_step: Weight = 0.12
    """Growth of the size for each step of distance, in clips."""
    learning: Share = 0.6
    """Share by which a revision narrows the gap between the believed price and the price implied by the last trade."""
    jitter_steps: Weight = 0.5
    """Standard deviation of the error of the believed price at each revision, in steps."""
    tolerance: Share = 0.4
    """Deviation from its intended price above which a quote is moved, as a share of the quote's distance."""


class MomentumSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Momentum traders: buy after a rise and sell after a fall."""

    weight: Weight = 0.02
    """Share of all turns."""
    brokers: Count = 1
    """Number of momentum traders; each has a broker id and averages of its own."""
    fast: Share = 0.2
    """Weight of the newest price in the fast average."""
    slow: Share = 0.02
    """Weight of the newest price in the slow average."""
    threshold_steps: Positive = 3.0
    """Smallest difference of the averages at which momentum traders trade, in steps."""
    clips: Positive = 0.5
    """Size of an order, in clips."""


class ValueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Informed traders, and the hidden value of the instrument that they know."""

    weight: Weight = 0.07
    """Share of all turns; informed traders do nothing in turns without enough gain."""
    brokers: Count = 2
    """Number of broker ids of the informed traders."""
    edge_steps: Weight = 1.0
    """Smallest gain per lot at which informed traders trade, in steps."""
    clips: Positive = 0.4
    """Largest size of an order for each step of gain, in clips."""
    volatility_steps: Weight = 0.25
    """Standard deviation of the value's move in a turn at median volatility, in steps."""
    volatility_spread: Weight = 0.7
    """Standard deviation of the logarithm of volatility; gives clusters and fat tails."""
    volatility_turns: Positive = 2_000.0
    """Number of turns in which a volatility cluster decays to a third."""
    jumps: Share = 0.0
    """Expected number of jumps of the value in a turn; a jump models news."""
    jump_steps: Positive = 20.0
    """Mean size of a jump in steps; sizes are exponentially distributed, and a jump may go in either direction."""
    return_turns: Positive = 100_000.0
    """Number of turns in which the value's distance from the reference price decays to a third."""


class LargeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Large traders: each hides a big order by slicing it, then rests, and begins another."""

    weight: Weight = 0.01
    """Share of all turns; in a turn a large trader checks if a slice is due."""
    brokers: Count = 1
    """Number of large traders; each has a broker id and a big order of its own."""
    style: Literal["twap", "pov"] = "twap"
    """Style of the slices: `twap` equal slices over time, `pov` a share of the volume."""
    clips: Positive = 60.0
    """Mean size of a big order in clips; sizes are exponentially distributed."""
    slices: Count = 40
    """TWAP: number of slices."""
    turns: Count = 100
    """Number of the trader's turns over which TWAP spreads the slices; also the mean rest between two big orders."""
    participation: Share = 0.1
    """POV: share of the lots that the other agents take."""


class ActivitySettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bursts: the rate of all agents together rises and falls around its mean."""

    spread: Annotated[float, msgspec.Meta(ge=0, le=2)] = 0.0
    """Standard deviation of the logarithm of the rate; 0: requests come evenly."""
    turns: Positive = 800.0
    """Number of turns at the mean rate in which a burst decays to a third."""


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Settings of all agents of an exchange; each symbol has its own agents, with the same settings."""

    step_bps: Positive = 2.0
    """Price step, in hundredths of a percent of the instrument's reference price; at least a tick."""
    clip_lots: Annotated[int, msgspec.Meta(ge=1, le=10**15)] = 100
    """Usual size of an order, in lots."""
    noise: NoiseSettings = NoiseSettings()
    makers: MakerSettings = MakerSettings()
    momentum: MomentumSettings = MomentumSettings()
    value: ValueSettings = ValueSettings()
    large: LargeSettings = LargeSettings()
    activity: ActivitySettings = ActivitySettings()

    def check(self) -> None:
        """Raise `ExchangeConfigurationError` for settings that contradict each other."""
        weights = [self.noise.weight, self.makers.weight, self.momentum.weight, self.value.weight, self.large.weight]
        if not sum(weights) > 0:
            raise ExchangeConfigurationError("expected an agent with a weight above 0, were none")
        if not self.makers.weight > 0:
            raise ExchangeConfigurationError(
                "expected makers with a weight above 0, which fill an empty book, were none"
            )
        if self.noise.fleeting + self.noise.market > 1:
            total = self.noise.fleeting + self.noise.market
            raise ExchangeConfigurationError(f"expected fleeting + market of at most 1, was {total:g}")
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
    # Each of the eight traders has an eighth of the turns, so one update of its averages counts for eight turns.
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
"""Settings by name.

`lively` is a shallow book with many trades and occasional imbalance, for strategies; `calm` is `lively` with an
eighth of its moves, for people to watch; `calibrated` resembles half an hour of BTC/USD (docs/market.md); `day` is
`calibrated` with 200 brokers in place of 14, for simulated days.
"""
