"""Whole loop in memory: exchange, runtime and algorithm engine of the live system, with bytes moved by hand.

The exchange has its journal, text server and player. The runtime has formatter, adaptor, express lane, hub and frames.
The algorithm engine has the connection for orders, desk, host and engine. All of these run as they do live, on one
clock, whereas a backtest skips them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from twisted.internet.testing import StringTransport

from algo_engine.desk.desk import Desk
from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import OrderEvent
from algo_engine.desk.risk import RiskGate
from algo_engine.desk.trades import MemorySpool, Trade, trade_of
from algo_engine.engine import Engine
from algo_engine.host import StrategyHost
from algo_engine.links.orders import OrdersConnection
from algo_engine.loader import load_strategies
from algo_engine.views.mirror import ViewMirror
from algo_engine.views.quotes import QUOTE_VIEW, Quotes
from deltabook.backtest.clock import SimulatedClock
from deltabook.backtest.views import find_views
from deltabook.wire.results import FrameDecoder
from deltabook.wire.symbols import Instrument
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.matching import MarketRules, Now
from exchange_server.text import TextEncoder, TextLimits, TextProtocol, TextServer
from runtime.compiler import MARKET_RELATIONS, Program, compile_program
from runtime.engine.express import ExpressState, ExpressViews, Filling, Update
from runtime.engine.ingest import Deltas
from runtime.engine.plan import Context
from runtime.epochs import Cut, EpochLog, SnapshotDirectory
from runtime.formats import InputFormatter, RawBuffer
from runtime.plan import lane_program
from runtime.relations import FEED_SCHEMA, FeedAdaptor, Retention
from runtime.service.results.hub import Hub
from runtime.service.subscriptions.subscription import Listener
from runtime.service.subscriptions.viewstream import Message, arrow_frame
from runtime.state import MemoryStore, ObjectSpace

__all__ = ["TradingLoop"]

SYMBOL = "ACME"


class _Wire(StringTransport):
    """Transport whose bytes are read by the loop."""

    def take(self) -> bytes:
        """Return the bytes since the last call."""
        data = bytes(self.value())  # type: ignore[no-untyped-call]
        self.clear()  # type: ignore[no-untyped-call]
        return data


class _Frames(Listener):
    """Subscriber of the hub: encodes frames to bytes, and decodes them."""

    reads_arrow = True

    def __init__(self, engine: Engine) -> None:
        self._engine, self._decoder = engine, FrameDecoder()
        self._data: list[bytes] = []

    def write(self, message: Message) -> None:
        """See `runtime.service.subscriptions.subscription.Listener`."""
        self._data.append(message.encoded(arrow_frame))

    def flush(self) -> None:
        """See `runtime.service.subscriptions.subscription.Listener`."""

    def finish(self) -> None:
        """See `runtime.service.subscriptions.subscription.Listener`."""

    def deliver(self) -> None:
        """Let the engine process the sent frames."""
        data, self._data = b"".join(self._data), []
        for frame in self._decoder.feed(data):
            self._engine.frame(frame)


class _Runtime:
    """Runtime that takes feed bytes and publishes versions of the express lane."""

    def __init__(self, directory: Path, views: Sequence[str], now_ns: Callable[[], int]) -> None:
        program = compile_program(find_views(views, {}), MARKET_RELATIONS)
        program = lane_program(_express(program), "express")
        space = ObjectSpace(MemoryStore())
        self._formatter = InputFormatter(FEED_SCHEMA)
        self._adaptor = FeedAdaptor(space, "feed", Retention())
        filling = Filling(EpochLog(directory / "epochs"), SnapshotDirectory(directory / "snapshots"))
        self._views = ExpressViews(ExpressState(), filling, 0, {}, self._publish)
        self._views.begin(program)
        self.hub = Hub(program, now_ns)
        self.hub.begin_lane(program, self._views.rows(), {}, 0, {})
        self._buffers = self._offset = 0

    def take(self, data: bytes) -> None:
        """Process bytes of the exchange."""
        self._buffers += 1
        formatted = self._formatter.format([RawBuffer(1, self._buffers, data, self._offset)])
        self._offset += len(data)
        for batch in formatted.batches:
            prepared = self._adaptor.prepare(batch.rows, batch.row_ends)
            relations = self._adaptor.apply(prepared)
            if relations:
                cut = Cut("S", self._adaptor.next_sequence - 1, 0)
                deltas = Deltas(relations, batch.rows.num_rows, {"feed": cut})
                self._views.execute([deltas], cast(Context, None))  # a step does not use it

    def _publish(self, update: Update) -> None:
        self.hub.publish_update(update)


def _express(program: Program) -> Program:
    views = tuple(msgspec.structs.replace(view, lane="express") for view in program.views)
    return msgspec.structs.replace(program, views=views)


class _Link:
    """Link that accepts the login, and fails on any other event."""

    def connected(self) -> None:
        """Do nothing for an accepted login."""

    def disconnected(self, reason: str) -> None:
        """Raise an error: this must not happen."""
        raise AssertionError(reason)

    def failed(self, error: Exception) -> None:
        """Raise the error: this must not happen."""
        raise error


class TradingLoop:
    """One strategy in the market; ``requests`` are all bytes that the strategy has sent."""

    def __init__(self, directory: Path, strategy: str, parameters: Sequence[str], begin_ns: int) -> None:
        self.clock = SimulatedClock(begin_ns)
        rules, now = MarketRules((Instrument(SYMBOL),)), Now()
        self.exchange = Exchange(
            Journal(directory / "exchange", rules, lambda: "SESSION1", "never"),
            MarketClock(self.clock.seconds, begin_ns),
            {"text": TextEncoder(rules, now)},
            [TextProtocol(rules)],
            now,
        )
        self.failures: list[str] = []
        self.server = TextServer(self.exchange, self.clock, TextLimits(), self.failures.append)
        self.server.startFactory()
        self.requests: list[bytes] = []
        self._assemble(directory, strategy, parameters)

    def _assemble(self, directory: Path, strategy: str, parameters: Sequence[str]) -> None:
        loaded = load_strategies([strategy], parameters)[0]
        self._mirror, self._quotes = ViewMirror(), Quotes()
        self.spool = MemorySpool()

        def make_desk(listener: Callable[[OrderEvent], None]) -> Desk:
            return Desk(
                broker_id=9001, journal=MemoryJournal(), spool=self.spool,
                gate=RiskGate(loaded.limits, lambda: self.clock.now_ns), quotes=self._quotes, clock=self.clock,
                listener=listener, on_failure=_raised,
            )  # fmt: skip

        self.host = StrategyHost(
            loaded=loaded, mirror=self._mirror, quotes=self._quotes, clock=self.clock,
            now_ns=lambda: self.clock.now_ns, make_desk=make_desk,
        )  # fmt: skip
        self.engine = Engine(
            hosts=[self.host], mirror=self._mirror, quotes=self._quotes, clock=self.clock, adopt=False, stale_s=2,
            on_failure=_raised, on_synchronised=lambda: None,
        )  # fmt: skip
        views = sorted({QUOTE_VIEW, *loaded.strategy.views})
        self._runtime = _Runtime(directory / "runtime", views, lambda: self.clock.now_ns)
        self._frames = _Frames(self.engine)
        subscription = self._runtime.hub.subscribe(views, self._frames)
        assert subscription is not None
        subscription.catch_up()
        self._frames.deliver()
        self._feed, self._feed_wire = self.connect("1,,1")
        self._feed_wire.take()
        orders: Any = OrdersConnection(self.host.desk, _Link(), self.clock, 1e6)  # type: ignore[arg-type]
        self._orders = orders
        self._orders_wire: Any = _Wire()  # type: ignore[no-untyped-call]
        self._private, self._private_wire = self.connect()
        orders.makeConnection(self._orders_wire)
        self._private.dataReceived(self._orders_wire.take())
        self.settle()

    def connect(self, login: str = "") -> tuple[Any, Any]:
        """Return a connection to the exchange and its transport; with a login it is logged in."""
        connection: Any = self.server.buildProtocol(None)
        wire: Any = _Wire()  # type: ignore[no-untyped-call]
        connection.makeConnection(wire)
        if login:
            connection.dataReceived(login.encode() + b"\n")
        return connection, wire

    def advance(self, until_ns: int) -> None:
        """Advance the time, and process all events on the way."""
        while self.clock.next_ns <= until_ns:
            self.clock.advance(self.clock.next_ns)
            self.settle()
        self.clock.advance(until_ns)
        self.settle()

    def settle(self) -> None:
        """Move bytes until none are pending: answers first, then the feed, then requests of strategies."""
        while True:
            self.clock.run_turn()
            private, feed = self._private_wire.take(), self._feed_wire.take()
            if private:
                self._orders.dataReceived(private)
            if feed:
                self._runtime.take(feed)
                self._frames.deliver()
            self.clock.run_turn()
            asked = self._orders_wire.take()
            if asked:
                self.requests.append(asked)
                self._private.dataReceived(asked)
            if not (private or feed or asked):
                return

    def finish(self) -> list[Trade]:
        """Stop the strategy; return its list of trades."""
        self.engine.stop()
        self.settle()
        self.server.close()
        self.exchange.close()
        assert self.failures == []
        return [trade_of(event, self.host.name, 9001) for event in self.spool.fills]


def _raised(error: Exception) -> None:
    raise error
