"""The process: a dashboard on the real reactor, its port, its events, and its end."""

from __future__ import annotations

import sys
import time
from typing import IO, Any

from twisted.internet.error import CannotListenError
from twisted.logger import Logger

from deltabook.dashboard.app import Dashboard, DashboardConfig
from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.metrics import DashboardMetrics
from deltabook.dashboard.site import dashboard_site
from deltabook.wire.process import InputEnd, Reporter, count_steadily, stop_on_signals

__all__ = ["DashboardProcess", "run"]

ROLE = "dashboard"


class DashboardProcess:
    """Opens the port, says so, and closes everything at the end."""

    _log = Logger()

    def __init__(self, config: DashboardConfig, reactor: Any, stdout: IO[bytes], status_interval_s: float) -> None:
        """Raises `AccessError` and `DashboardError` before anything is opened."""
        config.security.check(config.interface)
        self._config, self._reactor = config, reactor
        self.dashboard = Dashboard(config, reactor, time.time_ns)
        self._reporter = Reporter(
            ROLE, stdout, reactor, status_interval_s, self.dashboard.figures, run_id=config.run_id
        )
        self._port: Any = None

    def start(self) -> None:
        """Listen; raises `DashboardError` where that is not possible."""
        config, board = self._config, self.dashboard
        metrics = DashboardMetrics(board.figures, config.run_id)
        site = dashboard_site(board.pages, board.figures, metrics, board.access, self._reactor)
        try:
            self._port = config.security.listen(self._reactor, config.http_port, site, config.interface)
        except CannotListenError as error:
            raise DashboardError(
                f"expected a free port, was {config.interface}:{config.http_port}: {error.socketError}"
            ) from None
        board.start()
        port = self._port.getHost().port
        host = f"[{config.interface}]" if ":" in config.interface else config.interface
        scheme = "https" if config.security.tls_cert else "http"
        self._log.info("the dashboard is at {url}", url=f"{scheme}://{host}:{port}/")
        self._reporter.ready({"http": port})

    def stop(self, reason: str) -> None:
        """Close everything and say so."""
        if self._port is not None:
            self._port.stopListening()
            self._port = None
            self.dashboard.stop()
            self._reporter.stopped(reason)


def run(config: DashboardConfig, *, status_interval_s: float = 1.0, exit_with_stdin: bool = False) -> None:
    """Run until a signal or the end of standard input; raises what it cannot begin with."""
    from twisted.internet import reactor as installed

    reactor: Any = installed
    count_steadily(reactor)
    process = DashboardProcess(config, reactor, sys.stdout.buffer, status_interval_s)

    def end(reason: str) -> None:
        process.stop(reason)
        if reactor.running:
            reactor.stop()

    process.start()
    reactor.callWhenRunning(stop_on_signals, reactor, end)
    if exit_with_stdin:
        reactor.callWhenRunning(InputEnd(reactor, 0, lambda: end("standard input ended")).start)
    reactor.run(installSignalHandlers=False)
