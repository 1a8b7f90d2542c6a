"""A backtest: plays recorded files to strategies, as a configuration describes, and returns a result."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from types import MappingProxyType
from typing import Any, Final, Literal

from algo_engine.desk.fees import FREE, FeeSchedule, read_fees
from algo_engine.errors import AlgoError
from algo_engine.loader import LoadedStrategy, load_strategies
from algo_engine.strategy import Strategy
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import Quotes
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.config import BacktestConfig
from deltabook.backtest.deltas import Delta, DeltaEncoder
from deltabook.backtest.errors import BacktestError, ConfigurationError
from deltabook.backtest.flow import Flow
from deltabook.backtest.hosting import SimulatedSession, simulated_engine, simulated_host
from deltabook.backtest.latency import Latency, NextPriceLatency, parse_latency
from deltabook.backtest.native_loop import NativeLoop
from deltabook.backtest.recorder import Recorder
from deltabook.backtest.result import Result, Totals, result_of
from deltabook.backtest.simulation import BacktestLoop
from deltabook.backtest.views import BacktestViews, Change, RunViews, find_views, wanted_views
from deltabook.wire.results import FrameHeader
from deltabook.wire.symbols import Instrument
from exchange_server.matching import Market, MarketRules, Now
from exchange_server.replay import Record
from exchange_server.text.protocol import TextProtocol
from runtime.native.cache import default_kernels
from runtime.relations.retention import Retention

__all__ = ["Backtest"]

MarketKind = Literal["native", "interpreted", "python"]
_SECOND_NS: Final = 1_000_000_000
_COLLECT_AFTER: Final = 100_000
"""Number of new objects after which Python's garbage collector runs."""
_FEW_RECORDS: Final = 20_000
"""Number of records below which a run does not wait for kernels to be compiled."""
_LONGEST_WAIT_S: Final = 60.0
"""Longest time, in seconds, that a run waits for kernels; the kernels of the shipped views take about 2 s, once."""
_END_NS: Final = 60 * _SECOND_NS
"""Market time, in nanoseconds, within which resting orders must be cancelled at the end."""


class _RunMirror(ViewMirror):
    """Mirror that keeps the views of the start, since they are shown only once."""

    lasting: frozenset[str] = frozenset()

    def forget(self, view: str) -> None:
        """See `ViewMirror.forget`."""
        if view not in self.lasting:
            super().forget(view)


