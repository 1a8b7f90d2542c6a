"""Latencies of messages: from the market to the views, from a strategy to the market, and of the answer.

===========================================  ========================================================================
``zero``                                     nothing takes any time: a strategy acts before the next message
``fixed:feed=100us,order=50us,answer=50us``  the same for every message
``normal:feed=100us~20us,…``                 normal with this mean and deviation, never below 0
``lognormal:feed=100us~1.5,…``               lognormal with this median, and this factor for one deviation
``distance:1200km~20us``                     time of light in fibre of this length, plus a jitter (optional)
``distance:feed=1200km,order=1200km~20us``   the same, with a distance for each way
``file:PATH``                                JSON ``{"feed": [ns, …], "order": […], "answer": […]}``: draws from these
===========================================  ========================================================================

A way that is left out takes no time. Units are ns, us, ms, s. Each way is a connection: a message never overtakes an
earlier one. Each way has its own seeded generator, so the draws for one way do not affect the draws for another.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from deltabook.backtest.errors import ConfigurationError
from deltabook.wire.strict_json import decode_strictly

__all__ = ["WAYS", "Latency", "NextPriceLatency", "Way", "parse_latency"]

Way = Literal["feed", "order", "answer"]
WAYS: Final[tuple[Way, ...]] = ("feed", "order", "answer")

_UNITS_NS: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_FIBRE_NS_PER_KM: Final = 4_897
"""Time of light in a kilometre of fibre, in nanoseconds; the refractive index is 1.468."""
_DISTANCE: Final = re.compile(r"([0-9]{1,6})km")
_TIME: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)(ns|us|ms|s)")
_NEVER_NS: Final = 1 << 62
"""Time of arrival of a message that never arrives, in nanoseconds."""
_QUOTES_NS: Final = 1_000
"""Time after a price, in nanoseconds, by which its quotes are in the market: the quotes are several records, a
nanosecond apart.
"""
_LONGEST_NS: Final = 3600 * 1_000_000_000
"""Longest latency in nanoseconds; a longer draw is cut to this length."""


class Latency:
    """Latency of one way: computes the time when a message arrives, never before the arrival of an earlier message."""

    def __init__(self, draw_ns: Callable[[], int] | None) -> None:
        """Make a way whose latencies ``draw_ns`` returns; None: messages take no time."""
        self._draw_ns = draw_ns
        self._last_ns = 0
        self.is_zero = draw_ns is None
        """True if messages arrive at once."""

    def arrival_ns(self, now_ns: int) -> int:
        """Return the time, in nanoseconds, at which a message that leaves at ``now_ns`` arrives."""
        if self._draw_ns is None:
            return now_ns
        self._last_ns = max(self._last_ns, now_ns + min(max(0, self._draw_ns()), _LONGEST_NS))
        return self._last_ns


class NextPriceLatency(Latency):
    """Latency of an order if the data has prices and no book: the order waits for the next price and its quotes."""

    def __init__(self, way: Latency, price_after: Callable[[int], int]) -> None:
        """Make a way whose latency ``way`` is applied first; ``price_after`` returns the time of the first price after
        a time, 0 if there is none.
        """
        super().__init__(None)
        self.is_zero = False
        self._way, self._price_after = way, price_after

    def arrival_ns(self, now_ns: int) -> int:
        """Return the arrival time, in nanoseconds, of a message that leaves at ``now_ns``; after the last price this is
        a time that is never reached.
        """
        price_ns = self._price_after(self._way.arrival_ns(now_ns))
        self._last_ns = max(self._last_ns, price_ns + _QUOTES_NS if price_ns else _NEVER_NS)
        return self._last_ns


def parse_latency(text: str, seed: int = 1, made: int = 0) -> dict[Way, Callable[[], Latency]]:
    """Return a factory of latencies for each way, from which every strategy gets latencies of its own; raise
    `ConfigurationError` for text that describes no latency.

    The seed, the way and the number of a latency determine its draws. Numbers begin after ``made``, the number of
    latencies of each way that exist already.

    >>> ways = parse_latency("fixed:order=50us")
    >>> ways["order"]().arrival_ns(1_000), ways["feed"]().is_zero
    (51000, True)
    """
    kind, _, rest = text.partition(":")
    if kind == "zero" and not rest:
        return {way: lambda: Latency(None) for way in WAYS}
    if kind == "file":
        return _measured(Path(rest), seed, made)
    if kind not in ("fixed", "normal", "lognormal", "distance") or not rest:
        raise ConfigurationError(
            f"expected a latency zero, fixed:…, normal:…, lognormal:…, distance:… or file:…, was {text!r}"
        )
    if kind == "distance" and "=" not in rest:
        return {way: _maker(kind, rest, seed, way, made) for way in WAYS}
    given: dict[str, str] = {}
    for part in rest.split(","):
        way, equals, value = part.partition("=")
        if way not in WAYS or not equals or way in given:
            raise ConfigurationError(f"expected each of {', '.join(WAYS)} once with its time, was {part!r} in {text!r}")
        given[way] = value
    return {way: _maker(kind, given.get(way), seed, way, made) for way in WAYS}


def _maker(kind: str, value: str | None, seed: int, way: Way, made: int) -> Callable[[], Latency]:
    if value is None:
        return lambda: Latency(None)
    middle, tilde, spread = value.partition("~")
    if kind == "distance":
        return _distant(middle, _time_ns(spread) if tilde else 0, seed, way, made)
    middle_ns = _time_ns(middle)
    if kind == "fixed":
        if tilde:
            raise ConfigurationError(f"expected a time as in 50us, was {value!r}")
        return lambda: Latency((lambda: middle_ns) if middle_ns else None)
    if kind == "normal":
        if not tilde:
            raise ConfigurationError(f"expected a mean and a deviation as in 50us~10us, was {value!r}")
        deviation_ns = _time_ns(spread)
        return _drawn(seed, way, made, lambda rng: round(rng.gauss(middle_ns, deviation_ns)))
    try:
        factor = float(spread)
    except ValueError:
        factor = 0.0
    if not (1 <= factor <= 1000 and middle_ns):
        raise ConfigurationError(f"expected a median and a factor from 1 to 1000 as in 100us~1.5, was {value!r}")
    sigma = math.log(factor)
    return _drawn(seed, way, made, lambda rng: round(middle_ns * math.exp(rng.gauss(0.0, sigma))))


def _distant(distance: str, jitter_ns: int, seed: int, way: Way, made: int) -> Callable[[], Latency]:
    """Return a factory of latencies: the time of light in fibre plus the absolute value of a normal draw."""
    match = _DISTANCE.fullmatch(distance)
    if match is None:
        raise ConfigurationError(f"expected a distance as in 1200km, was {distance!r}")
    travel_ns = int(match[1]) * _FIBRE_NS_PER_KM
    if jitter_ns:
        return _drawn(seed, way, made, lambda rng: travel_ns + round(abs(rng.gauss(0.0, jitter_ns))))
    return lambda: Latency((lambda: travel_ns) if travel_ns else None)


def _drawn(seed: int, way: str, made: int, draw: Callable[[random.Random], int]) -> Callable[[], Latency]:
    def maker() -> Latency:
        nonlocal made
        made += 1
        rng = random.Random(f"{seed}/{way}/{made}")  # a text, which seeds equally in every process
        return Latency(lambda: draw(rng))

    return maker


def _measured(path: Path, seed: int, made: int) -> dict[Way, Callable[[], Latency]]:
    try:
        given: Any = decode_strictly(path.read_bytes(), Any)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigurationError(f"expected a JSON file of latencies, was {error}, at {path}") from error
    if not isinstance(given, dict) or not given.keys() <= set(WAYS):
        raise ConfigurationError(f"expected an object with {', '.join(WAYS)} at {path}")
    makers: dict[Way, Callable[[], Latency]] = {}
    for way in WAYS:
        times = given.get(way, [])
        if not isinstance(times, list) or not all(type(t) is int and 0 <= t <= _LONGEST_NS for t in times):
            raise ConfigurationError(f"expected {way} to be a list of nanoseconds from 0 to an hour, at {path}")
        makers[way] = _chosen(seed, way, made, times) if times else lambda: Latency(None)
    return makers


def _chosen(seed: int, way: Way, made: int, times: list[int]) -> Callable[[], Latency]:
    return _drawn(seed, way, made, lambda rng: rng.choice(times))


def _time_ns(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"expected a time as in 50us or 1.5ms, was {text!r}")
    whole, _, part = match[1].partition(".")
    unit = _UNITS_NS[match[2]]
    time_ns = int(whole) * unit + (int(part) * unit // 10 ** len(part) if part else 0)
    if time_ns > _LONGEST_NS:
        raise ConfigurationError(f"expected a time of at most an hour, was {text!r}")
    return time_ns
