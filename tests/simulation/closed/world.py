"""One seed: a random configuration, run twice."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from algo_engine.strategy import Strategy
from deltabook.backtest import Result
from deltabook.simulation import Simulation, SimulationConfig
from exchange_server.agents import PRESETS
from exchange_server.config import DEFAULT_INSTRUMENTS
from tests.simulation.closed.audit import check_accounts, check_journal, check_lots, check_market, inputs_of
from tests.simulation.closed.frantic import Frantic
from tests.simulation.trace import Trace

__all__ = ["World", "random_config"]

_BUILT_IN = ("market_maker", "sobi", "timed_sobi", "volatile_sobi", "market_players")
_LATENCIES = (
    "zero", "zero", "fixed:feed=300us,order=200us,answer=100us", "normal:feed=1ms~400us,order=2ms~1ms",
    "lognormal:feed=200us~2,order=300us~3,answer=200us~2", "distance:800km", "distance:4000km~300us",
)  # fmt: skip


def random_config(rng: random.Random) -> SimulationConfig:
    """Return a small random simulation that uses every feature."""
    strategies = tuple(rng.sample(_BUILT_IN, rng.choice((0, 0, 1, 1, 2))))
    if rng.random() < 0.6:
        strategies += ("Frantic",)
    length_s = rng.uniform(2.0, 6.0)
    halts: tuple[str, ...] = ()
    if rng.random() < 0.4:
        auction = rng.choice(("", "+300ms"))
        halts = (f"{rng.uniform(0.2, length_s - 1.2):.3f}s+{rng.uniform(0.1, 0.6):.3f}s{auction}",)
    parameters: tuple[str, ...] = ()
    if "Frantic" in strategies:
        given = [f"seed={rng.randrange(1000)}", f"interval_ms={rng.choice((7, 40, 150))}"]
        if rng.random() < 0.1:
            given.append(f"fails_after={rng.randrange(1, 40)}")
        parameters = tuple(f"Frantic.{each}" for each in given)
    named = {name: rng.choice(_LATENCIES) for name in strategies if rng.random() < 0.3}
    return SimulationConfig(
        strategies=strategies,
        hours=length_s / 3600,
        seed=rng.randrange(10_000),
        agents=rng.choice((*PRESETS, *PRESETS, "none")),
        rate_per_s=rng.choice((60.0, 160.0, 400.0)),
        agent_delay=rng.choice(("0us", "0us", "700us", "15ms")),
        instruments=DEFAULT_INSTRUMENTS[: rng.choice((1, 1, 2))],
        opening_s=rng.choice((0.0, 0.0, 0.7)),
        closing_s=rng.choice((0.0, 0.0, 0.7)),
        halts=halts,
        collar_bps=rng.choice((0, 0, 0, 50)),
        warm_up_s=rng.choice((0.0, 0.0, 0.5)),
        parameters=parameters,
        latency=rng.choice(_LATENCIES),
        latencies=named,
        compute=rng.choice(("0us", "0us", "50us", "2ms")),
        step_us=rng.choice((0, 0, 10_000)),
        fees=rng.choice(("", "maker=-20,taker=50")),
    )


class World:
    """Simulation over a journal and in memory, with the checks of both."""

    def __init__(self, seed: int, trace: Trace) -> None:
        self.config = random_config(random.Random(seed))
        self._trace = trace
        self._counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run both and check; raise `AssertionError` on a failure."""
        config, say = self.config, self._trace.say
        say("{}", config)
        with tempfile.TemporaryDirectory(prefix="deltabook-closed-") as folder:
            directory = Path(folder, "exchange")
            kept = self._result(directory)
            say("{}", kept)
            alone = self._result(None)
            assert alone.to_json() == kept.to_json(), "expected the same result with a journal and without"
            check_journal(directory, kept)
            rules, inputs = inputs_of(directory)
            check_lots(rules, inputs, is_over=not kept.failure)
            check_accounts(directory, kept)
            check_market(rules, inputs)
        self._count(kept)

    def _result(self, directory: Path | None) -> Result:
        classes: dict[str, type[Strategy[Any]]] = {"Frantic": Frantic}
        return Simulation(self.config, directory=directory, classes=classes).run()

    def _count(self, result: Result) -> None:
        f, counts, config = result.figures, self._counts, self.config
        counts["messages"] += f.feed_messages
        counts["trades"] += f.market_trades
        counts["own trades"] += f.own_trades
        counts["own orders"] += sum(strategy.orders.submitted for strategy in result.strategies)
        counts["strategies"] += len(result.strategies)
        counts["failures"] += sum(bool(strategy.failure) for strategy in result.strategies)
        counts["halts"] += len(config.halts)
        counts["auctions"] += bool(config.opening_s) + bool(config.closing_s)
        counts["delayed agents"] += config.agent_delay != "0us"

    def figures(self) -> Counter[str]:
        """See `tests.simulation.report.SeedWorld`."""
        return self._counts