class Backtest:
    """Run of strategies against recorded flow, for the library and for `deltabook backtest`; an object runs once.

    ``records`` and ``strategies`` replace the configuration's files and names. The records must be in order of time,
    and ``instruments`` are the instruments of the records. ``classes`` are the configuration's strategies that are in
    no file, by name. ``market`` determines what plays the records: the compiled kernel, the interpreted kernel, or the
    exchange's market in Python; the result is the same. Raises `ConfigurationError`, or an `AlgoError` for files and
    parameters of strategies.

    >>> from exchange_server.replay import Record
    >>> flow = [Record(1, 10, 1, 7, "B", 5, 100, "ACME"), Record(2, 20, 2, 8, "S", 5, 102, "ACME")]
    >>> result = Backtest(BacktestConfig(("market_maker",)), records=flow, instruments=(Instrument("ACME"),)).run()
    >>> result.figures.records
    2
    """

    def __init__(
        self,
        config: BacktestConfig,
        *,
        records: Iterable[Record] | None = None,
        strategies: Sequence[LoadedStrategy] | None = None,
        classes: Mapping[str, type[Strategy[Any]]] = MappingProxyType({}),
        instruments: Sequence[Instrument] = (),
        market: MarketKind = "native",
    ) -> None:
        self.config = config
        self._market_kind = market
        self._flow = (
            Flow(config.data, config.limit_records, max_crossed_percent=config.max_crossed_percent)
            if records is None
            else None
        )
        self._records: Iterable[Record] = records if self._flow is None else self._flow  # type: ignore[assignment]
        self._instruments = tuple(instruments) if self._flow is None else self._flow.instruments
        if not self._instruments:
            raise ConfigurationError("expected instruments that the records trade, was none")
        named = (classes.get(name, name) for name in config.strategies)
        self.loaded = list(strategies or load_strategies(named, config.parameters))
        self._fees: FeeSchedule = read_fees(config.fees) if config.fees else FREE
        self.failure = ""
        """Reason why the run ended before the end of its data; empty if it did not."""
        self._started = self._is_stopping = False
        self._assemble()

    def _assemble(self) -> None:
        config = self.config
        rules = MarketRules(self._instruments, outlier_factor=self._flow.outlier_factor if self._flow else 0)
        now, clock = Now(), SimulatedClock()
        retention = Retention(config.trades_rows, config.trades_time_s * _SECOND_NS)
        self.encoder = DeltaEncoder(rules, now, retention)
        self.market = Market(rules, (self.encoder,), (TextProtocol(rules),), now)
        latency = parse_latency(config.latency, config.seed)
        self.clock = clock
        self.simulation = BacktestLoop(
            self.market, self.encoder, clock, latency["feed"](), step_ns=config.step_us * 1000, on_deltas=self._step
        )
        self._mirror = mirror = _RunMirror()
        quotes = Quotes()
        self.recorder = Recorder(
            quotes, self._now_ns, [i.symbol for i in self._instruments], config.points, config.orders_kept
        )
        self.hosts = [
            simulated_host(
                loaded,
                config.first_broker_id + number,
                mirror=mirror,
                quotes=quotes,
                clock=clock,
                now_ns=self._now_ns,
                recorder=self.recorder,
                fees=self._fees,
                on_failure=self._fail,
            )
            for number, loaded in enumerate(self.loaded)
        ]
        self.recorder.follow(self.hosts)
        self._kernels = None if self._market_kind == "interpreted" else default_kernels()
        self.views = BacktestViews(find_views(*wanted_views(config.views, self.loaded)), self._kernels, config.views)
        mirror.lasting = frozenset(self.views.columns)
        self.engine = simulated_engine(
            self.hosts,
            mirror=mirror,
            quotes=quotes,
            clock=clock,
            on_failure=self._fail,
            view_link=RunViews(self, self.views.columns),
        )
        self.encoder.gives_time = self.views.reads_time
        self._columns = self.views.columns
        self._number = 0
        self._sessions = [
            SimulatedSession(host.desk, self.simulation, self._order_latency(latency["order"]()), latency["answer"]())
            for host in self.hosts
        ]

    def _order_latency(self, latency: Latency) -> Latency:
        flow = self._flow
        if flow is None or not flow.fills_at_next_price:
            return latency
        return NextPriceLatency(latency, flow.price_after)

    def run(self) -> Result:
        """Play all records and return the result; raise `BacktestError` if there is no usable record."""
        with _few_collections():
            return self._run()

    def _run(self) -> Result:
        begin_s = time.perf_counter()
        records = iter(self._records)
        # For an order that waits for the next price, the file is searched from the position up to which it has been
        # read. So no record may be read before it is played.
        waits = self._flow is not None and self._flow.fills_at_next_price
        beginning = list(islice(records, 1 if waits else _FEW_RECORDS))
        if not beginning:
            symbols = ", ".join(each.symbol for each in self._instruments)
            raise BacktestError(f"expected data of {symbols} to play, was none that can be used")
        self.clock.begin(beginning[0].time_ns)
        if not waits:
            self._choose_market(is_short=len(beginning) < _FEW_RECORDS)
        simulation, warm_up = self.simulation, self.config.warm_up_records
        flow = chain(beginning, records)
        if warm_up:
            simulation.play(flow, warm_up)
        self._start()
        simulation.play(flow)
        self._stop()
        return self._result(time.perf_counter() - begin_s)

    def _result(self, elapsed_s: float) -> Result:
        market, encoder = self.market, self.encoder
        return result_of(
            self.config,
            recorder=self.recorder,
            hosts=self.hosts,
            totals=Totals(
                records=self.simulation.records,
                feed_messages=encoder.messages,
                market_trades=encoder.trades,
                view_changes=self.engine.view_changes,
                dropped=dict(sorted(market.replay_counts.items())),
            ),
            instruments=market.rules.instruments,
            views=self.views,
            sources=self._flow.sources() if self._flow else [],
            failure=self.failure,
            elapsed_s=elapsed_s,
        )

    def _choose_market(self, *, is_short: bool) -> None:
        """Play the records through the kernel of `deltabook.backtest.native_loop` if it supports this configuration."""
        config, graph = self.config, self.views.driven()
        if self._market_kind == "python" or graph is None or config.step_us or config.trades_rows < 1:
            return
        if not parse_latency(config.latency, config.seed)["feed"]().is_zero:
            return
        kernel = NativeLoop.kernel(self._kernels, graph, 0.0 if is_short else _LONGEST_WAIT_S)
        if kernel is not None:
            loop = NativeLoop(
                self.simulation,
                self.encoder,
                graph,
                lambda changes: self._publish(self.views.enter_changes(changes)),
                kernel,
            )
            self.simulation.play_natively(loop)

    def _start(self) -> None:
        """Connect the strategies: first to the views, then to the market."""
        self.recorder.begin(self.clock.now_ns)
        self._started = True
        self.engine.start()
        for name in self._columns:
            self.show(name)
        self.views.keep_no_rows()
        for session in self._sessions:
            session.open()
        self.clock.run_turn()
        self.recorder.sample()

    def seen_rows(self) -> list[Delta]:
        """See `deltabook.backtest.views.ViewedRun`; from this call on, the pure-Python market plays the records."""
        self.simulation.use_python()
        self.encoder.gives_time = True
        unseen = [(relation, row, -number) for relation, row, number in self.simulation.unseen]
        return [*self.encoder.rows(), *unseen]

    def show(self, name: str) -> None:
        """Send all rows of a view to the strategies."""
        columns, scales = self._columns[name]
        rows, weights = self.views.snapshot(name)
        self.engine.change(self._mirror.enter(self._header("snapshot", name), columns, rows, weights, scales))

    def _stop(self) -> None:
        """Stop the strategies and cancel their resting orders."""
        self._is_stopping = True
        self.recorder.sample()
        self.engine.stop()
        self.simulation.finish(lambda: not self.engine.open_orders(), _END_NS)
        self.recorder.sample()

    def _step(self, deltas: list[Delta]) -> None:
        self._publish(self.views.step(deltas))

    def _publish(self, changes: Sequence[Change]) -> None:
        """Send the changes of views to the strategies."""
        if not changes or not self._started:
            return
        if self.clock.now_ns >= self.recorder.day_end_ns:
            self.recorder.close_day()
        self._number += 1
        enter, change = self._mirror.enter, self.engine.change
        for view, cells, weights in changes:
            change(enter(self._header("changes", view), self._columns[view][0], cells, weights))
        if self.clock.now_ns >= self.recorder.next_ns:
            self.recorder.sample()

    def _header(self, kind: str, view: str) -> FrameHeader:
        return FrameHeader(kind, view, 0, 0, {}, self.clock.now_ns, "", self._number)  # type: ignore[arg-type]

    def _now_ns(self) -> int:
        return self.clock.now_ns

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, AlgoError):
            raise error
        if not self._is_stopping:  # a strategy that fails in `on_stop` has seen all data; its figures have the reason
            self.failure = self.failure or str(error)
        self.simulation.is_stopped = True


@contextmanager
def _few_collections() -> Iterator[None]:
    """Collect garbage less often: with Python's default threshold, the search for cycles takes a fifth of a backtest's
    time, although the backtest's objects are either short-lived or needed to its end.
    """
    before = gc.get_threshold()
    gc.set_threshold(_COLLECT_AFTER, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
