"""The engine's process: assembles the engine, connects it, and shuts it down in order."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.internet.error import CannotListenError
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from algo_engine.config import AlgoConfig
from algo_engine.desk.desk import Desk
from algo_engine.desk.journal import JOURNAL, FileJournal
from algo_engine.desk.order import OrderEvent
from algo_engine.desk.risk import RiskGate
from algo_engine.desk.trade_recovery import open_spool
from algo_engine.desk.trades import SPOOL, read_trades, trade_of, write_trades
from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.links.orders import OrdersLink
from algo_engine.links.results import ResultsLink
from algo_engine.links.runtime_views import RuntimeViews
from algo_engine.loader import LoadedStrategy, load_strategies
from algo_engine.stages import OrderStages
from algo_engine.status import AlgoMetrics, FillLog, Reports, status_site
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import QUOTE_COLUMNS, QUOTE_VIEW, Quotes
from deltabook.wire.directories import refuse_special_files
from deltabook.wire.errors import AccessError
from deltabook.wire.http.peer import HttpPeer, split_address
from deltabook.wire.http.reactor import ReactorPort
from deltabook.wire.process import InputEnd, Reporter, count_steadily, stop_on_signals
from deltabook.wire.strategies import PORTS_FILE, Listening

__all__ = ["AlgoProcess", "run_process"]

ROLE: Final = "algo"
_POLL_S: Final = 0.02
"""Interval at which the orders that are still open at the end are polled, in seconds."""
_VIEWS_FILE: Final = "views.json"
"""File name of the views that strategies have added."""
_KEPT_FILLS: Final = 10_000
"""Number of the latest trades that the status port serves."""


class AlgoProcess:
    """The engine's process: all its parts, on a given reactor."""

    _log = Logger()

    def __init__(
        self,
        config: AlgoConfig,
        reactor: Any,
        stdout: IO[bytes],
        now_ns: Callable[[], int] = time.time_ns,
        shut_down: Callable[[], None] | None = None,
    ) -> None:
        self._config, self._reactor, self._now_ns = config, reactor, now_ns
        self._shut_down = shut_down or reactor.stop
        self.failure: Exception | None = None
        """Error that ended the process; None if there was none."""
        self._end = "signal"
        self._is_ending = False
        self._is_subscribed = False
        self._stages = OrderStages(reactor.seconds)
        refuse_special_files(config.directory)
        self._loaded = load_strategies(config.strategies, config.parameters)
        mirror, self._quotes = ViewMirror(), Quotes()
        access = config.results_access
        runtime = HttpPeer.of(
            "a runtime's results service", config.results, token_file=access.token_file, ca_file=access.ca_file
        )
        self._runtime_port = ReactorPort(runtime, reactor, connect_s=config.links.connect_s)
        self._views = self._runtime_views()
        self._hosts = [self._host(number, loaded, mirror) for number, loaded in enumerate(self._loaded)]
        self.engine = Engine(
            hosts=self._hosts,
            mirror=mirror,
            quotes=self._quotes,
            clock=reactor,
            adopt=config.on_restart == "adopt",
            stale_s=config.stale_s,
            on_failure=self.fail,
            on_synchronised=self._ready_if_connected,
            view_link=self._views,
            keep_views=config.keep_views,
            stages=self._stages,
        )
        self._orders_links = [self._orders_link(host) for host in self._hosts]
        given = {view: () for host in self._hosts for view in sorted(host.views - set(host.queries))}
        self._results_link = self._make_results_link({**given, QUOTE_VIEW: QUOTE_COLUMNS})
        self._reporter = Reporter(
            ROLE, stdout, reactor, config.status_interval_s, self.engine.figures, run_id=config.run_id
        )
        self._port: Any = None

    def start(self) -> None:
        """Open the status port, then connect to exchange and runtime."""
        self._listen()
        for link in self._orders_links:
            link.start()
        self._results_link.start()
        self.engine.start()

    def _listen(self) -> None:
        config = self._config
        if config.http_port is None:
            return
        earlier = deque(read_trades(self._spools()), maxlen=_KEPT_FILLS)
        fills = FillLog(_KEPT_FILLS, earlier)
        for host in self._hosts:
            host.on_fill = _fill_callback(fills, host)
        reports = Reports(self.engine, fills, self._reactor, self._now_ns)
        try:
            metrics = AlgoMetrics(reports, self._reconnects, self._stages, config.run_id)
            site = status_site(reports, metrics, config.security.access())
            self._port = config.security.listen(self._reactor, config.http_port, site, config.http_interface)
            where = self._port.getHost()
            listening = Listening(os.getpid(), where.host, where.port, is_secure=bool(config.security.tls_cert))
            (config.directory / PORTS_FILE).write_bytes(msgspec.json.encode(listening))
        except (AccessError, OSError, CannotListenError) as error:
            self.fail(error)

    def _reconnects(self) -> dict[str, int]:
        lost = sum(link.reconnects for link in self._orders_links)
        return {"exchange": lost, "runtime": self._results_link.reconnects}

    def _spools(self) -> list[Path]:
        return [_folder(self._config, loaded) / SPOOL for loaded in self._loaded]

    def fail(self, error: Exception) -> None:
        """Shut down with this error as the reason; the first error counts."""
        if self.failure is None:
            self.failure = error
        self.end(str(error))

    def end(self, reason: str) -> None:
        """Shut down in order."""
        if not self._is_ending:
            self._is_ending = True
            self._end = reason
            self._shut_down()

    def stop(self) -> Deferred[None]:
        """Cancel resting orders, for a bounded time, then close everything and write the trades."""
        self._is_ending = True
        self.engine.stop()
        done: Deferred[None] = Deferred()
        self._wait_for_cancellations(done, self._reactor.seconds() + self._config.stop_s)
        return done.addCallback(self._close)

    def _wait_for_cancellations(self, done: Deferred[None], until_s: float) -> None:
        open_orders = self.engine.open_orders()
        # Wait also for the last answers: what was received at the end must be complete, as `algo verify` expects.
        if (open_orders or self.engine.unanswered_requests()) and self._reactor.seconds() < until_s:
            self._reactor.callLater(_POLL_S, self._wait_for_cancellations, done, until_s)
            return
        if open_orders:
            self._log.warn("{n} orders may still be in the market; the next start recovers them", n=open_orders)
        done.callback(None)

    def _close(self, _: None) -> Deferred[None]:
        for link in self._orders_links:
            link.stop()
        self._results_link.stop()
        if self._port is not None:
            self._port.stopListening()
            (self._config.directory / PORTS_FILE).unlink(missing_ok=True)
        for write_down in (*(host.desk.close for host in self._hosts), self._write_trades):
            try:
                write_down()
            except OSError as error:  # the exchange sends missing trades again at the next start
                self._log.error("expected to write journals and trades at the end, was {error}", error=error)
        closed = self._views.stop().addTimeout(self._config.stop_s, self._reactor).addErrback(lambda _: None)
        return closed.addCallback(self._report_end)

    def _write_trades(self) -> None:
        path = self._config.directory / "trades.csv"
        self._log.info("{n} trades in {path}", n=write_trades(path, read_trades(self._spools())), path=path)

    def _report_end(self, _: Any) -> None:
        if self.failure is None:
            self._reporter.stopped(self._end)
        else:
            self._reporter.failed(" ".join(str(self.failure).split()) or type(self.failure).__name__)

    def _ready_if_connected(self) -> None:
        if self._is_subscribed and all(host.desk.is_synchronised for host in self._hosts):
            self._reporter.ready({} if self._port is None else {"http": self._port.getHost().port})

    def _subscribed(self) -> None:
        self._is_subscribed = True
        self._ready_if_connected()

    def _host(self, number: int, loaded: LoadedStrategy, mirror: ViewMirror) -> StrategyHost:
        broker_id = self._config.first_broker_id + number
        folder = _folder(self._config, loaded)

        def make_desk(listener: Callable[[OrderEvent], None]) -> Desk:
            journal = FileJournal(folder / JOURNAL)
            spool, rebuilt = open_spool(folder, loaded.name, broker_id)
            if rebuilt:
                self._log.warn("{rebuilt}", rebuilt=rebuilt)
            if torn_bytes := journal.torn_bytes:
                self._log.warn(
                    "{bytes} bytes after the last whole record of {path} are cut; their messages are requested from "
                    "the exchange again",
                    bytes=torn_bytes,
                    path=folder / JOURNAL,
                )
            return Desk(
                broker_id=broker_id,
                journal=journal,
                spool=spool,
                gate=RiskGate(loaded.limits, self._now_ns),
                quotes=self._quotes,
                clock=self._reactor,
                listener=listener,
                on_failure=self.fail,
                fees=self._config.fees,
                background=self._in_background,
                syncs_before=self._config.order_fsync == "before",
                stages=self._stages,
            )

        return StrategyHost(
            loaded=loaded,
            mirror=mirror,
            quotes=self._quotes,
            clock=self._reactor,
            now_ns=self._now_ns,
            make_desk=make_desk,
        )

    def _in_background(self, work: Callable[[], float], ended: Callable[[float | OSError], None]) -> None:
        def result() -> float | OSError:
            try:
                return work()
            except OSError as error:
                return error

        deferToThreadPool(self._reactor, self._reactor.getThreadPool(), result).addCallback(ended)

    def _orders_link(self, host: StrategyHost) -> OrdersLink:
        name, port = split_address(self._config.orders)
        return OrdersLink(
            endpoint=HostnameEndpoint(self._reactor, name, port, timeout=self._config.links.connect_s),
            reader=host.desk,
            clock=self._reactor,
            times=self._config.links,
            peer=self._config.orders,
            on_failure=self.fail,
        )

    def _runtime_views(self) -> RuntimeViews:
        return RuntimeViews(
            port=self._runtime_port,
            file=self._config.directory / _VIEWS_FILE,
            make_link=lambda view: self._make_results_link({view: ()}),
            clock=self._reactor,
            times=self._config.links,
            on_failure=self.fail,
        )

    def _make_results_link(self, wanted: Mapping[str, tuple[str, ...]]) -> ResultsLink:
        return ResultsLink(
            port=self._runtime_port,
            wanted=wanted,
            on_read=self._stages.frame_read,
            on_frame=self.engine.frame,
            on_subscribed=self._subscribed,
            on_lost=lambda: self.engine.views_lost(wanted),
            on_failure=self.fail,
            clock=self._reactor,
            times=self._config.links,
        )


def _folder(config: AlgoConfig, loaded: LoadedStrategy) -> Path:
    return config.directory / loaded.name


def _fill_callback(fills: FillLog, host: StrategyHost) -> Callable[[OrderEvent], None]:
    return lambda event: fills.add(trade_of(event, host.name, host.desk.broker_id))


def run_process(config: AlgoConfig) -> None:
    """Run until a signal, the end of standard input or a failure; raise the error that caused the failure."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    count_steadily(reactor)
    process = AlgoProcess(config, reactor, sys.stdout.buffer)
    reactor.addSystemEventTrigger("before", "shutdown", process.stop)
    stop_on_signals(reactor, lambda _: process.end("signal"))
    signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(process.engine.kill, "SIGUSR1"))
    if config.exit_with_stdin:
        # A regular file or /dev/null cannot be watched, and is not a supervisor's pipe.
        with contextlib.suppress(PermissionError):
            InputEnd(reactor, 0, lambda: process.end("standard input ended")).start()
    reactor.callWhenRunning(process.start)
    reactor.run(installSignalHandlers=False)
    if process.failure is not None:
        raise process.failure
