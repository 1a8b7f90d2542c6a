"""Followers of an exchange, of a process of strategies and of a runtime: each polls one peer's state round by round."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

import msgspec
from twisted.internet.protocol import Protocol, connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.dashboard.market import VIEWS, DisplayedMarket
from deltabook.dashboard.peers import Link, PeerRequests, Rounds
from deltabook.dashboard.scales import Scales
from deltabook.wire.admin import BOOK_PATH, STATISTICS_PATH, Book, Statistics, SymbolLine
from deltabook.wire.admin import STATUS_PATH as EXCHANGE_STATUS_PATH
from deltabook.wire.http.peer import ClientError
from deltabook.wire.results import FrameDecoder, FrameError
from deltabook.wire.strategies import FILLS_PATH, ORDERS_PATH, FillLine, Fills, Orders, Strategies
from deltabook.wire.strategies import STATUS_PATH as STRATEGIES_STATUS_PATH
from deltabook.wire.symbols import Instrument

__all__ = ["MOST_FILLS", "AlgoFollower", "ExchangeFollower", "ResultsFollower", "ViewDescription"]

_EXCHANGE_ROUND_S: Final = 1.0
"""Time between two rounds of requests, in seconds."""
_MOST_PAGES: Final = 10
"""Largest number of pages of the list of symbols."""
_MOST_NEW: Final = 50
"""Largest number of symbols whose scale is requested in one round."""

_statistics: Final = msgspec.json.Decoder(Statistics)
_book: Final = msgspec.json.Decoder(Book)


class _Status(msgspec.Struct, frozen=True):
    """Fields of the exchange's status."""

    up_s: float
    """Age of its process in seconds."""


_status: Final = msgspec.json.Decoder(_Status)


class ExchangeFollower:
    """Follower of one exchange. The last known state stays when the connection is lost."""

    def __init__(
        self, asker: PeerRequests, link: Link, scales: Scales, wanted: Callable[[str], bool], clock: Any
    ) -> None:
        """Make a follower; ``wanted`` returns True for symbols whose scale is needed."""
        self.link = link
        self.phases: dict[str, str] = {}
        """Trading phase by symbol, mostly ``continuous``."""
        self._asker, self._scales, self._wanted = asker, scales, wanted
        self._lots: dict[str, str] = {}
        self._rounds = Rounds(clock, _EXCHANGE_ROUND_S, self._round, link.lost)

    def start(self) -> None:
        """Start the rounds."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop the rounds."""
        self._rounds.stop()

    async def _round(self) -> None:
        lines: list[SymbolLine] = []
        for _ in range(_MOST_PAGES):
            after = f"?after={quote(lines[-1].symbol, safe='')}" if lines else ""
            page = _statistics.decode(await self._asker.ask(f"{STATISTICS_PATH}{after}"))
            lines.extend(page.symbols)
            if not page.symbols or len(lines) >= page.total_symbols:
                break
        self.phases = {line.symbol: line.phase for line in lines}
        new = [line for line in lines if line.symbol not in self._lots and self._wanted(line.symbol)]
        for line in new[:_MOST_NEW]:
            book = _book.decode(await self._asker.ask(f"{BOOK_PATH}{quote(line.symbol, safe='')}?depth=1"))
            self._lots[line.symbol] = book.lot_size
            self._scales.learn(Instrument(line.symbol, book.tick_size, book.lot_size))
        self.link.up(_status.decode(await self._asker.ask(EXCHANGE_STATUS_PATH)).up_s)
        self.link.live()


_ALGO_ROUND_S: Final = 0.3
"""Time between two rounds of requests, in seconds."""
_ORDERS_EVERY: Final = 3
"""Number of rounds between two requests for the orders."""
MOST_FILLS: Final = 2_000
"""Greatest number of fills that are kept: the newest fills of all strategies."""
_DAY_S: Final = 86_400.0
"""Time span of a chart, in seconds."""

_strategies: Final = msgspec.json.Decoder(Strategies)
_fills: Final = msgspec.json.Decoder(Fills)
_orders: Final = msgspec.json.Decoder(Orders)


