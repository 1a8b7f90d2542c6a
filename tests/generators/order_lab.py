"""Desk and exchange in memory, and every point between them at which a crash can happen.

A crash is the death of the process or a power loss. Pending syncs run when a test says so. The exchange follows the
text protocol's contract and does no matching: tests decide which order is executed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec
from twisted.internet.task import Clock

from algo_engine.desk.desk import Desk
from algo_engine.desk.fees import FREE, FeeSchedule
from algo_engine.desk.journal import MemoryJournal
from algo_engine.desk.order import OrderEvent
from algo_engine.desk.records import Record
from algo_engine.desk.risk import RiskGate, RiskLimits
from algo_engine.desk.trades import MemorySpool
from algo_engine.stages import OrderStages
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quotes
from deltabook.wire.text import (
    Accepted,
    InteractiveLogin,
    Refused,
    Request,
    Response,
    encode_response,
    parse_request,
    parse_response,
)

__all__ = ["BROKER", "LIMITS", "FakeExchange", "LossySpool", "OrderLab", "Resting", "quote_change"]

BROKER = 9001
LIMITS = RiskLimits(
    max_order_lots={"*": 1000},
    max_position_lots={"*": 1_000_000},
    max_open_orders=10_000,
    orders_per_s=1_000_000,
    burst_orders=1_000_000,
)


def quote_change(symbol: str = "ACME", bid: int = 99, ask: int = 101, lots: int = 100) -> ViewChange:
    """Return a snapshot of ``best_quote`` with one symbol."""
    row = {"symbol": symbol, "bid_price": bid, "bid_volume": lots, "ask_price": ask, "ask_volume": lots}
    return ViewChange("best_quote", True, 0, 1, (row,), ())


class Resting(msgspec.Struct):
    """Order in the fake exchange."""

    order_id: int
    broker_id: int
    client_id: int
    side: str
    left: int
    price: int
    symbol: str
    ref: int
    """Number of the request that made the order or last replaced it; it may differ from the client id."""


class Executed(msgspec.Struct, frozen=True):
    """Execution in the fake exchange; its match number is its place in the list."""

    order: Resting
    volume: int
    price: int


class FakeExchange:
    """Processes requests and fills private streams; orders rest until a test says otherwise."""

    def __init__(self, session: str = "S1") -> None:
        self.session = session
        self.streams: dict[int, list[Response]] = {}
        self.last_client_ids: dict[int, int] = {}
        self.resting: dict[int, Resting] = {}
        self.accepted: list[int] = []
        self.positions: dict[int, int] = {}
        self.executed: list[Executed] = []
        self.void: dict[int, None] = {}
        """Matches that were declared void."""
        self._next_order_id = 1
        self._time_ns = 0

    def login(self, login: InteractiveLogin) -> tuple[Accepted | Refused, list[Response]]:
        """Return the reply to a login, and the messages that the client has missed."""
        broker = login.broker_id or 0
        stream = self.streams.setdefault(broker, [])
        if login.session not in ("", self.session):
            return Refused("session", f"expected {self.session} was {login.session}"), []
        first = login.sequence or len(stream) + 1
        if first > len(stream) + 1:
            return Refused("sequence", f"expected at most {len(stream) + 1} was {first}"), []
        return Accepted(self.session, first, self.last_client_ids.get(broker, 0)), stream[first - 1 :]

    def request(self, r: Request) -> list[Response]:
        """Process one request; return the new messages for its connection."""
        stream = self.streams.setdefault(r.broker_id, [])
        if r.client_id <= self.last_client_ids.get(r.broker_id, 0):
            return [Response(0, 0, r.order_id, r.broker_id, "R", 0, 0, r.symbol, r.client_id, "duplicate")]
        self.last_client_ids[r.broker_id] = r.client_id
        self._time_ns += 1
        before = len(stream)
        order = self.resting.get(r.order_id)
        if r.action in ("B", "S"):
            self._accept(r)
        elif order is None:
            self._tell(r.broker_id, r.order_id, "R", r.volume, 0, r.symbol, r.client_id, "unknown order")
        elif r.action == "U":
            self._replace(order, r)
        elif r.action == "D" or r.volume >= order.left:
            self.end(order.order_id, "user")
        else:
            order.left -= r.volume
            self._tell(r.broker_id, r.order_id, "X", r.volume, order.price, r.symbol, r.client_id, "user")
        return stream[before:]

    def _accept(self, r: Request) -> None:
        if 900 < r.volume < 1000:
            self._tell(r.broker_id, 0, "R", r.volume, r.price, r.symbol, r.client_id, "too large")
            return
        order = Resting(
            self._next_order_id, r.broker_id, r.client_id, r.action, r.volume, r.price, r.symbol, r.client_id
        )
        self._next_order_id += 1
        self.accepted.append(r.client_id)
        self.resting[order.order_id] = order
        self._tell(r.broker_id, order.order_id, "A", r.volume, r.price, r.symbol, r.client_id, r.action)
        if r.price == 0:
            self.fill(order.order_id, max(1, r.volume // 2), 100)
            if order.order_id in self.resting:
                self.end(order.order_id, "market")

    def _replace(self, order: Resting, r: Request) -> None:
        if r.price == order.price and r.volume <= order.left:
            removed, order.left = order.left - r.volume, r.volume
            action, volume, detail = ("X", removed, "user") if removed else ("U", order.left, str(order.order_id))
            self._tell(r.broker_id, order.order_id, action, volume, r.price, r.symbol, r.client_id, detail)
        elif r.volume < 1 or r.price <= 0 or 900 < r.volume < 1000:
            self._tell(r.broker_id, r.order_id, "R", r.volume, r.price, r.symbol, r.client_id, "cannot be")
        else:
            old = order.order_id
            del self.resting[old]
            order.order_id, order.left, order.price, order.ref = self._next_order_id, r.volume, r.price, r.client_id
            self._next_order_id += 1
            self.resting[order.order_id] = order
            self._tell(r.broker_id, order.order_id, "U", order.left, order.price, r.symbol, order.ref, str(old))

    def fill(self, order_id: int, volume: int, price: int) -> None:
        """Execute a part of an order, or all of its rest."""
        order = self.resting[order_id]
        volume = min(volume, order.left)
        order.left -= volume
        sign = 1 if order.side == "B" else -1
        self.positions[order.broker_id] = self.positions.get(order.broker_id, 0) + sign * volume
        self.executed.append(Executed(msgspec.structs.replace(order), volume, price))
        action = "E" if order.left else "F"
        self._tell(order.broker_id, order_id, action, volume, price, order.symbol, order.ref, "maker")
        if not order.left:
            del self.resting[order_id]

    def declare_void(self, match: int) -> None:
        """Notify the owner that an execution is void; the exchange may do so again."""
        done = self.executed[match]
        order = done.order
        if match not in self.void:
            self.void[match] = None
            self.positions[order.broker_id] -= done.volume if order.side == "B" else -done.volume
        self._tell(order.broker_id, order.order_id, "B", done.volume, done.price, order.symbol, order.ref, str(match))

    def end(self, order_id: int, why: str) -> None:
        """Cancel the rest of an order."""
        order = self.resting.pop(order_id)
        self._tell(order.broker_id, order_id, "D", order.left, order.price, order.symbol, order.ref, why)

    def _tell(
        self, broker: int, order_id: int, action: str, volume: int, price: int, symbol: str, client_id: int, detail: str
    ) -> None:
        stream = self.streams.setdefault(broker, [])
        stream.append(
            Response(len(stream) + 1, self._time_ns, order_id, broker, action, volume, price, symbol, client_id, detail)
        )


class LossySpool(MemorySpool):
    """Spool that loses its unsynced fills in a power loss."""

    def __init__(self) -> None:
        super().__init__()
        self._durable = 0

    def begin_sync(self) -> Callable[[], None]:
        """See `TradeSpool.begin_sync`."""
        end = len(self.fills)

        def sync() -> None:
            self._durable = max(self._durable, end)

        return sync

    def lose_power(self) -> None:
        """Drop the unsynced fills, as in a crash of the machine."""
        del self.fills[self._durable :]


class OrderLab:
    """One desk, one exchange, and the bytes between them."""

    def __init__(
        self,
        *,
        limits: RiskLimits = LIMITS,
        compact_bytes: int = 1 << 30,
        make_journal: Callable[[list[Record]], MemoryJournal] = MemoryJournal,
        fees: FeeSchedule = FREE,
        is_behind: bool = False,
        syncs_before: bool = False,
    ) -> None:
        """Create a lab; with ``is_behind``, syncs and the compaction of the journal wait until a test runs them.

        Requests are then synced after they are sent, or with ``syncs_before`` before they are sent.
        """
        self.exchange = FakeExchange()
        self.clock: Any = Clock()
        self.quotes = Quotes()
        self.quotes.apply(quote_change())
        self.limits = limits
        self.fees = fees
        self.compact_bytes = compact_bytes
        self.spool: MemorySpool = LossySpool()
        self.is_behind, self.syncs_before = is_behind, syncs_before
        self.syncs: deque[tuple[Callable[[], float], Callable[[float | OSError], None]]] = deque()
        self.stages = OrderStages(self.clock.seconds)
        self.events: list[OrderEvent] = []
        self.failures: list[Exception] = []
        self.is_connected = False
        self.requests: deque[bytes] = deque()
        self.late: deque[bytes] = deque()
        self.responses: deque[Response] = deque()
        self._seen = 0
        self.make_journal = make_journal
        self.journal = make_journal([])
        self.desk = self._make_desk()

    def _make_desk(self) -> Desk:
        return Desk(
            broker_id=BROKER,
            journal=self.journal,
            spool=self.spool,
            gate=RiskGate(self.limits, lambda: int(self.clock.seconds() * 1e9)),
            quotes=self.quotes,
            clock=self.clock,
            listener=self.events.append,
            on_failure=self.failures.append,
            compact_bytes=self.compact_bytes,
            fees=self.fees,
            background=self._in_background if self.is_behind else None,
            syncs_before=self.syncs_before,
            stages=self.stages,
        )

    def _in_background(self, work: Callable[[], float], ended: Callable[[float | OSError], None]) -> None:
        self.syncs.append((work, ended))

    def finish_sync(self) -> None:
        """Finish one pending sync."""
        if not self.syncs:
            return
        work, ended = self.syncs.popleft()
        try:
            result: float | OSError = work()
        except OSError as error:
            result = error
        ended(result)

    def connect(self) -> None:
        """Log in; the reply and all missed messages are pending."""
        reply, missed = self.exchange.login(self.desk.login())
        assert isinstance(reply, Accepted), reply
        self.is_connected = True
        self._seen = len(self.exchange.streams[BROKER])
        self.responses.extend(missed)
        self.desk.opened(reply, lambda data: self.requests.extend(data.splitlines(keepends=True)))

    def turn(self) -> None:
        """Make one turn of the reactor, in which written requests are sent."""
        self.clock.advance(0)

    def deliver_request(self) -> None:
        """Deliver one request to the exchange."""
        if self.requests:
            self._process(self.requests.popleft(), is_current=True)

    def deliver_late(self) -> None:
        """Deliver one request of a lost connection to the exchange."""
        if self.late:
            self._process(self.late.popleft(), is_current=False)

    def deliver_response(self) -> None:
        """Deliver one message of the private stream to the desk, through its bytes."""
        if self.responses:
            self.desk.receive(parse_response(encode_response(self.responses.popleft())))

    def drop(self, *, arriving: int = 0) -> None:
        """Break the connection; ``arriving`` pending requests will still arrive later."""
        self.late.extend(list(self.requests)[:arriving])
        self._disconnect()
        self.desk.lost()

    def crash(self, *, arriving: int = 0, written: int = 0) -> None:
        """Crash and restart the machine; ``written`` records beyond the last sync have reached the disk."""
        if isinstance(self.spool, LossySpool):
            self.spool.lose_power()
        self._restart(self.journal.durable + self.journal._written[:written], arriving)

    @property
    def survivors(self) -> list[Record]:
        """Records that would survive the death of the process."""
        return self.journal.durable + self.journal._written[: self.journal._in_system]

    def kill(self, *, arriving: int = 0) -> None:
        """Kill and restart the process; records passed to the system survive."""
        self._restart(self.survivors, arriving)

    def _restart(self, records: list[Record], arriving: int) -> None:
        self.late.extend(list(self.requests)[:arriving])
        self._disconnect()
        self.syncs.clear()
        for call in self.clock.getDelayedCalls():
            call.cancel()
        # The fills before the crash are sent again; the spool recognises them by their numbers.
        self.events = []
        self.journal = self.make_journal(records)
        self.desk = self._make_desk()

    def _disconnect(self) -> None:
        self.is_connected = False
        self.requests.clear()
        self.responses.clear()

    def told(self) -> None:
        """Make the exchange's new messages pending for the desk."""
        stream = self.exchange.streams.setdefault(BROKER, [])
        if self.is_connected:
            self.responses.extend(stream[self._seen :])
        self._seen = len(stream)

    def settle(self) -> None:
        """Connect if necessary and deliver everything."""
        if not self.is_connected:
            self.connect()
        while self._is_turn_due() or self.requests or self.responses or self.late or self.syncs:
            self.turn()
            self.finish_sync()
            self.deliver_late()
            self.deliver_request()
            self.deliver_response()

    def _is_turn_due(self) -> bool:
        return any(call.getTime() <= self.clock.seconds() for call in self.clock.getDelayedCalls())

    def _process(self, line: bytes, *, is_current: bool) -> None:
        answers = self.exchange.request(parse_request(line))
        if is_current:
            self.responses.extend(answer for answer in answers if answer.sequence == 0)
        self.told()

    def check_settled(self) -> None:
        """Assert that desk and exchange agree about every order, every lot and every fill."""
        desk, exchange = self.desk, self.exchange
        desk.blotter._check()
        assert not list(desk.blotter.pending())
        assert {(o.client_id, o.order_id, o.remaining_lots) for o in desk.blotter.open_orders()} == {
            (o.client_id, o.order_id, o.left) for o in exchange.resting.values()
        }
        assert len(exchange.accepted) == len(set(exchange.accepted)), "an order was doubled"
        assert desk.portfolio.holding("ACME").position_lots == exchange.positions.get(BROKER, 0)
        assert (desk.blotter.fills, desk.blotter.void_trades) == (len(exchange.executed), len(exchange.void))
        trades, seen = list[int](), set[str]()
        for told in exchange.streams.get(BROKER, []):
            if told.action in ("E", "F") or (told.action == "B" and told.detail not in seen):
                trades.append(told.sequence)
            if told.action == "B":
                seen.add(told.detail)
        assert [event.sequence for event in self.spool.fills] == trades
        assert desk.blotter.unmatched == 0
