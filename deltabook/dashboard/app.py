"""The whole dashboard: follows its peers, and makes the frames of the open pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from deltabook.dashboard.bars import Bars
from deltabook.dashboard.followers import AlgoFollower, ExchangeFollower, ResultsFollower
from deltabook.dashboard.frames import Frames, Scope
from deltabook.dashboard.history import MOST_CHARTED, History, Series
from deltabook.dashboard.market import DisplayedMarket
from deltabook.dashboard.opened import OpenViews
from deltabook.dashboard.pages import Pages
from deltabook.dashboard.peers import HttpAsker, Link, Peer, PeerRequests
from deltabook.dashboard.records import Links
from deltabook.dashboard.scales import Scales
from deltabook.dashboard.sections import MOST_TRADES, Lists, SymbolPanels
from deltabook.wire.access import Access, PortSecurity
from deltabook.wire.symbols import Instrument

__all__ = ["Dashboard", "DashboardConfig"]

_SAMPLE_S: Final = 1.0
"""Time between two samples of the histories, in seconds."""
_NEAR_NS: Final = 120 * 10**9
"""Largest difference, in nanoseconds, between the newest trade and this machine's clock at which the market is live."""
_ALL: Final[Scope] = ("all", "")


class DashboardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration of the dashboard."""

    results: Peer
    """Results service of the runtime."""
    algo: Peer | None = None
    """Status port of the strategies."""
    exchange: Peer | None = None
    """Admin port of the exchange."""
    scales: dict[str, Instrument] = {}
    """Worth of a tick and of a lot by symbol, ``*`` for all other symbols; overrides the exchange's scales."""
    interface: str = "127.0.0.1"
    """Address that the page is served on."""
    http_port: int = 0
    """Port of the page; 0: any free one."""
    security: PortSecurity = PortSecurity()
    """Security of the port; required unless the interface is loopback."""
    run_id: str = ""
    """Run id of all processes that were started together, in logs, status lines and metrics."""


