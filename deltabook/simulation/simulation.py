"""One simulation: runs an exchange, agents and strategies as a configuration describes, and returns a result.

With `SimulationExperiment`, a sweep runs a simulation for each point. Its axes are the seed, settings of the market,
and parameters of strategies.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred, execute

from algo_engine.desk.fees import FREE, FeeSchedule, read_fees
from algo_engine.errors import AlgoError
from algo_engine.loader import LoadedStrategy, load_strategies
from algo_engine.strategy import Strategy
from algo_engine.views.quotes import QUOTE_VIEW
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.deltas import DeltaEncoder
from deltabook.backtest.errors import BacktestError, ConfigurationError
from deltabook.backtest.latency import parse_latency
from deltabook.backtest.recorder import Recorder
from deltabook.backtest.result import Result, Totals, result_of
from deltabook.backtest.views import BacktestViews, find_views, wanted_views
from deltabook.simulation.config import SimulationConfig, checked, exchange_config, parse_halt, parse_span_s
from deltabook.simulation.participant import Delays, Participant
from deltabook.simulation.publication import BookQuotes, FeedCounter, Publication, PublishedQuotes
from deltabook.simulation.venue import HaltOperator, JournalledVenue, MemoryVenue
from exchange_server.agents import AgentFlow
from exchange_server.config import ExchangeConfig, agent_instruments, rules_of
from exchange_server.day import Day, MarketClock
from exchange_server.errors import ExchangeError
from exchange_server.journal import Journal
from exchange_server.matching import MarketRules, Now
from exchange_server.outputs import encoders_of, protocols_of
from exchange_server.upkeep import JournalUpkeep
from runtime.native.cache import default_kernels
from runtime.relations.retention import Retention

__all__ = ["Simulation", "SimulationError", "SimulationExperiment"]


class SimulationError(BacktestError):
    """A simulation could not be run to its end; the message is one line a user can act on."""


_SECOND_NS: Final = 1_000_000_000
_COLLECT_AFTER: Final = 100_000
"""Number of new objects after which a garbage collection runs."""
_LATEST_CLOSE_NS: Final = _SECOND_NS
"""Longest wait for the end of the day after its last second, in nanoseconds."""
_END_NS: Final = 60 * _SECOND_NS
"""Longest wait for answers at the end, in nanoseconds of market time."""
_PIECE_NS: Final = _SECOND_NS
"""Market time between two checks for failures, and between two reports of progress, in nanoseconds."""


class Simulation:
    """An exchange, its background agents and strategies on one simulated clock; runs once.

    ``directory`` receives the journal and the feed that a live exchange would write, and must be new; without one
    nothing is stored. ``strategies`` replace those of the configuration; ``classes`` are the configuration's strategies
    that are in no file, by name. Raises `ConfigurationError`, or an `AlgoError` for files and parameters of strategies.

    >>> result = Simulation(SimulationConfig(("market_maker",), hours=0.002, seed=7)).run()
    >>> result.figures.feed_messages > 1000, result.strategies[0].orders.submitted > 0
    (True, True)
    """

    def __init__(
        self,
        config: SimulationConfig,
        *,
        directory: Path | None = None,
        strategies: Sequence[LoadedStrategy] | None = None,
        classes: Mapping[str, type[Strategy[Any]]] = MappingProxyType({}),
    ) -> None:
        self.config = config = checked(config)
        self._exchange_config = exchange_config(config, directory)
        if directory is not None and directory.exists() and any(directory.iterdir()):
            raise ConfigurationError(f"expected a new directory for the exchange, was {directory} with files in it")
        named = (classes.get(name, name) for name in config.strategies)
        self.loaded = list(load_strategies(named, config.parameters) if strategies is None else strategies)
        self._fees: FeeSchedule = read_fees(config.fees) if config.fees else FREE
        self.failure = ""
        """Reason why the simulation ended early, empty if it did not."""
        self._is_ending = False
        self.clock = SimulatedClock(config.begin_ns)
        self._end_ns = config.begin_ns + round(config.length_s * _SECOND_NS)
        self._elapsed_s = 0.0
        self._is_open = False
        self._assemble(directory)

    # -- parts ---------------------------------------------------------------------------------------------------

    def _assemble(self, directory: Path | None) -> None:
        config, given = self.config, self._exchange_config
        try:
            rules = rules_of(given)
        except ExchangeError as error:
            raise ConfigurationError(str(error)) from error
        now = Now()
        self.publication: Publication | None = None
        self._counter: DeltaEncoder | FeedCounter = FeedCounter()
        if self.loaded:
            retention = Retention(config.trades_rows, config.trades_time_s * _SECOND_NS)
            self._counter = encoder = DeltaEncoder(rules, now, retention)
            views = BacktestViews(find_views(*wanted_views(config.views, self.loaded)), default_kernels(), config.views)
            encoder.gives_time = views.reads_time
            views.await_kernels(config.hours * 3600 * config.rate_per_s)
            self.publication = Publication(views, encoder, self.clock, config.step_us * 1000)
        delays = self._delays()
        halts = [parse_halt(halt) for halt in config.halts]
        self.venue = self._open_venue(rules, now, directory)
        try:
            self._make_flows(given)
            self._operator = HaltOperator(self.venue, self.clock, halts, config.hours * 3600)
            self._make_participants(rules, delays)
        except BaseException:
            self.close()
            raise

    def _open_venue(self, rules: MarketRules, now: Now, directory: Path | None) -> JournalledVenue | MemoryVenue:
        market_clock = MarketClock(self.clock.seconds, self.config.begin_ns)
        if directory is None:
            return MemoryVenue(
                rules,
                market_clock,
                now,
                now_ns=self._now_ns,
                session=self.config.session,
                observer=self._counter,
                published=self._published,
            )
        given = self._exchange_config
        journal = Journal(directory, rules, lambda: given.session, given.fsync, keep=given.keep_snapshots or None)
        try:
            return JournalledVenue(
                journal,
                market_clock,
                encoders_of(rules, now, given.forms),
                protocols_of(rules),
                now,
                observers=[self._counter],
                published=self._published,
            )
        except BaseException:
            journal.close()
            raise

    def _make_flows(self, given: ExchangeConfig) -> None:
        """Create the background agents, the day's phases, and the snapshots of a journal."""
        delay_s = parse_span_s(self.config.agent_delay)
        self._flows: list[AgentFlow] = []
        if traded := agent_instruments(given):
            self._flows.append(
                AgentFlow(
                    self.venue,
                    traded,
                    self.clock,
                    settings=given.agent_settings,
                    seed=given.seed,
                    rate_per_s=given.rate_per_s,
                    stop=self._stop,
                    delay_s=(lambda: delay_s) if delay_s else None,
                )
            )
        self._day = Day(self.venue, self.clock, given.day, self._stop)
        self._upkeep: JournalUpkeep | None = None
        if isinstance(self.venue, JournalledVenue):
            self._upkeep = JournalUpkeep(
                self.venue,
                self.clock,
                self._stop,
                _at_once,
                sync_interval_s=None,
                snapshot_inputs=given.snapshot_inputs,
                snapshot_interval_s=given.snapshot_interval_s,
            )

    def _delays(self) -> list[Delays]:
        """Return the latencies and computation delays of all strategies, in their order."""
        config = self.config
        names = [loaded.name for loaded in self.loaded]
        for option, given in (("latency", config.latencies), ("computation delay", config.computes)):
            if unknown := sorted(set(given) - set(names)):
                raise ConfigurationError(
                    f"expected a {option} of one of {', '.join(names) or 'no strategies'}, was of {unknown[0]}"
                )
        parse_latency(config.latency)  # a model that no strategy uses is checked too
        return [
            Delays(
                parse_latency(config.latencies.get(name, config.latency), config.seed, place),
                round(parse_span_s(config.computes.get(name, config.compute)) * _SECOND_NS),
            )
            for place, name in enumerate(names)
        ]

    def _make_participants(self, rules: MarketRules, delays: Sequence[Delays]) -> None:
        config, publication = self.config, self.publication
        symbols = [instrument.symbol for instrument in rules.instruments]
        quotes = BookQuotes(self.venue.market) if publication is None else PublishedQuotes()
        self.recorder = Recorder(quotes, self._now_ns, symbols, config.points, config.orders_kept)
        self._quotes = quotes
        self.participants = [
            Participant(
                loaded,
                config.first_broker_id + number,
                venue=self.venue,
                publication=publication,
                clock=self.clock,
                delays=own,
                fees=self._fees,
                recorder=self.recorder,
                on_failure=self._failed,
            )
            for number, (loaded, own) in enumerate(zip(self.loaded, delays, strict=True))
            if publication is not None
        ]
        self.hosts = [participant.host for participant in self.participants]
        self.recorder.follow(self.hosts)

    # -- life ----------------------------------------------------------------------------------------------------

    def run(self, on_progress: Callable[[float, float], None] = lambda done_s, of_s: None) -> Result:
        """Run the whole day and return its result.

        ``on_progress`` is called with the seconds of market time that have passed, and with the day's length. Raises
        `SimulationError` if a journal cannot be written.
        """
        begin_s = time.perf_counter()
        with _few_collections():
            try:
                self.begin()
                while self.clock.now_ns < self._end_ns and not self.failure:
                    self.advance(min(self._end_ns, self.clock.now_ns + _PIECE_NS))
                    on_progress((self.clock.now_ns - self.config.begin_ns) / _SECOND_NS, self.config.length_s)
                self.end()
            finally:
                self.close()
        self._elapsed_s = time.perf_counter() - begin_s
        return self.result()

    def begin(self) -> None:
        """Open the exchange: agents and the day begin, strategies connect when the warm-up is over."""
        config, clock = self.config, self.clock
        self._is_open = True
        if self._upkeep is not None:
            self._upkeep.start()
        self._day.start()
        self._day.begin()
        for flow in self._flows:
            flow.start()
        self._operator.begin(config.begin_ns + round(config.opening_s * _SECOND_NS))
        if config.warm_up_s:
            self.advance(min(self._end_ns, clock.now_ns + round(config.warm_up_s * _SECOND_NS)))
        self.recorder.begin(clock.now_ns)
        if isinstance(self._quotes, PublishedQuotes) and self.publication is not None:
            rows, weights = self.publication.views.snapshot(QUOTE_VIEW)
            self._quotes.view_changed(self.publication.step, QUOTE_VIEW, rows, weights)
            self.publication.subscribers.append(self._quotes)
        for participant in self.participants:
            participant.open()
        clock.run_turn()
        self.recorder.sample()

    def advance(self, until_ns: int) -> None:
        """Advance the clock to a market time, with every call that is due by then.

        Raise `SimulationError` if the exchange cannot continue.
        """
        self.clock.advance(until_ns)

    def end(self) -> None:
        """Wait for the end of the day, stop the strategies, and wait until their orders are cancelled."""
        clock, books = self.clock, self.venue.market.books.values()
        latest_ns = clock.now_ns + _LATEST_CLOSE_NS
        while not self.failure and clock.next_ns <= latest_ns and any(book.phase != "closed" for book in books):
            clock.advance(clock.next_ns)
        self.recorder.sample()
        for flow in self._flows:
            flow.stop()
        self._day.stop()
        if self._upkeep is not None:
            self._upkeep.stop()
        self._is_ending = True
        for participant in self.participants:
            participant.engine.stop()
        clock.run_turn()
        latest_ns = clock.now_ns + _END_NS
        while clock.next_ns <= latest_ns and any(each.engine.open_orders() for each in self.participants):
            clock.advance(clock.next_ns)
        clock.run_turn()
        self.recorder.sample()
        if self._upkeep is not None:
            self._upkeep.finish()

    def close(self) -> None:
        """Close the journal, if there is one; a second call has no effect."""
        if isinstance(self.venue, JournalledVenue):
            self.venue.close()

    def result(self) -> Result:
        """Return the figures, curves, orders and trades up to now."""
        return result_of(
            self.config,
            recorder=self.recorder,
            hosts=self.hosts,
            totals=Totals(
                records=self.venue.inputs,
                feed_messages=self._counter.messages,
                market_trades=self._counter.trades,
                view_changes=sum(participant.engine.view_changes for participant in self.participants),
                dropped={},
            ),
            instruments=self.venue.market.rules.instruments,
            views=self.publication.views if self.publication is not None else None,
            sources=[],
            failure=self.failure,
            elapsed_s=self._elapsed_s,
        )

    @property
    def agent_turns(self) -> int:
        """Number of turns of the background agents; in a turn, an agent reads the books and may send requests."""
        return sum(flow.turns for flow in self._flows)

    # -- called by the parts -------------------------------------------------------------------------------------

    def _published(self) -> None:
        if self.clock.now_ns >= self.recorder.day_end_ns > 0:
            self.recorder.close_day()
        if self.publication is not None:
            self.publication.publish()
        if self.clock.now_ns >= self.recorder.next_ns > 0:
            self.recorder.sample()

    def _now_ns(self) -> int:
        return self.clock.now_ns

    def _stop(self, reason: str) -> None:
        """End the simulation, as the exchange cannot continue."""
        raise SimulationError(reason)

    def _failed(self, error: Exception) -> None:
        """Note the failure of a participant; the others continue, and the simulation ends when all have failed."""
        if not isinstance(error, AlgoError):
            raise error
        # A strategy that fails in `on_stop` has seen the whole day; its figures have the reason.
        if not self._is_ending and all(host.failure for host in self.hosts):
            self.failure = self.failure or str(error)