class AlgoFollower:
    """Follower of one process of strategies. The last known state stays when the connection is lost."""

    def __init__(self, asker: PeerRequests, link: Link, clock: Any, on_round: Callable[[], None]) -> None:
        self.link = link
        self.strategies: Strategies | None = None
        """State of the strategies; None before the first answer."""
        self.orders = Orders(())
        """Newest own orders."""
        self.fills: deque[FillLine] = deque(maxlen=MOST_FILLS)
        """Fills, oldest first."""
        self._unplaced: deque[tuple[FillLine, bool]] = deque(maxlen=MOST_FILLS)
        """Fills that `take_placed` has not returned yet, each with True if the fill arrived while its process was
        followed.
        """
        self._asker, self._on_round = asker, on_round
        self._run, self._after, self._round_number = "", 0, 0
        self._rounds = Rounds(clock, _ALGO_ROUND_S, self._round, self._failed)

    def start(self) -> None:
        """Start the rounds."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop the rounds."""
        self._rounds.stop()

    async def _round(self) -> None:
        report = _strategies.decode(await self._asker.ask(STRATEGIES_STATUS_PATH))
        if report.run != self._run:
            # A new process numbers its fills from 1. The fills of the earlier process are removed from the lists; their
            # marks stay in the charts.
            self._run, self._after = report.run, 0
            self.fills.clear()
            self._unplaced.clear()
            self._round_number = 0
        while report.last_fill > self._after:
            fills = _fills.decode(await self._asker.ask(f"{FILLS_PATH}?after={self._after}"))
            if fills.run != self._run or not fills.fills or fills.fills[-1].number <= self._after:
                break
            self.fills.extend(fills.fills)
            is_new = self.strategies is not None and self.strategies.run == self._run
            self._unplaced.extend((fill, is_new) for fill in fills.fills if fill.volume_lots > 0)
            self._after = max(fills.last, fills.fills[-1].number)
        if self._round_number % _ORDERS_EVERY == 0:
            self.orders = _orders.decode(await self._asker.ask(ORDERS_PATH))
        self._round_number += 1
        self.strategies = report
        self.link.up(report.up_s)
        self.link.live()
        self._on_round()

    def take_placed(self, market_s: float) -> list[tuple[FillLine, float]]:
        """Return the new fills that have a known market time, oldest first, each with this time in seconds.

        ``market_s`` is the market time of the runtime's views. If ``market_s`` counts from midnight and the exchange's
        time does not, a fill that has just arrived gets ``market_s``, and the time of an older fill is unknown.
        """
        placed: list[tuple[FillLine, float]] = []
        for fill, is_new in self._unplaced:
            time_s = fill.time_ns / 1e9
            if abs(market_s - time_s) <= _DAY_S:
                placed.append((fill, time_s))
            elif is_new:
                placed.append((fill, market_s))
        self._unplaced.clear()
        return placed

    def _failed(self, reason: str) -> None:
        self.link.lost(reason)
        self._on_round()


_RUNTIME_ROUND_S: Final = 0.5
"""Time between two rounds of requests, in seconds."""
_VIEWS_EVERY: Final = 4
"""Number of rounds between requests of `/v1/views`, whose row counts the runtime has to compute."""
_SILENCE_S: Final = 4.0
"""Seconds without a message after which a subscription's views are stale; heartbeats come every second."""
_DEAD_S: Final = 20.0
"""Seconds without a message after which a subscription is started again."""
LANES: Final = ("express", "spark", "stream")
"""Lanes of views; each has a subscription of its own."""


class ViewColumn(msgspec.Struct, frozen=True):
    """One column of a view."""

    name: str
    """Name of the column."""
    type: str = ""
    """Type of its values, such as ``int64``."""
    scale: int = 0
    """Digits after the point of a scaled integer, otherwise 0."""


class SparkRecord(msgspec.Struct, frozen=True):
    """The runtime's description of an express view's record on Spark."""

    comparison: str = "none"
    """Result of comparing both lanes' rows: ``none``, ``equal`` or ``differs``."""


class ViewDescription(msgspec.Struct, frozen=True, rename={"view_class": "class"}):
    """The runtime's description of one view."""

    name: str
    """Name of the view."""
    view_class: str = ""
    """Class of the view, such as ``linear``."""
    lane: str = "spark"
    """Lane: ``express``, ``spark``, or ``stream`` for a derived stream."""
    reason: str = ""
    """Reason for the class."""
    columns: tuple[ViewColumn, ...] = ()
    """Columns in their order."""
    rows: int = 0
    """Number of rows at the newest version."""
    epoch: int = 0
    """Epoch of the newest version."""
    step: int = 0
    """Step of the newest version of a view of the express lane, otherwise 0."""
    since: int = 0
    """Epoch from which on the view is maintained."""
    failed: str | None = None
    """Reason why the view is not maintained any more; None if it is maintained."""
    sql: str = ""
    """SELECT of the view."""
    record: SparkRecord | None = None
    """State of an express view's record on Spark; None if Spark keeps none."""


_views: Final = msgspec.json.Decoder(tuple[ViewDescription, ...])


class _Changes(Protocol):
    """Reads the endless answer with the changes of one lane's views."""

    def __init__(self, results: ResultsFollower, views: tuple[str, ...]) -> None:
        self._results, self.views = results, views
        self.received_s = results.clock.seconds()
        self._decoder = FrameDecoder()

    def dataReceived(self, data: bytes) -> None:
        self.received_s = self._results.clock.seconds()
        try:
            for frame in self._decoder.feed(data):
                self._results.market.apply(frame)
                if frame.header.kind == "error":  # the next round may find the view added again
                    self.abort()
        except (FrameError, LookupError, ValueError) as error:
            self._results.broken(self, str(error))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        del reason
        self._results.ended(self)

    def abort(self) -> None:
        """Close the connection that carries the response; Twisted's interfaces do not declare the method."""
        transport: Any = self.transport
        abort = getattr(transport, "abortConnection", None) or getattr(transport, "loseConnection", None)
        if abort is not None:
            abort()