class Dashboard:
    """All parts of the dashboard, on a given reactor."""

    _log = Logger()

    def __init__(
        self,
        config: DashboardConfig,
        reactor: Any,
        now_ns: Callable[[], int],
        ask: Callable[[Peer, Any], PeerRequests] = HttpAsker,
    ) -> None:
        """Make the parts; raise `AccessError` and `DashboardError` for files that cannot be used."""
        self._config, self._now_ns = config, now_ns
        self.access: Access = config.security.access()
        self.scales, self._history, self._frames = Scales(config.scales), History(), Frames()
        self._bars = Bars(self._history, self._next_number)
        self._market = DisplayedMarket(self._bars)
        results, algo, exchange = (Link(peer, self._now_ms) for peer in (config.results, config.algo, config.exchange))
        asker = ask(config.results, reactor)
        self.results = ResultsFollower(asker, results, self._market, reactor, self._lists_changed)
        self.opened = OpenViews(asker, reactor, self._next_number)
        self.algos: AlgoFollower | None = None
        self.exchange: ExchangeFollower | None = None
        if config.algo:
            self.algos = AlgoFollower(ask(config.algo, reactor), algo, reactor, self._lists_changed)
        if config.exchange:
            asker = ask(config.exchange, reactor)
            self.exchange = ExchangeFollower(asker, exchange, self.scales, self._market.has, reactor)
        self._links = {"results": results, "algo": algo, "exchange": exchange}
        self._lists = Lists(
            self._market,
            self.scales,
            self.results,
            opened=self.opened,
            algos=self.algos,
            exchange=self.exchange,
        )
        self._panels = SymbolPanels(self._market, self._bars, self.scales, self.algos)
        self.pages = Pages(
            self._frames, reactor, prepare=self._prepare, market_ms=self._market_ms, refusal=self._refusal
        )
        self._shown: set[Scope] = set()
        self._tapes: dict[str, Series] = {}
        """Rows of the tape, by displayed symbol."""
        self._scale_version = 0
        self._money_of: tuple[str, tuple[str, ...]] = ("", ())
        self._market_time_ns = 0
        """Newest market time at the last sample, in nanoseconds."""
        self._is_live_market = True
        self._are_lists_stale = True
        self._sampling: Any = LoopingCall(self._try_sample)
        self._sampling.clock = reactor

    def start(self) -> None:
        """Follow the peers and answer pages from now on."""
        for part in self._parts():
            part.start()
        self._sampling.start(_SAMPLE_S)
        self.pages.start()

    def stop(self) -> None:
        """Close everything."""
        self.pages.stop()
        if self._sampling.running:
            self._sampling.stop()
        for part in self._parts():
            part.stop()

    def figures(self) -> dict[str, int | float | str | None]:
        """Return the figures for status lines."""
        return {
            **self.pages.figures(),
            "symbols": len(self._market.symbols),
            **{name: link.state for name, link in self._links.items()},
        }

    def _parts(self) -> list[Any]:
        return [part for part in (self.results, self.opened, self.algos, self.exchange) if part is not None]

    def _next_number(self) -> int:
        return self._frames.number + 1

    def _market_ns(self) -> int:
        """Return the market time in nanoseconds: this machine's time, or for a recorded day the time of its newest
        trade.
        """
        return self._now_ns() if self._is_live_market else self._bars.time_ns

    def _market_ms(self) -> int:
        return self._market_ns() // 1_000_000

    def _now_ms(self) -> int:
        return self._now_ns() // 1_000_000

    def _refusal(self, token: str) -> str:
        """Return the reason why a page's token is refused; empty if the token is accepted.

        The page sends its token on its socket, whose origin was checked when the socket was opened.
        """
        refusal = self.access.refusal("127.0.0.1", f"Bearer {token}", None)
        return refusal[1] if refusal else ""

    def _lists_changed(self) -> None:
        self._are_lists_stale = True

    def _try_sample(self) -> None:
        """Take a sample; log any error, so that later samples are taken whatever a peer has sent."""
        try:
            self._sample()
        except Exception:  # noqa: BLE001 - see above
            self._log.failure("a moment was not entered into the histories")

    def _sample(self) -> None:
        """Enter a sample into the histories, whether a page is open or not; enter a gap while the runtime is not
        followed.
        """
        if self._bars.time_ns != self._market_time_ns:
            self._market_time_ns = self._bars.time_ns
            is_live_market = abs(self._now_ns() - self._market_time_ns) < _NEAR_NS
            if is_live_market != self._is_live_market:
                self._is_live_market = is_live_market
                self._history.restart(self._next_number())
        number, time_s = self._next_number(), self._market_ns() // 10**9
        is_live = self.results.link.state == "live"
        if self.results.link.state != "connecting":
            self._history.follow(number, time_s, is_live=is_live)
        for symbol in self._market.symbols[:MOST_CHARTED] if is_live else ():
            charted = self._history.of(symbol)
            if charted is not None:
                charted.add_line(number, self._panels.line(symbol, time_s))
                depth = self._panels.depth(symbol, time_s) if charted.wants_depth(time_s) else None
                if depth is not None:
                    charted.depth.put(number, time_s, depth)
        if self.algos is not None and self._market_time_ns:  # without it, the time of a fill on the chart is unknown
            for symbol, mark in self._panels.marks(self.algos.take_placed(self._market_ns() / 1e9)):
                charted = self._history.of(symbol)
                if charted is not None:
                    charted.add_mark(number, mark)
        self._sample_money(number, time_s)
        if is_live:
            now_s = self._now_ms() // 1000
            self._history.figures.put(number, now_s, self._lists.figures(now_s))
        self._lists_changed()

    def _sample_money(self, number: int, time_s: int) -> None:
        """Enter the profit; a change of the set of strategies, or of the worth of a tick, starts a new curve."""
        money = self._lists.profits(time_s)
        if money is None or self.algos is None or self.algos.link.state != "live":
            return
        curve = (str(self.scales.version), tuple(line.name for line in self._lists.strategies()))
        if curve != self._money_of:
            self._money_of = curve
            for series in (self._history.money_1s, self._history.money_1m):
                series.clear(number)
        self._history.add_money(number, money)

    def _prepare(self, scopes: set[Scope]) -> None:
        """Bring the common sections and those of some scopes up to date."""
        if self._scale_version != self.scales.version:
            self._scale_version = self.scales.version
            self._shown.clear()
        are_lists_stale, self._are_lists_stale = self._are_lists_stale, False
        self._put_links()
        if are_lists_stale:
            self._put_lists()
        changed = self._market.changed
        for scope in scopes:
            kind, name = scope
            if kind == "view":
                self._put_view(scope, name)
            elif kind == "strategy":
                self._frames.put(scope, "orders", self._lists.orders(name))
                self._frames.put(scope, "fills", self._lists.fills(name))
            elif name in changed or are_lists_stale or scope not in self._shown:
                changed.discard(name)
                self._put_symbol(scope, name)
        self._shown = set(scopes)
        self._tapes = {name: series for name, series in self._tapes.items() if ("symbol", name) in scopes}
        self._frames.keep(scopes)

    def _put_links(self) -> None:
        self._frames.put(_ALL, "links", Links(**{name: link.line for name, link in self._links.items()}))

    def _put_lists(self) -> None:
        lists, put = self._lists, self._frames.put
        put(_ALL, "engine", lists.engine())
        put(_ALL, "missing", self.results.missing)
        put(_ALL, "money", lists.money())
        put(_ALL, "traits", lists.traits())
        put(_ALL, "scales", self.scales.known(self._market.symbols))
        self._frames.put_rows(_ALL, "symbols", lists.symbols())
        self._frames.put_rows(_ALL, "views", lists.views())
        self._frames.put_rows(_ALL, "strategies", lists.strategies())
        self._frames.put_series(_ALL, self._history.sections())

    def _put_view(self, scope: Scope, name: str) -> None:
        self.opened.want(name)
        self._frames.put(scope, "about", self._lists.view(name))
        opened = self.opened.get(name)
        if opened is not None:
            self._frames.put(scope, "counts", opened.counts())
            self._frames.put_series(scope, {"rows": opened.rows, "changes": opened.changes})

    def _put_symbol(self, scope: Scope, symbol: str) -> None:
        panels, frames = self._panels, self._frames
        # A page may request any name; an unknown symbol must not use up a place in the histories.
        charted = self._history.of(symbol) if self._market.has(symbol) else None
        frames.put(scope, "book", panels.book(symbol))
        frames.put(scope, "scale", panels.scale(symbol))
        frames.put(scope, "prices", panels.prices(symbol))
        ladder = panels.ladder(symbol)
        frames.put_rows(scope, "bids", ladder["B"])
        frames.put_rows(scope, "asks", ladder["S"])
        tape = self._tapes.setdefault(symbol, Series(MOST_TRADES))
        tape.replace(frames.number, {row.number: row for row in panels.tape(symbol)})
        frames.put_series(scope, {"tape": tape, **(charted.sections() if charted else {})})
