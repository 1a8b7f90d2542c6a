"""The exchange as a process: `App` assembles its parts from a configuration, and `run` runs them until a signal."""

from __future__ import annotations

import os
import secrets
import string
import sys
import time
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import msgspec
from twisted.internet.threads import deferToThreadPool

from deltabook.wire import admin as wire
from deltabook.wire.access import Access
from deltabook.wire.durations import Durations, timed
from deltabook.wire.errors import AccessError
from deltabook.wire.process import InputEnd, Reporter, allow_files, stop_on_signals
from exchange_server.admin import (
    Changes,
    ExchangeMetrics,
    JournalFigures,
    Reports,
    admin_site,
)
from exchange_server.agents import AgentFlow
from exchange_server.config import ExchangeConfig, ReplayConfig, agent_instruments, rules_of
from exchange_server.day import Day, MarketClock
from exchange_server.errors import ExchangeConfigurationError, ExchangeError
from exchange_server.exchange import Exchange
from exchange_server.faces import Faces
from exchange_server.journal import Journal
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.outputs import encoders_of, protocols_of
from exchange_server.process import Wakefulness, choose_reactor, freeze_objects
from exchange_server.replay import Loader, Player, crossed_rows, open_recording, source_format
from exchange_server.upkeep import JournalUpkeep

__all__ = ["App", "run"]

_START_CHECK_S: Final = 0.05
_LAST_TURN_S: Final = 0.05


_FILES_BESIDE: Final = 512
"""Number of open files in addition to connections: journal, feeds, and the account streams in use."""


def _random_session() -> str:
    return "".join(secrets.choice(string.ascii_uppercase + string.digits) for _ in range(10))


def _loader(replay: ReplayConfig) -> Loader:
    return open_recording(
        replay.format,
        Path(replay.file),
        replay.symbols,
        day=replay.day,
        orderbook=Path(replay.orderbook) if replay.orderbook else None,
        trades=Path(replay.trades) if replay.trades else None,
        queue=replay.queue,
    )


def _admin_access(config: ExchangeConfig) -> Access:
    """Return the access to the admin port; raise `ExchangeConfigurationError` for invalid or unreadable files."""
    try:
        config.admin_security.check(config.admin_interface)
        return config.admin_security.access()
    except AccessError as error:
        raise ExchangeConfigurationError(str(error)) from None


