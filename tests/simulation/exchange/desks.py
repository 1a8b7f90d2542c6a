"""The algorithm engine's desk as a client of the exchange: the real desk, with its journal and with faults.

```
trading ──▶ Desk ── journal: survives as far as synced, and some more ── OrdersConnection ──▶ Link ──▶ exchange
```

Every other process, beginning with the first, syncs its requests some time after it has sent them. The desk is
killed and paused, its disk fills, its clock is set, and it loses its connections as all clients do. At the end it must
agree with the exchange's messages to its broker about every order, every lot and every fill.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet import error
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from algo_engine.desk.desk import Desk
from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import OrderEvent, OrderStatus, Side
from algo_engine.desk.records import Checkpoint, Record
from algo_engine.desk.risk import RiskGate, RiskLimits
from algo_engine.desk.trades import MemorySpool
from algo_engine.links.backoff import LinkTimes
from algo_engine.links.orders import OrdersConnection
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import QUOTE_VIEW, Quotes
from deltabook.wire import text
from tests.simulation.exchange.audit import Ledger, expect, text_ledger
from tests.simulation.exchange.network import Link
from tests.simulation.exchange.sizes import COMPACT_BYTES
from tests.simulation.trace import Trace

__all__ = ["DESK_BROKER", "DeskClient"]

DESK_BROKER: Final = 77
_SYNC_S: Final = 0.02
"""Duration of a later sync, in seconds."""
_QUOTE: Final = {"bid_price": 99, "bid_volume": 100, "ask_price": 101, "ask_volume": 100}
_LIMITS: Final = RiskLimits(
    max_order_lots={"*": 1_000},
    max_position_lots={"*": 1_000_000},
    max_open_orders=10_000,
    orders_per_s=1_000_000,
    burst_orders=1_000_000,
    price_band_bps=10_000,
)


class _Journal(MemoryJournal):
    """Journal whose disk may be full."""

    is_full = False

    def append(self, record: Record) -> None:
        self._expect_room()
        super().append(record)

    def write(self) -> None:
        self._expect_room()
        super().write()

    def sync(self) -> None:
        self._expect_room()
        super().sync()

    def begin_sync(self) -> Callable[[], None]:
        sync = super().begin_sync()

        def sync_if_room() -> None:
            self._expect_room()
            sync()

        return sync_if_room

    def begin_compaction(self, state: Checkpoint) -> Callable[[], None]:
        self._expect_room()
        return super().begin_compaction(state)

    def _expect_room(self) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def after_a_kill(self, chance: random.Random) -> _Journal:
        """Return the journal that the next process finds: all synced records, and some of the written ones."""
        return _Journal(self.durable + self._written[: chance.randint(0, len(self._written))])


class _Wire:
    """Desk's end of a link, as its transport."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.disconnecting = False

    def write(self, data: bytes) -> None:
        self._link.up += data

    def abortConnection(self) -> None:
        self.disconnecting = True
        self._link.end()

    loseConnection = abortConnection


