"""Observation of a market, second by second, while agents trade in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from deltabook.facts import FeedObserver, Observation
from deltabook.wire.symbols import Instrument
from exchange_server.agents import AgentFlow, AgentSettings
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, Replace
from exchange_server.matching.market import Market

__all__ = ["REQUESTS_PER_S", "Venue", "watch_agents"]

REQUESTS_PER_S: Final = 160.0
"""Requests per second of agents on one symbol, as many as in the recording."""

_WARM_S: Final = 100
_SECOND_NS: Final = 10**9


class Venue:
    """A market in this process, without a journal."""

    def __init__(self, instruments: Sequence[Instrument]) -> None:
        self.counting = FeedObserver()
        self.market = Market(MarketRules(instruments=tuple(instruments)), (self.counting,))
        self.inputs = 0
        self.time_ns = _SECOND_NS
        self.seen: list[AnyInput] | None = None
        """Inputs that were submitted, if they are to be collected, else None."""
        self.cpu_s = 0.0
        """Processor time of the market alone, in seconds."""

    def next_time_ns(self, at_least_ns: int = 0, count: int = 1) -> int:
        """Reserve ``count`` times later than all earlier ones; return the first."""
        first_ns = max(at_least_ns, self.time_ns + 1)
        self.time_ns = first_ns + count - 1
        return first_ns

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        """Apply a batch."""
        start_s = time.thread_time()
        answers = [self.market.apply(item) for item in batch]
        self.cpu_s += time.thread_time() - start_s
        self.inputs += len(batch)
        if self.seen is not None:
            self.seen += batch
        return answers


def watch_agents(name: str, settings: AgentSettings, seconds: int, seed: int) -> Observation:
    """Observe agents on one symbol, in batches every 10 ms as at the exchange."""
    instrument = Instrument("ACME")
    venue = Venue([instrument])
    flow = AgentFlow(
        venue, [instrument], None, settings=settings, seed=seed, rate_per_s=REQUESTS_PER_S, stop=_fail
    )  # fmt: skip
    book, counting = venue.market.books["ACME"], venue.counting
    seen = Observation(name, flow.populations[0].view.step)
    due = 0.0
    for turn in range(-_WARM_S * 100, seconds * 100):
        if not turn:
            before = venue.market.orders, venue.market.trades, counting.added_orders, counting.deleted_orders
            venue.seen = []
        due += REQUESTS_PER_S / 100
        flow.step(int(due))
        due -= int(due)
        if turn >= 0 and not turn % 100:
            seen.record(book, turn // 100, venue.market.trades)
    seen.sizes = [item.volume for item in venue.seen or () if isinstance(item, Enter | Replace)]
    seen.orders, seen.trades = venue.market.orders - before[0], venue.market.trades - before[1]
    seen.added, seen.deleted = counting.added_orders - before[2], counting.deleted_orders - before[3]
    return seen


def _fail(reason: str) -> None:
    raise RuntimeError(reason)