class App:
    """Exchange process: journal, exchange, servers, flow, day and upkeep of one configuration, on one reactor."""

    def __init__(self, config: ExchangeConfig, reactor: Any, stdout: IO[bytes]) -> None:
        self._config = config
        self._reactor = reactor
        self._failure = ""
        self._reason = ""
        self._fsyncs = Durations()
        rules = rules_of(config)
        access = _admin_access(config)
        journal = Journal(
            Path(config.directory),
            rules,
            lambda: config.session or _random_session(),
            config.fsync,
            keep=config.keep_snapshots or None,
            sync=timed(os.fsync, self._fsyncs, time.monotonic),
        )
        try:
            self.clock = self._market_clock()
            self._make_exchange(journal, rules)
            self._make_flows()
            if config.admin_port is not None:
                self._make_admin(access)
        except BaseException:
            journal.close()
            raise
        self._status = Reporter(
            "exchange", stdout, reactor, config.status_interval_s, self.figures, run_id=config.run_id
        )

    # -- parts -------------------------------------------------------------------------------------------------

    def _make_exchange(self, journal: Journal, rules: MarketRules) -> None:
        config, now = self._config, Now()
        encoders = encoders_of(rules, now, config.forms)
        itch = encoders.get("itch")
        self._itch = itch if isinstance(itch, ItchEncoder) else None
        self.exchange = Exchange(journal, self.clock, encoders, protocols_of(rules), now)
        self.faces = Faces(config, self.exchange, self._itch, self._reactor, self.fail)
        self._upkeep = JournalUpkeep(
            self.exchange,
            self._reactor,
            self.fail,
            partial(deferToThreadPool, self._reactor, self._reactor.getThreadPool()),
            sync_interval_s=config.fsync_interval_s if config.fsync == "interval" else None,
            snapshot_inputs=config.snapshot_inputs,
            snapshot_interval_s=config.snapshot_interval_s,
        )

    def _market_clock(self) -> MarketClock:
        """Return the wall clock, or the clock of a replay: recorded start + elapsed time × speed, stopped until the
        start.
        """
        replay = self._config.replay
        if replay is None:
            return MarketClock(self._reactor.seconds, time.time_ns())
        first = next(_loader(replay).records(), None)
        anchor_ns = first.time_ns if first else 0
        return MarketClock(self._reactor.seconds, anchor_ns, speed=replay.speed or 1.0, running=False)

    def _make_flows(self) -> None:
        """Create the parts that start once the expected listeners and brokers are connected: replay, agents and day."""
        config, exchange, reactor = self._config, self.exchange, self._reactor
        self._player: Player | None = None
        self._day = Day(exchange, reactor, config.day, self.fail)
        self._wakefulness = Wakefulness(exchange, reactor, config.busy_poll_ms / 1_000)
        self._flows: list[AgentFlow | Player] = []
        if traded := agent_instruments(config):
            self._flows.append(
                AgentFlow(
                    exchange,
                    traded,
                    reactor,
                    settings=config.agent_settings,
                    seed=config.seed,
                    rate_per_s=config.rate_per_s,
                    stop=self.fail,
                )
            )
        if config.replay is not None:
            self._player = Player(
                _loader(config.replay),
                exchange,
                reactor,
                speed=config.replay.speed,
                stop=self.fail,
                crossed=crossed_rows(source_format(config.replay.format, Path(config.replay.file))),
                behind_bytes=lambda: self.faces.farthest_behind_bytes,
            )
            self._flows.append(self._player)

    def _make_admin(self, access: Access) -> None:
        config = self._config
        reports = Reports(
            self.exchange,
            config.directory,
            self.faces.servers,
            self.figures,
            self._reactor.seconds,
            playing=self._player,
        )
        changes = Changes(reports, self._upkeep.snapshot, self.fail)
        metrics = ExchangeMetrics(reports, self._journal_figures, self._fsyncs, self._messages, run_id=config.run_id)
        self._reports = reports
        self._admin_site = admin_site(reports, changes, metrics, access)

    # -- figures -----------------------------------------------------------------------------------------------

    def figures(self) -> dict[str, int | float | str | None]:
        """Return the figures of the moment, for status lines."""
        market, messages = self.exchange.market, self._messages()
        figures: dict[str, int | float | str | None] = {
            "sequence": messages.get("text", messages.get("itch", 0)),
            "orders": market.orders,
            "trades": market.trades,
            "listeners": self.faces.listeners,
            "clients": self.faces.clients,
            "live_orders": market.live_orders,
            "session": self.exchange.session,
        }
        if self._itch is not None:
            figures["itch_sequence"] = messages["itch"]
            figures["itch_listeners"] = self.faces.itch_listeners
            figures["itch_undisplayed"] = self._itch.undisplayed
        return figures

    def _messages(self) -> dict[str, int]:
        return {form: stream.records.next_number - 1 for form, stream in self.exchange.feeds.items()}

    def _journal_figures(self) -> JournalFigures:
        return JournalFigures(self.exchange.journal.size_bytes, self._upkeep.snapshot_age_s)

    # -- life --------------------------------------------------------------------------------------------------

    def start(self) -> dict[str, int]:
        """Open the ports and start; return the ports by purpose. Raise `ListenError` if a port cannot be opened."""
        config = self._config
        allow_files(config.limits.connections + _FILES_BESIDE)
        self.faces.open()
        if config.admin_port is not None:
            where, security = config.admin_interface, config.admin_security
            self.faces.listen("admin", config.admin_port, self._admin_site, where, security)
        ports = self.faces.ports
        if config.admin_port is not None:
            self._reports.ports = ports
        self._write_ports(ports)
        freeze_objects()
        self._status.ready(ports)
        self._upkeep.start()
        self._day.start()
        if self._config.busy_poll_ms:
            self._wakefulness.start()
        self._begin_flow()
        return ports

    @property
    def _ports_file(self) -> Path:
        return Path(self._config.directory) / wire.PORTS_FILE

    def _write_ports(self, ports: dict[str, int]) -> None:
        config = self._config
        is_secure = bool(config.admin_tls_cert)
        listening = wire.Listening(os.getpid(), config.interface, config.admin_interface, ports, is_secure)
        hidden = self._ports_file.with_name(f".{wire.PORTS_FILE}")
        try:
            hidden.write_bytes(msgspec.json.encode(listening))
            hidden.rename(self._ports_file)
        except OSError as error:
            raise ExchangeError(f"expected to write {self._ports_file}, was {error.strerror}") from error

    def _begin_flow(self) -> None:
        """Start the flow once the expected listeners and brokers are connected; it does not stop if they disconnect."""
        config = self._config
        if self._reason:
            return
        if self.faces.listeners < config.start_on_listeners or self.faces.clients < config.start_on_brokers:
            self._reactor.callLater(_START_CHECK_S, self._begin_flow)
            return
        self._day.begin()
        for flow in self._flows:
            flow.start()

    def fail(self, reason: str) -> None:
        """Stop the exchange with an error."""
        self._failure = self._failure or reason
        self.stop("failed")

    def stop(self, reason: str) -> None:
        """Stop cleanly: stop the flow, send pending answers, close the connections."""
        if self._reason:
            return
        self._reason = reason
        for flow in self._flows:
            flow.stop()
        self._day.stop()
        self._wakefulness.stop()
        self._upkeep.stop()
        self.faces.close(send=not self._failure)
        # One more turn of the reactor, so that the last writes are sent.
        self._reactor.callLater(_LAST_TURN_S, self._reactor.stop)

    def finish(self) -> None:
        """Write a last snapshot and close the journal, after the reactor has stopped.

        Raise `ExchangeError` if the exchange stopped with an error.
        """
        if not self._failure:
            self._upkeep.finish()
        self.close()
        if self._failure:
            self._status.failed(self._failure)
            raise ExchangeError(self._failure)
        self._status.stopped(self._reason or "reactor stopped")

    def close(self) -> None:
        """Close the journal and release its directory."""
        self._ports_file.unlink(missing_ok=True)
        self.exchange.close()


def run(config: ExchangeConfig, *, stdout: IO[bytes] | None = None) -> None:
    """Run an exchange until it is stopped; raise `ExchangeError` with the reason in one line if it cannot continue."""
    reactor = choose_reactor(config.reactor)
    app = App(config, reactor, stdout or sys.stdout.buffer)
    # Signals are handled before the process announces itself: a reader of the announcement may stop it at once.
    stop_on_signals(reactor, app.stop)
    try:
        app.start()
    except ExchangeError:
        app.close()
        raise
    if config.exit_with_stdin:
        InputEnd(reactor, 0, lambda: app.stop("standard input ended")).start()
    reactor.run(installSignalHandlers=False)
    app.finish()