class DeskClient:
    """One desk over several processes; a client of the text port."""

    name = "desk"
    port = "text"

    def __init__(self, chance: random.Random, trace: Trace, start_ns: int, symbols: Sequence[str]) -> None:
        self._chance, self._trace, self._start_ns = chance, trace, start_ns
        self.clock: Any = Clock()
        self.clock_ns = 0
        """Difference of its wall clock from the elapsed time, in nanoseconds."""
        self.link: Link | None = None
        self.spool = MemorySpool()
        self.logins = self.kills = 0
        self.failure = ""
        self._late_s = 0.0
        """Time for which it has been paused, in seconds."""
        self._quotes = Quotes()
        rows = ({"symbol": symbol, **_QUOTE} for symbol in symbols)
        self._quotes.apply(ViewChange(QUOTE_VIEW, True, 0, 1, tuple(rows), ()))
        self._journal = _Journal()
        self._connection: OrdersConnection | None = None
        self.desk = self._begin()

    def _begin(self) -> Desk:
        return Desk(
            broker_id=DESK_BROKER,
            journal=self._journal,
            spool=self.spool,
            gate=RiskGate(_LIMITS, lambda: self._start_ns + self.clock_ns + int(self.clock.seconds() * 1e9)),
            quotes=self._quotes,
            clock=self.clock,
            listener=self._trace_event,
            on_failure=self._failed,
            compact_bytes=COMPACT_BYTES,
            background=self._in_background if self.kills % 2 == 0 else None,
        )

    def _in_background(self, work: Callable[[], float], ended: Callable[[float | OSError], None]) -> None:
        def end() -> None:
            try:
                result: float | OSError = work()
            except OSError as problem:
                result = problem
            ended(result)

        self.clock.callLater(_SYNC_S, end)

    # -- client of a link

    def connected(self, link: Link) -> None:
        """Log in on a new connection."""
        self.link = link
        silence_s = LinkTimes().silence_s
        connection = OrdersConnection(self.desk, _Notes(self), self.clock, silence_s)  # type: ignore[arg-type]
        self._connection = connection
        connection.makeConnection(_Wire(link))  # type: ignore[no-untyped-call]

    def received(self, data: bytes) -> None:
        """Process bytes from the exchange."""
        if self._connection is not None:
            self._connection.dataReceived(data)

    def lost(self) -> None:
        """Note that the connection was lost."""
        self.link = None
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.connectionLost(Failure(error.ConnectionDone()))  # type: ignore[no-untyped-call]

    # -- actions of the world

    def advance(self, by_s: float) -> None:
        """Advance the time and run due calls, unless the desk is paused, which a stalled link represents."""
        if self.link is not None and self.link.is_stalled:
            self._late_s += by_s
            return
        by_s, self._late_s = by_s + self._late_s, 0.0
        self.clock.advance(by_s)
        if self.failure:
            self.kill()

    def trade(self, symbol: str) -> None:
        """Send a random request, like a strategy."""
        chance, desk = self._chance, self.desk
        if desk.is_synchronised:
            self._expect_known_orders()
        resting = desk.blotter.open_orders()
        what = chance.random()
        if what < 0.5 or not resting:
            side = chance.choice((Side.BUY, Side.SELL))
            desk.submit(side, symbol, chance.randint(1, 9), chance.choice((0, 98, 99, 100, 101, 102)))
        elif what < 0.6:
            desk.cancel_all()
        else:
            order = chance.choice(resting)
            if what < 0.75:
                desk.cancel(order.client_id)
            elif what < 0.85:
                desk.reduce(order.client_id, chance.randint(1, 3))
            else:
                desk.replace(order.client_id, chance.randint(1, 9), chance.randint(97, 103))

    def kill(self) -> None:
        """Kill the desk, and start a new process from its journal."""
        self.kills += 1
        self._trace.say("the desk is killed{}", f", as {self.failure}" if self.failure else "")
        link, self._connection, self.failure = self.link, None, ""
        if link is not None:
            link.end()
        for call in self.clock.getDelayedCalls():
            call.cancel()
        self._journal = self._journal.after_a_kill(self._chance)
        self.desk = self._begin()

    def fill_disk(self, *, is_full: bool) -> None:
        """Fill the disk of the desk's journal, or free it."""
        self._journal.is_full = is_full

    # -- checks

    def is_settled(self, stream: bytes) -> bool:
        """Return True if it has received everything, and no request is pending."""
        blotter = self.desk.blotter
        return self.desk.is_synchronised and blotter.sequence == stream.count(b"\n") and not list(blotter.pending())

    def check(self, stream: bytes) -> None:
        """Check that the desk and the exchange agree about every order, every lot and every fill."""
        desk, blotter = self.desk, self.desk.blotter
        blotter._check()
        responses = [text.parse_response(line) for line in stream.splitlines()]
        accepted = [each.client_id for each in responses if each.action == "A"]
        expect(len(accepted) == len(set(accepted)), "the desk's orders were doubled: {}", accepted)
        expect(blotter.unmatched == 0, "{} messages are of orders that the desk does not know", blotter.unmatched)
        ledger: Ledger = text_ledger(stream)
        held = {order.order_id: order.remaining_lots for order in blotter.open_orders()}
        expect(held == ledger.live(), "the desk has the open orders {}, the exchange {}", held, ledger.live())
        position = sum(holding.position_lots for holding in desk.portfolio.holdings.values())
        expect(position == ledger.position, "the desk has {} lots, the exchange {}", position, ledger.position)
        fills = [each.sequence for each in responses if each.action in {"E", "F"}]
        spooled = [event.sequence for event in self.spool.fills]
        expect(spooled == fills, "the desk's trades are {}, the exchange's {}", spooled, fills)
        expect(blotter.fills == len(fills), "the desk counts {} fills, the exchange {}", blotter.fills, len(fills))
        self._expect_known_orders()

    def _expect_known_orders(self) -> None:
        """Check that no order is left whose request was sent on a lost connection and has had no answer."""
        orders = self.desk.blotter.open_orders()
        unknown = [order.client_id for order in orders if order.status is OrderStatus.UNKNOWN]
        expect(not unknown, "the state of {} is unknown", unknown)

    def _trace_event(self, event: OrderEvent) -> None:
        self._trace.say("desk: {} {}", event.kind, event.order.client_id)

    def _failed(self, reason: Exception) -> None:
        expect(isinstance(reason, OSError), "expected the desk to fail of its disk alone, was {}", reason)
        self.failure = str(reason)


class _Notes:
    """Replaces `algo_engine.links.orders.OrdersLink`: the world decides when to reconnect."""

    def __init__(self, client: DeskClient) -> None:
        self._client = client

    def connected(self) -> None:
        self._client.logins += 1

    def disconnected(self, reason: str) -> None:
        del reason

    def failed(self, error: Exception) -> None:
        self._client._failed(error)
