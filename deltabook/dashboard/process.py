# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""The dashboard's process: the reactor, the port, the lines on standard output, and the shutdown.

The port serves the page's files, ``/v1/status``, ``/metrics`` for a monitor, and the pages' socket, ``/v1/frames``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, get_args

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from twisted.web.http import Request
from twisted.web.resource import Resource
from twisted.web.server import Site

from deltabook.dashboard.app import Dashboard, DashboardConfig
from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.pages import MOST_PAGES, Page, Pages
from deltabook.dashboard.peers import LinkState
from deltabook.vendored import UPLOT
from deltabook.wire.access import Access
from deltabook.wire.metrics import METRICS_PATH, Exposition, counter, gauge, labelled
from deltabook.wire.process import InputEnd, Reporter, count_steadily, stop_on_signals
from deltabook.wire.site import PAGE_HEADERS, BoundedSite, page_files, read_file, refuse, reply
from deltabook.wire.websocket import UPGRADE_HEADERS, NotUpgradedError, Receiver, WebSocket, upgraded

__all__ = ["DashboardMetrics", "DashboardProcess", "dashboard_site", "run"]

Figures = Mapping[str, int | float | str | None]

_PREFIX: Final = "deltabook_dashboard"
_GAUGES: Final = (
    ("pages", "Pages that are open."),
    ("stuck_pages", "Pages whose connection is full."),
    ("symbols", "Symbols that are known."),
)
_COUNTED: Final = (
    ("frames_sent", "Frames that were sent to pages."),
    ("frames_encoded", "Frames that were encoded; pages with the same state share one."),
    ("bytes_sent", "Bytes of the frames that were sent."),
)
"""Names of figures that are counters, with the help texts of their metrics."""
_PEERS: Final = ("results", "algo", "exchange")


class DashboardMetrics:
    """Metrics of the dashboard; used on the reactor's thread only."""

    def __init__(self, figures: Callable[[], Figures], run_id: str = "") -> None:
        """Make the metrics; ``figures`` returns the figures of status lines."""
        self._figures = figures
        self.answer = Exposition("dashboard", run_id, self._collect).answer
        """Function that returns the metrics in a format that the monitor accepts, and the format's content type."""

    def _collect(self) -> Iterator[Metric]:
        figures = self._figures()
        for make, listed in ((gauge, _GAUGES), (counter, _COUNTED)):
            for name, what in listed:
                yield make(f"{_PREFIX}_{name}", what, float(figures[name] or 0))
        states = [((peer, state), float(figures[peer] == state)) for peer in _PEERS for state in get_args(LinkState)]
        yield labelled(GaugeMetricFamily, f"{_PREFIX}_peer", "1 for the state of a peer.", ("peer", "state"), states)


MOST_MESSAGE_BYTES: Final = 4_096
"""Largest message of a page in bytes; a longer one closes the connection."""
_MOST_CONNECTIONS: Final = MOST_PAGES + 64
"""Greatest number of connections: one for each open page, and 64 for other requests."""


class _Socket(Receiver):
    """The connection of one page."""

    def __init__(self, pages: Pages, clock: Any, socket: WebSocket) -> None:
        self._pages, self._clock, self._socket = pages, clock, socket
        self._page: Page | None = None
        self._page = pages.open(self)

    def received(self, text: str) -> None:
        """Pass a message to the page."""
        if self._page is not None:
            self._page.receive(text.encode())

    def full(self) -> None:
        """Note that the connection is full."""
        if self._page is not None:
            self._page.full(self._clock.seconds())

    def drained(self) -> None:
        """Note that the connection accepts data again."""
        if self._page is not None:
            self._page.drained()

    def lost(self) -> None:
        """Remove the page."""
        page, self._page = self._page, None
        if page is not None:
            self._pages.closed(page)

    # The methods of `deltabook.dashboard.pages.Wire`, with which the page sends frames and closes the connection.

    def send(self, data: bytes) -> None:
        """Send a text message."""
        self._socket.send(data.decode())

    def close(self, code: int, reason: str) -> None:
        """Close the connection once all data that was passed to `send` has been sent."""
        self.lost()
        self._socket.close(code, reason)

    def abort(self) -> None:
        """Close the connection at once."""
        self.lost()
        self._socket.abort()


