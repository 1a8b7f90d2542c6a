"""The exchange as a process."""

from __future__ import annotations

import secrets
import string
import sys
import time
from pathlib import Path
from typing import IO, Any

from twisted.internet.error import CannotListenError
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.process import InputEnd, Reporter, stop_on_signals
from exchange_server.agents import AgentFlow
from exchange_server.clock import MarketClock
from exchange_server.config import ExchangeConfig, ReplayConfig, rules_of
from exchange_server.errors import ExchangeError, ListenError
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.nasdaq import ItchFeed, ItchServer
from exchange_server.replay import BitstampLoader, DbtoasterLoader, Loader, Player
from exchange_server.text import TextServer

__all__ = ["App", "run"]

_SYNC_S = 1.0
_START_CHECK_S = 0.05


def _random_session() -> str:
    return "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(10))


def _loader(replay: ReplayConfig) -> Loader:
    path = Path(replay.file)
    return DbtoasterLoader(path) if replay.format == "dbtoaster" else BitstampLoader(path)


class App:
    """Journal, exchange, server and flow of one configuration, on one reactor."""

    _log = Logger()

    def __init__(self, config: ExchangeConfig, reactor: Any, stdout: IO[bytes]) -> None:
        self._config = config
        self._reactor = reactor
        self._failure = ""
        self._reason = ""
        self._flows: list[AgentFlow | Player] = []
        self._itch: ItchServer | None = None
        rules = rules_of(config)
        journal = Journal(Path(config.directory), rules, lambda: config.session or _random_session(), config.fsync)
        try:
            self.clock = self._market_clock()
            feed = None if config.itch_port is None else ItchFeed(Path(config.directory) / "feed.itch", rules)
            self.exchange = Exchange(journal, self.clock, feed.take if feed else None)
            self.server = TextServer(self.exchange, reactor, config.limits, self.fail)
            if feed is not None:
                self._itch = ItchServer(feed, self.exchange.session, reactor, config.soup_limits)
            self._make_flows()
        except BaseException:
            journal.close()
            raise
        self._status = Reporter("exchange", stdout, reactor, config.status_interval_s, self.figures)
        self._ports: dict[str, Any] = {}

    def _market_clock(self) -> MarketClock:
        """The wall clock, or a replay's: recorded start + elapsed × speed, standing until the flow starts."""
        replay = self._config.replay
        if replay is None:
            return MarketClock(self._reactor.seconds, time.time_ns())
        first = next(_loader(replay).records(), None)
        anchor_ns = first.time_ns if first else 0
        return MarketClock(self._reactor.seconds, anchor_ns, speed=replay.speed or 1.0, running=False)

    def _make_flows(self) -> None:
        config = self._config
        if config.agents and config.instruments:
            self._flows.append(
                AgentFlow(
                    self.exchange,
                    config.instruments,
                    self.server.submit,
                    self._reactor,
                    seed=config.seed,
                    rate_per_s=config.rate_per_s,
                )
            )
        replay = config.replay
        if replay is not None:
            self._flows.append(
                Player(
                    _loader(replay),
                    replay.symbol,
                    self.exchange,
                    self.server,
                    self._reactor,
                    paced=replay.speed is not None,
                    stop=self.fail,
                )
            )

    def figures(self) -> dict[str, int | float | str | None]:
        """Of the moment, for status lines."""
        market = self.exchange.market
        figures: dict[str, int | float | str | None] = {
            "sequence": market.next_sequence - 1,
            "orders": market.orders,
            "trades": market.trades,
            "listeners": self._listeners,
            "clients": self.server.clients,
            "live_orders": market.live_orders,
            "session": self.exchange.session,
        }
        if self._itch is not None:
            figures["itch_sequence"] = self._itch.feed.next_sequence - 1
            figures["itch_listeners"] = self._itch.listeners
            figures["itch_undisplayed"] = self._itch.feed.undisplayed
        return figures

    @property
    def _listeners(self) -> int:
        """Of the feed, in whatever form."""
        return self.server.listeners + (self._itch.listeners if self._itch is not None else 0)

    def start(self) -> dict[str, int]:
        """Open the ports and begin; returns them by purpose. Raises `ListenError`."""
        config = self._config
        self._listen("text", config.port, self.server)
        if self._itch is not None:
            self._listen("itch", config.itch_port or 0, self._itch)
        ports: dict[str, int] = {purpose: port.getHost().port for purpose, port in self._ports.items()}
        self._status.ready(ports)
        self._begin_flow()
        if config.fsync == "interval":
            self._reactor.callLater(_SYNC_S, self._sync)
        return ports

    def _listen(self, purpose: str, port: int, server: TextServer | ItchServer) -> None:
        where = self._config.interface
        try:
            self._ports[purpose] = self._reactor.listenTCP(port, server, interface=where)
        except CannotListenError as error:
            raise ListenError(f"expected a free port, was {where}:{port}: {error.socketError}") from error

    def _begin_flow(self) -> None:
        """Start the flow once those it waits for are there; it goes on when they leave."""
        config = self._config
        if self._listeners < config.start_on_listeners or self.server.clients < config.start_on_brokers:
            self._reactor.callLater(_START_CHECK_S, self._begin_flow)
            return
        if not self._reason:
            self.clock.start()
            for flow in self._flows:
                flow.start()

    def _sync(self) -> None:
        """Force the journal to the disk without holding up the reactor."""
        done = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), self.exchange.journal.inputs.sync)
        done.addCallbacks(lambda _: self._reactor.callLater(_SYNC_S, self._sync), self._sync_failed)

    def _sync_failed(self, failure: Failure) -> None:
        self.fail(f"expected to sync the journal, was {failure.getErrorMessage()}")

    def fail(self, reason: str) -> None:
        """End with an error."""
        self._failure = self._failure or reason
        self.stop("failed")

    def stop(self, reason: str) -> None:
        """End cleanly: no more flow, answers out, connections closed."""
        if self._reason:
            return
        self._reason = reason
        for flow in self._flows:
            flow.stop()
        for port in self._ports.values():
            port.stopListening()
        if not self._failure:
            self.server.close()
            if self._itch is not None:
                self._itch.close()
        # One more turn, so that what was written last leaves.
        self._reactor.callLater(0.05, self._reactor.stop)

    def finish(self) -> None:
        """After the reactor: close the journal; raises `ExchangeError` if the end was a failure."""
        self.exchange.close()
        if self._itch is not None:
            self._itch.feed.close()
        if self._failure:
            self._status.failed(self._failure)
            raise ExchangeError(self._failure)
        self._status.stopped(self._reason or "reactor stopped")


def run(config: ExchangeConfig, *, stdout: IO[bytes] | None = None) -> None:
    """Run an exchange until it is stopped; raises `ExchangeError` with one clear line if it cannot go on."""
    from twisted.internet import reactor as default_reactor

    reactor: Any = default_reactor
    app = App(config, reactor, stdout or sys.stdout.buffer)
    try:
        app.start()
    except ExchangeError:
        app.exchange.close()
        raise
    if config.exit_with_stdin:
        InputEnd(reactor, 0, lambda: app.stop("standard input ended")).start()
    reactor.callWhenRunning(stop_on_signals, reactor, app.stop)
    reactor.run(installSignalHandlers=False)
    app.finish()
