"""The dashboard as a whole: follows its peers, and makes the frames of the pages that are open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from twisted.internet.task import LoopingCall

from deltabook.dashboard.algos import Algos
from deltabook.dashboard.asking import Asker, HttpAsker
from deltabook.dashboard.exchange import Exchange
from deltabook.dashboard.frames import Frames, Scope
from deltabook.dashboard.history import MOST_SYMBOLS, History, Point
from deltabook.dashboard.links import Link
from deltabook.dashboard.lists import Lists
from deltabook.dashboard.looks import Looks
from deltabook.dashboard.market import Market
from deltabook.dashboard.pages import Pages
from deltabook.dashboard.panels import SymbolPanels
from deltabook.dashboard.peers import Peer
from deltabook.dashboard.records import Links
from deltabook.dashboard.results import Results
from deltabook.dashboard.scales import Scales
from deltabook.wire.access import Access, PortSecurity
from deltabook.wire.symbols import Instrument

__all__ = ["Dashboard", "DashboardConfig"]

_SAMPLE_S: Final = 1.0
_ALL: Final[Scope] = ("all", "")


class DashboardConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything it is told."""

    results: Peer
    """The runtime's results service."""
    algo: Peer | None = None
    """The status port of strategies."""
    exchange: Peer | None = None
    """The exchange's admin port."""
    scales: dict[str, Instrument] = {}
    """Symbol → what a tick and a lot are worth; ``*`` for all others. They come before what the exchange says."""
    interface: str = "127.0.0.1"
    http_port: int = 0
    """0: any that is free."""
    security: PortSecurity = PortSecurity()
    """Needed where the interface is not loopback."""
    run_id: str = ""
    """Name of all that was started together, in logs, status lines and metrics."""


class Dashboard:
    """All parts, on a given reactor."""

    def __init__(
        self,
        config: DashboardConfig,
        reactor: Any,
        now_ns: Callable[[], int],
        ask: Callable[[Peer, Any], Asker] = HttpAsker,
    ) -> None:
        """Raises `AccessError` and `DashboardError` for files that cannot be used."""
        self._config, self._now_ns = config, now_ns
        self.access: Access = config.security.access()
        self.scales, self._market, self._history = Scales(config.scales), Market(), History()
        results, algo, exchange = (Link(peer, self._now_ms) for peer in (config.results, config.algo, config.exchange))
        asker = ask(config.results, reactor)
        self.results = Results(asker, results, self._market, reactor, self._lists_changed)
        self.looks = Looks(asker, reactor, self._rows_of)
        self.algos: Algos | None = None
        self.exchange: Exchange | None = None
        if config.algo:
            self.algos = Algos(ask(config.algo, reactor), algo, reactor, self._now_s, self._lists_changed)
        if config.exchange:
            asker = ask(config.exchange, reactor)
            self.exchange = Exchange(asker, exchange, self.scales, self._market.has, reactor)
        self._links = {"results": results, "algo": algo, "exchange": exchange}
        self._lists = Lists(
            self._market,
            self.scales,
            self.results,
            looks=self.looks,
            algos=self.algos,
            exchange=self.exchange,
        )
        self._panels = SymbolPanels(self._market, self.scales, self.algos)
        self._frames = Frames(self._history)
        self.pages = Pages(self._frames, reactor, prepare=self._prepare, now_ms=self._now_ms, refusal=self._refusal)
        self._shown: set[Scope] = set()
        self._scale_version = 0
        self._are_lists_old = True
        self._sampling: Any = LoopingCall(self._sample)
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
        """For status lines."""
        return {
            **self.pages.figures(),
            "symbols": len(self._market.symbols),
            **{name: link.state for name, link in self._links.items()},
        }

    def _parts(self) -> list[Any]:
        return [part for part in (self.results, self.looks, self.algos, self.exchange) if part is not None]

    def _now_s(self) -> float:
        return self._now_ns() / 1e9

    def _now_ms(self) -> int:
        return self._now_ns() // 1_000_000

    def _refusal(self, token: str) -> str:
        """What is wrong with a page's token, which it says on its socket; where it comes from was looked at before."""
        refusal = self.access.refusal("127.0.0.1", f"Bearer {token}", None)
        return refusal[1] if refusal else ""

    def _rows_of(self, name: str) -> int:
        return next((view.rows for view in self.results.views if view.name == name), 0)

    def _lists_changed(self) -> None:
        self._are_lists_old = True

    def _sample(self) -> None:
        """Enter a point of every symbol's chart; a gap while nothing is known."""
        now_s, is_live = self._now_s(), self.results.link.state == "live"
        for symbol in self._market.symbols[:MOST_SYMBOLS]:
            point = self._panels.point(symbol, now_s) if is_live else Point(round(now_s, 2), None, None, None, None)
            self._history.add(symbol, self._frames.number + 1, point)
        if self.algos is not None:
            for symbol, marks in self._panels.marks(self.algos.take_placed()).items():
                self._history.mark(symbol, self._frames.number + 1, marks)
        self._lists_changed()

    def _prepare(self, scopes: set[Scope]) -> None:
        """Bring the sections of everybody and of some scopes up to date."""
        if self._scale_version != self.scales.version:
            self._scale_version = self.scales.version
            self._history.forget(self._frames.number)
            self._shown.clear()
        are_lists_old, self._are_lists_old = self._are_lists_old, False
        self._put_links()
        if are_lists_old:
            self._put_lists()
        changed = self._market.changed
        for scope in scopes:
            kind, name = scope
            if kind == "view":
                self.looks.want(name)
                self._frames.put(scope, "about", self._lists.view(name))
            elif kind == "strategy":
                self._frames.put(scope, "orders", self._lists.orders(name))
                self._frames.put(scope, "fills", self._lists.fills(name))
            elif name in changed or are_lists_old or scope not in self._shown:
                changed.discard(name)
                self._put_symbol(scope, name)
        self._shown = set(scopes)
        self._frames.keep(scopes)

    def _put_links(self) -> None:
        self._frames.put(_ALL, "links", Links(**{name: link.line for name, link in self._links.items()}))

    def _put_lists(self) -> None:
        lists, put = self._lists, self._frames.put
        put(_ALL, "engine", lists.engine())
        put(_ALL, "symbols", lists.symbols())
        put(_ALL, "views", lists.views())
        put(_ALL, "missing", self.results.missing)
        put(_ALL, "strategies", lists.strategies())

    def _put_symbol(self, scope: Scope, symbol: str) -> None:
        panels, put = self._panels, self._frames.put
        put(scope, "book", panels.book(symbol))
        put(scope, "tape", panels.tape(symbol))
        put(scope, "prices", panels.prices(symbol))
