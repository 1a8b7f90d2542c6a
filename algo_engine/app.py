"""The process: puts the engine together, connects it, and ends it in order."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Final, Literal

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import HostnameEndpoint
from twisted.logger import Logger
from twisted.web.client import Agent

from algo_engine.backoff import LinkTimes
from algo_engine.desk import Desk
from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.journal import FileJournal
from algo_engine.loader import LoadedStrategy, load_strategies
from algo_engine.mirror import ViewMirror
from algo_engine.order import OrderEvent
from algo_engine.orders_link import OrdersLink
from algo_engine.quotes import QUOTE_COLUMNS, QUOTE_VIEW, Quotes
from algo_engine.results_link import ResultsLink
from algo_engine.risk import RiskGate
from algo_engine.trades import FileSpool, write_trades
from deltabook.wire.process import InputEnd, Reporter

__all__ = ["AlgoConfig", "AlgoProcess", "run_process"]

ROLE: Final = "algo"
_POLL_S: Final = 0.02


class AlgoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything the process is told."""

    strategies: tuple[str, ...]
    """Built-in names or paths to files."""
    results: str
    """HOST:PORT of the runtime's HTTP service."""
    orders: str
    """HOST:PORT of the exchange's text port."""
    directory: Path
    """Journals and trades; the same one again continues the same orders."""
    parameters: tuple[str, ...] = ()
    """STRATEGY.field=value."""
    first_broker_id: int = 9001
    """Of the first strategy; the others follow."""
    on_restart: Literal["cancel", "adopt"] = "cancel"
    """What becomes of orders that an earlier run left in the market."""
    status_interval_s: float = 1.0
    """Between status lines, 0 for none."""
    exit_with_stdin: bool = False
    """Stop when standard input ends."""
    stop_s: float = 3.0
    """The longest wait for cancellations at the end."""
    stale_s: float = 2.0
    """So long without views, orders are cancelled."""
    links: LinkTimes = LinkTimes()
    """Patience with exchange and runtime."""


class AlgoProcess:
    """All parts, on a given reactor."""

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
        self._end = "signal"
        self._is_ending = False
        self._is_subscribed = False
        self._loaded = load_strategies(config.strategies, config.parameters)
        mirror, self._quotes = ViewMirror(), Quotes()
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
        )
        self._orders_links = [self._orders_link(host) for host in self._hosts]
        self._results_link = self._make_results_link()
        self._reporter = Reporter(ROLE, stdout, reactor, config.status_interval_s, self.engine.figures)

    def start(self) -> None:
        """Connect to exchange and runtime."""
        for link in self._orders_links:
            link.start()
        self._results_link.start()

    def fail(self, error: Exception) -> None:
        """End, with this as the reason; the first one counts."""
        if self.failure is None:
            self.failure = error
        self.end(str(error))

    def end(self, reason: str) -> None:
        """End in order."""
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
        if open_orders and self._reactor.seconds() < until_s:
            self._reactor.callLater(_POLL_S, self._wait_for_cancellations, done, until_s)
            return
        if open_orders:
            self._log.warn("{n} orders may still be in the market; a restart finds them again", n=open_orders)
        done.callback(None)

    def _close(self, _: None) -> None:
        for link in self._orders_links:
            link.stop()
        self._results_link.stop()
        for host in self._hosts:
            host.desk.close()
        spools = [_folder(self._config, loaded) / "trades.spool" for loaded in self._loaded]
        trades = write_trades(self._config.directory / "trades.csv", spools)
        self._log.info("{n} trades in {path}", n=trades, path=self._config.directory / "trades.csv")
        if self.failure is None:
            self._reporter.stopped(self._end)

    def _ready_if_connected(self) -> None:
        if self._is_subscribed and all(host.desk.is_synchronised for host in self._hosts):
            self._reporter.ready({})

    def _subscribed(self) -> None:
        self._is_subscribed = True
        self._ready_if_connected()

    def _host(self, number: int, loaded: LoadedStrategy, mirror: ViewMirror) -> StrategyHost:
        broker_id = self._config.first_broker_id + number
        folder = _folder(self._config, loaded)

        def make_desk(listener: Callable[[OrderEvent], None]) -> Desk:
            journal = FileJournal(folder / "orders.log")
            return Desk(
                broker_id=broker_id,
                journal=journal,
                spool=FileSpool(folder / "trades.spool", loaded.name, broker_id),
                gate=RiskGate(loaded.limits, self._now_ns),
                quotes=self._quotes,
                clock=self._reactor,
                listener=listener,
                on_failure=self.fail,
            )

        return StrategyHost(
            loaded=loaded,
            mirror=mirror,
            quotes=self._quotes,
            clock=self._reactor,
            now_ns=self._now_ns,
            make_desk=make_desk,
        )

    def _orders_link(self, host: StrategyHost) -> OrdersLink:
        name, port = parse_address(self._config.orders)
        return OrdersLink(
            endpoint=HostnameEndpoint(self._reactor, name, port, timeout=self._config.links.connect_s),
            reader=host.desk,
            clock=self._reactor,
            times=self._config.links,
            peer=self._config.orders,
            on_failure=self.fail,
        )

    def _make_results_link(self) -> ResultsLink:
        name, port = parse_address(self._config.results)
        wanted: dict[str, tuple[str, ...]] = {view: () for host in self._hosts for view in sorted(host.views)}
        make_agent: Callable[..., Any] = Agent  # without types in Twisted
        agent = make_agent(self._reactor, connectTimeout=self._config.links.connect_s)
        return ResultsLink(
            agent=agent,
            address=f"{name}:{port}",
            wanted={**wanted, QUOTE_VIEW: QUOTE_COLUMNS},
            on_frame=self.engine.frame,
            on_subscribed=self._subscribed,
            on_lost=self.engine.views_lost,
            on_failure=self.fail,
            clock=self._reactor,
            times=self._config.links,
        )


def _folder(config: AlgoConfig, loaded: LoadedStrategy) -> Path:
    return config.directory / loaded.name


def parse_address(address: str) -> tuple[str, int]:
    """HOST:PORT in two; raises `ValueError`."""
    host, colon, port = address.rpartition(":")
    if not (colon and host and port.isdecimal() and 0 < int(port) < 65536):
        raise ValueError(f"expected HOST:PORT, was {address}")
    return host.strip("[]"), int(port)


def run_process(config: AlgoConfig) -> None:
    """Run until a signal, the end of standard input or a failure; raises what it failed with."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    process = AlgoProcess(config, reactor, sys.stdout.buffer)
    reactor.addSystemEventTrigger("before", "shutdown", process.stop)
    signal.signal(signal.SIGUSR1, lambda *_: reactor.callFromThread(process.engine.kill, "SIGUSR1"))
    if config.exit_with_stdin:
        # A regular file or /dev/null cannot be watched, and never was a supervisor's pipe.
        with contextlib.suppress(PermissionError):
            InputEnd(reactor, 0, lambda: process.end("standard input ended")).start()
    reactor.callWhenRunning(process.start)
    reactor.run()
    if process.failure is not None:
        raise process.failure