class _Root(Resource):
    """Resource that serves every path."""

    isLeaf = True

    def __init__(
        self, pages: Pages, status: Callable[[], object], metrics: DashboardMetrics, access: Access, clock: Any
    ) -> None:
        super().__init__()
        self._access, self._status, self._metrics = access, status, metrics
        self._files = page_files("deltabook.dashboard")
        self._files |= {f"/{name}": read_file(UPLOT / name) for name in ("uPlot.iife.min.js", "uPlot.min.css")}
        self._socket: Callable[[WebSocket], _Socket] = lambda socket: _Socket(pages, clock, socket)
        self._clock = clock

    def render(self, request: Request) -> bytes | int:
        """Answer with a file, the status, the metrics, a socket, or one line with the expected and the actual value."""
        path = request.path.decode("ascii", "replace")
        if request.method not in {b"GET", b"HEAD"}:
            request.setHeader("allow", "GET, HEAD")
            return refuse(request, 405, f"expected GET, was {request.method.decode('ascii', 'replace')[:20]}")
        refusal = self._access.refusal_of(request, admits_own_pages=True)
        # A page cannot send a token before it has its files and its socket, so requests for these need no token; the
        # page sends its token on the socket.
        if refusal is not None and not (refusal[0] == 401 and (path in self._files or path == "/v1/frames")):
            return refuse(request, *refusal)
        if path in self._files:
            for name, value in PAGE_HEADERS.items():
                request.setHeader(name, value)
            return reply(request, 200, self._files[path].body, self._files[path].content_type)
        if path == "/v1/status":
            return reply(request, 200, msgspec.json.encode(self._status()), "application/json")
        if path == METRICS_PATH:
            return reply(request, 200, *self._metrics.answer(request.getHeader("accept") or ""))
        if path == "/v1/frames" and request.method == b"GET":
            return self._upgrade(request)
        known = f"/, /v1/status, {METRICS_PATH} or the socket /v1/frames"
        return refuse(request, 404, f"expected to get {known}, was {path[:80]}")

    def _upgrade(self, request: Request) -> bytes | int:
        try:
            return upgraded(request, self._clock, MOST_MESSAGE_BYTES, self._socket)
        except NotUpgradedError as error:
            for name, value in UPGRADE_HEADERS.items():
                request.setHeader(name, value)
            return refuse(request, 426, f"expected a request for a WebSocket, was another request: {error}")


def dashboard_site(
    pages: Pages, status: Callable[[], object], metrics: DashboardMetrics, access: Access, clock: Any
) -> Site:
    """Return the site that the port serves."""
    return BoundedSite(_Root(pages, status, metrics, access, clock), _MOST_CONNECTIONS)


ROLE = "dashboard"


class DashboardProcess:
    """Runs the port: announces it when it is open, and closes everything at the end."""

    _log = Logger()

    def __init__(self, config: DashboardConfig, reactor: Any, stdout: IO[bytes], status_interval_s: float) -> None:
        """Make the process; raise `AccessError` and `DashboardError` before anything is opened."""
        config.security.check(config.interface)
        self._config, self._reactor = config, reactor
        self.dashboard = Dashboard(config, reactor, time.time_ns)
        self._reporter = Reporter(
            ROLE, stdout, reactor, status_interval_s, self.dashboard.figures, run_id=config.run_id
        )
        self._port: Any = None

    def start(self) -> None:
        """Listen on the port; raise `DashboardError` if that is not possible."""
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
        """Close everything and announce the end."""
        if self._port is not None:
            self._port.stopListening()
            self._port = None
            self.dashboard.stop()
            self._reporter.stopped(reason)


def run(config: DashboardConfig, *, status_interval_s: float = 1.0, exit_with_stdin: bool = False) -> None:
    """Run until a signal or the end of standard input; raise the errors of the start."""
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