def _at_once(function: Callable[[], None]) -> Deferred[None]:
    return execute(function)


_kept_objects = 0
"""Number of objects after the last collection of all of them."""


@contextmanager
def _few_collections() -> Iterator[None]:
    """Exclude present objects from garbage collections, and collect seldom: nearly all objects of a simulation are
    freed by reference counts.

    Before that, all objects are collected if there are a quarter more than after the last such collection. Without this
    condition, consecutive simulations in a process with many other objects would mostly collect garbage.
    """
    global _kept_objects  # noqa: PLW0603 - a process has one collector, so it has one number
    before = gc.get_threshold()
    gc.freeze()
    if gc.get_freeze_count() > _kept_objects * 5 // 4:
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        _kept_objects = gc.get_freeze_count()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


_AGENTS: Final = "agents."
_FIELDS: Final = {
    "seed": "seed",
    "hours": "hours",
    "agents": "agents",
    "rate": "rate_per_s",
    "agent_delay": "agent_delay",
    "collar_bps": "collar_bps",
    "latency": "latency",
    "compute": "compute",
    "step_us": "step_us",
}
"""Field of the configuration for each axis."""


class SimulationExperiment:
    """Experiment whose runs are simulations, see `deltabook.backtest.sweep.Experiment`.

    An axis is a field of the configuration (``seed``, ``rate``, ``latency``, …), a setting of the agents
    (``agents.noise.market``), or else a parameter of a strategy.
    """

    config_type = SimulationConfig

    @staticmethod
    def run(config: SimulationConfig, classes: Mapping[str, type[Strategy[Any]]]) -> Result:
        """See `Experiment.run`."""
        return Simulation(config, classes=classes).run()

    @staticmethod
    def at(config: SimulationConfig, values: Sequence[tuple[str, str]]) -> SimulationConfig:
        """See `Experiment.at`."""
        fields: dict[str, Any] = {}
        settings, parameters = list(config.settings), list(config.parameters)
        for key, value in values:
            if key in _FIELDS:
                fields[_FIELDS[key]] = value
            elif key.startswith(_AGENTS):
                settings.append(f"{key.removeprefix(_AGENTS)}={value}")
            else:
                parameters.append(f"{key}={value}")
        return checked(
            msgspec.structs.replace(config, **fields, settings=tuple(settings), parameters=tuple(parameters))
        )

    @staticmethod
    def files(config: SimulationConfig) -> list[Path]:
        """See `Experiment.files`."""
        return [Path(config.agents)] if config.agents.endswith(".json") else []