class ResultsFollower:
    """Follower of one runtime. The last known state stays when the connection is lost."""

    _log = Logger()

    def __init__(
        self, asker: PeerRequests, link: Link, market: DisplayedMarket, clock: Any, on_round: Callable[[], None]
    ) -> None:
        self.clock, self.market = clock, market
        self.link = link
        self.figures: Mapping[str, Any] = {}
        """Figures of ``/v1/status``, and further ones of ``/v1/statistics``."""
        self.views: tuple[ViewDescription, ...] = ()
        """Views in the runtime's order."""
        self.missing: dict[str, str] = {}
        """Reason, by view, why a view that a panel needs is missing; empty before the first answer."""
        self._asker = asker
        self._on_round = on_round
        self._changes: dict[str, _Changes] = {}
        self._statistics: Mapping[str, Any] = {}
        self._round_number = 0
        self._rounds = Rounds(clock, _RUNTIME_ROUND_S, self._round, self._failed)

    def start(self) -> None:
        """Start the rounds."""
        self._rounds.start()

    def stop(self) -> None:
        """Stop the rounds."""
        self._rounds.stop()
        for changes in tuple(self._changes.values()):
            changes.abort()

    def broken(self, changes: _Changes, reason: str) -> None:
        """Abort a subscription whose messages cannot be read."""
        self._log.warn("changes of {views}: {reason}", views=", ".join(changes.views), reason=reason)
        changes.abort()

    def ended(self, changes: _Changes) -> None:
        """Remove a subscription that has ended; the next round requests the list of views, and starts another
        subscription.
        """
        self._round_number = 0
        for lane, current in tuple(self._changes.items()):
            if current is changes:
                del self._changes[lane]

    async def _round(self) -> None:
        status = msgspec.json.decode(await self._asker.ask("/v1/status"), type=dict[str, Any])
        if self._round_number % _VIEWS_EVERY == 0:
            self._statistics = await self._ask_statistics()
            self.views = _views.decode(await self._asker.ask("/v1/views"))
        self._round_number += 1
        self.figures = {**self._statistics, **status}
        wanted = self._wanted()
        for lane in LANES:
            await self._subscribe(lane, wanted.get(lane, ()))
        self._report_state(wanted)
        self._on_round()

    async def _ask_statistics(self) -> dict[str, Any]:
        """Return figures that the status lacks, such as memory; empty for a runtime without statistics."""
        try:
            answer = msgspec.json.decode(await self._asker.ask("/v1/statistics"), type=dict[str, Any])
        except ClientError:
            return {}
        up_s = answer.get("up_s")
        if isinstance(up_s, int | float):
            self.link.up(up_s)
        return answer

    def _wanted(self) -> dict[str, tuple[str, ...]]:
        """Return the views to subscribe to, by lane."""
        offered = {view.name: view for view in self.views}
        self.missing = {}
        wanted: dict[str, list[str]] = {}
        for name, columns in VIEWS.items():
            view = offered.get(name)
            lacking = [column for column in columns if view and all(c.name != column for c in view.columns)]
            if view is None:
                self.missing[name] = "the runtime does not keep it"
            elif view.failed is not None:
                self.missing[name] = f"it failed: {view.failed}"
            elif lacking:
                self.missing[name] = f"it has no column {', '.join(lacking)}"
            else:
                wanted.setdefault(view.lane, []).append(name)
                continue
            self.market.forget(name)
        return {lane: tuple(sorted(names)) for lane, names in wanted.items()}

    async def _subscribe(self, lane: str, views: tuple[str, ...]) -> None:
        current = self._changes.get(lane)
        silent_s = self.clock.seconds() - current.received_s if current else 0.0
        if current is not None and (current.views != views or silent_s >= _DEAD_S):
            del self._changes[lane]
            current.abort()
            current = None
        if current is None and views:
            # The subscription is entered before the request, whose answer may end at once.
            changes = self._changes[lane] = _Changes(self, views)
            try:
                names = ",".join(quote(view, safe="") for view in views)
                await self._asker.listen(f"/v1/changes?views={names}", changes)
            except BaseException:
                self.ended(changes)
                raise

    def _report_state(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        now_s = self.clock.seconds()
        silent = [
            lane for lane in wanted if lane in self._changes and now_s - self._changes[lane].received_s > _SILENCE_S
        ]
        if self.figures.get("spark") == "starting":
            silent = [lane for lane in silent if lane != "spark"]  # Spark's views follow once Spark is up
        if silent:
            self.link.stale(
                f"It answers, but holds back its views of the lane{'s' * (len(silent) > 1)} {' and '.join(silent)}: "
                "its feed is lost, or Spark is far behind."
            )
        elif self.figures.get("paused"):
            self.link.stale("It has paused its feed: its directory is full.")
        else:
            self.link.live()

    def _failed(self, reason: str) -> None:
        self._round_number = 0
        self.link.lost(reason)
        self._on_round()
