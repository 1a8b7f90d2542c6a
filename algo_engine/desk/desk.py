"""The order manager of one strategy: it writes down and sends every order, and follows the order to its end.

```
strategy ─▶ risk gate ─▶ state (append) ─▶ outbox ── once a reactor turn: write_down(), then send
strategy ◀─ events ◀──── state (append) ◀─ private stream
```

`state` has the state: the journal, and what follows from its records.

`order_sync` describes how durably a request is written before it is sent. In mode *before*, the request is on disk when
it is sent. In mode *behind*, only the operating system has the request when it is sent, and the sync to disk follows.
The table has the state after the end of the process or a power loss, by the two steps between which the failure
happens:

```
between                   on disk                   at the exchange  after the restart
append, write             nothing, or the request   nothing          *never sent*, by the fence (`blotter`)
write, send               the request; see (1)      nothing          *never sent*, if the request is on disk; else
                                                                     no record shows that the request existed
send, answer              the same                  maybe an order   its answer is in the private stream, else as above
answer, its record        the same                  an order         the stream is requested from the message on
                                                                     that follows the last one on disk
record, fsync             the same, and maybe       an order         the same; known messages are skipped by number
                          the answer
reservation, its fsync    nothing, or the           no request of    request numbers continue above those on disk
                          reservation               its numbers
fsync begun, fsync ended  all requests; see (1)     orders           the same as if the fsync had ended
compaction, its end       the old or the new        unchanged        the same state
                          journal, complete
(1) In *behind*, a power loss may remove the request.
```

After a failed fsync in mode *behind*, the desk writes nothing more, and sends only cancellations.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index
from typing import Final

import msgspec

from algo_engine.clocks import Clock
from algo_engine.desk.blotter import Blotter
from algo_engine.desk.fees import FREE, FeeSchedule
from algo_engine.desk.journal import Journal
from algo_engine.desk.memories import Recovered
from algo_engine.desk.order import EventKind, Order, OrderEvent, OrderStatus, Side
from algo_engine.desk.order_sync import Background, OrderSync
from algo_engine.desk.portfolio import Portfolio
from algo_engine.desk.records import Intent, Noted, Opened, Received, Record
from algo_engine.desk.risk import Exposure, RiskGate
from algo_engine.desk.state import COMPACT_BYTES, DeskState
from algo_engine.desk.trades import TradeSpool
from algo_engine.errors import LoginRefused
from algo_engine.stages import OrderStages
from algo_engine.views.quotes import Quotes
from deltabook.wire.text import (
    PLAIN,
    Accepted,
    InteractiveLogin,
    OrderOptions,
    Request,
    Response,
    encode_options,
    encode_request,
    parse_options,
)

__all__ = ["Desk"]

_INT64_MAX: Final = 2**63 - 1
_LAST_CLIENT_ID: Final = 2**62
"""Largest client id that a broker may have used before a desk starts.

The text protocol can represent ids up to nearly twice this number, so enough ids are left for the desk.
"""


class Desk:
    """Order manager of one broker.

    ``listener`` receives every event once it is written, and may call the desk; ``on_failure`` receives an error after
    which the desk cannot continue. ``background`` runs two kinds of work in a thread: syncs of requests that were sent,
    and compactions of the journal. Without ``background``, requests are made durable before they are sent, and the
    journal is compacted at once, on the thread that calls the desk. If ``syncs_before`` is True, requests are made
    durable before they are sent even with a ``background``.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        journal: Journal,
        spool: TradeSpool,
        gate: RiskGate,
        quotes: Quotes,
        clock: Clock,
        listener: Callable[[OrderEvent], None],
        on_failure: Callable[[Exception], None],
        fees: FeeSchedule = FREE,
        compact_bytes: int = COMPACT_BYTES,
        background: Background | None = None,
        syncs_before: bool = False,
        stages: OrderStages | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.gate = gate
        self.quotes = quotes
        """Latest quotes, against which orders are checked."""
        self.is_killed = False
        """True once the kill switch was triggered."""
        self.suspended = ""
        """Reason for which new orders are refused; empty if they are accepted."""
        self.on_synchronised: Callable[[], None] = lambda: None
        """Callback, called whenever the state of every order has become known."""
        self._clock, self._listener, self._fees = clock, listener, fees
        self._state = DeskState(
            broker_id=broker_id,
            journal=journal,
            spool=spool,
            on_failure=on_failure,
            compact_bytes=compact_bytes,
            background=background,
        )
        self._blotter = self._state.blotter
        self._has_remembered = False
        self._send: Callable[[bytes], None] | None = None
        self._outbox: list[Intent] = []
        self._is_flush_due = False
        self._stages = stages or OrderStages(clock.seconds)
        self._requested_s = 0.0
        self._sync = OrderSync(
            journal=journal,
            clock=clock,
            now_ns=gate.now_ns,
            stages=self._stages,
            background=None if syncs_before else background,
            reserve=self._enter,
            on_failure=self._state.fail,
        )
        self._to_cancel: dict[int, None] = {}
        """Client ids of the orders that are to be cancelled."""
        self._fence_id = 0
        self._is_synchronised = False
        self.kill_reason = ""
        """Reason of the kill switch, empty unless it was triggered."""

    # -- calls of the strategy

    @property
    def blotter(self) -> Blotter:
        """All orders, for reading."""
        return self._blotter

    @property
    def portfolio(self) -> Portfolio:
        """Holdings of all symbols, for reading."""
        return self._state.portfolio

    @property
    def is_synchronised(self) -> bool:
        """True if the state of every order at the exchange is known and requests can be sent."""
        return self._is_synchronised

    def submit(self, side: Side, symbol: str, volume_lots: int, price_ticks: int, options: OrderOptions = PLAIN) -> int:
        """Send an order (price 0 is a market order) and return its client id; its further states arrive as events.

        Raise `TypeError` for lots or ticks that are not integers, `OverflowError` for ones beyond 64 bits, and
        `WireError` for options that cannot be encoded.
        """
        symbol = str(symbol)  # the journal cannot represent subclasses of str, such as numpy's
        volume_lots, price_ticks = _int64("of lots", volume_lots), _int64("of ticks", price_ticks)
        words = encode_options(options)
        options = parse_options(words, words.encode())
        order = Order(self._blotter.last_client_id + 1, symbol, side, volume_lots, price_ticks, options=options)
        reason = self._objection(order)
        if reason:
            order = order.ended(OrderStatus.REFUSED, reason)
            self._blotter.refuse(order)
            self._listener(OrderEvent(EventKind.REFUSED, order, reason=reason))
        else:
            self._request(
                Intent(
                    order.client_id,
                    str(side),
                    volume_lots,
                    price_ticks,
                    symbol,
                    options=words,
                    time_ns=self.gate.now_ns(),
                )
            )
        return order.client_id

    def replace(self, client_id: int, volume_lots: int, price_ticks: int) -> None:
        """Request ``volume_lots`` open lots at this price in place of an order's open lots.

        Raise `TypeError` for arguments that are not integers, `OverflowError` for lots or ticks beyond 64 bits.
        """
        client_id = _whole("as client id", client_id)
        volume_lots, price_ticks = _int64("of lots", volume_lots), _int64("of ticks", price_ticks)
        order = self._blotter.order(client_id)
        if order is None:
            return
        wanted = msgspec.structs.replace(order, volume_lots=volume_lots, price_ticks=price_ticks)
        if not (order.is_open and order.order_id):
            reason = f"order: expected one in the book, was {order.status}"
        elif client_id in self._to_cancel or any(i.target == client_id for _, i in self._blotter.replacements()):
            reason = "order: expected no cancellation or replacement of it on its way, was one"
        elif volume_lots > _INT64_MAX - order.volume_lots:
            # The order may execute all of its lots before the replacement arrives, and the replaced one all of these.
            reason = f"volume: expected {_INT64_MAX - order.volume_lots} lots or fewer, was {volume_lots}"
        else:
            reason = self._objection(wanted, is_new=False)
        if reason:
            self._listener(OrderEvent(EventKind.REPLACE_REFUSED, order, reason=reason))
            return
        number, now_ns = self._blotter.last_client_id + 1, self.gate.now_ns()
        self._request(
            Intent(number, "U", volume_lots, price_ticks, order.symbol, order.order_id, client_id, time_ns=now_ns)
        )

    def cancel(self, client_id: int) -> None:
        """Cancel an order as soon as requests can be sent; an order that has ended is ignored.

        Raise `TypeError` for a client id that is not an integer.
        """
        client_id = _whole("as client id", client_id)
        order = self._blotter.order(client_id)
        if order is not None and order.is_open:
            self._to_cancel[client_id] = None
            self._send_cancellations()

    def reduce(self, client_id: int, volume_lots: int) -> None:
        """Reduce an order by some lots.

        The reduction is refused, with an event, in four cases: it is by less than one lot, the order has ended, the
        exchange has not assigned an order id yet, or no request can be sent now. Raise `TypeError` for arguments that
        are not integers.
        """
        client_id, volume_lots = _whole("as client id", client_id), _whole("of lots", volume_lots)
        order = self._blotter.order(client_id)
        if order is None:
            return
        if not (order.is_open and order.order_id and self._is_synchronised and volume_lots > 0):
            reason = f"expected an order in the book and 1 lot or more, was {order.status} and {volume_lots} lots"
            self._listener(OrderEvent(EventKind.REDUCE_REFUSED, order, reason=reason))
            return
        intent_id = self._blotter.last_client_id + 1
        volume_lots = min(volume_lots, order.remaining_lots)
        self._request(Intent(intent_id, "X", volume_lots, 0, order.symbol, order.order_id, client_id))

    def cancel_all(self, symbol: str | None = None) -> None:
        """Cancel all open orders, or those of one symbol."""
        for order in self._blotter.open_orders():
            if symbol is None or order.symbol == symbol:
                self._to_cancel[order.client_id] = None
        self._send_cancellations()

    def remember(self, name: str, data: bytes) -> None:
        """Write down a *memory*: data, under a name, that the strategy reads after a restart. Empty data deletes it.

        The requests of the same turn are sent only when the memory is durable, so that no order exists without its
        memory. In a turn without requests the memory is only written: it survives the end of the process, and is
        durable with the next request. Raise `ValueError` for memories beyond `MOST_MEMORY_BYTES`, `TypeError` for a
        name that is not text or data that is not bytes.
        """
        memory = self._state.memories.record(name, data)
        if memory.data or memory.name in self._state.memories:
            self._has_remembered = True
            self._enter(memory)
            self._flush_later()

    def recovered(self) -> list[Recovered]:
        """Return the memories of an earlier run, each with the order events after it; empty after `end_recovery`."""
        return self._state.memories.recovered()

    def end_recovery(self) -> None:
        """Discard the memories of an earlier run that were not read."""
        for name in self._state.memories.end_recovery():
            self.remember(name, b"")

    def kill(self, reason: str) -> None:
        """Cancel everything and refuse all new orders until the process is started again."""
        if not self.is_killed:
            self.is_killed, self.kill_reason = True, reason
        self.cancel_all()

    # -- calls of the connection

    def login(self) -> InteractiveLogin:
        """Return the login: the broker, and the first requested message of the private stream."""
        return InteractiveLogin(self.broker_id, self._blotter.session, self._blotter.sequence + 1)

    def opened(self, reply: Accepted, send: Callable[[bytes], None]) -> None:
        """Process an accepted login; raise `LoginRefused` if the exchange's stream does not continue this journal, or
        if too few client ids are left.
        """
        blotter = self._blotter
        if (blotter.session and reply.session != blotter.session) or reply.sequence != blotter.sequence + 1:
            raise LoginRefused(
                f"expected the private stream of session {blotter.session or 'any'} from message "
                f"{blotter.sequence + 1} on, was that of session {reply.session} from message {reply.sequence} on"
            )
        last_client_id = reply.last_client_id or 0
        if last_client_id > _LAST_CLIENT_ID:
            raise LoginRefused(
                f"expected a newest client id up to {_LAST_CLIENT_ID} of broker {self.broker_id}, "
                f"was {last_client_id}, which another client has sent: the exchange accepts no lower one, "
                "so choose another --broker"
            )
        if not blotter.session:
            self._enter(Opened(reply.session))
        if last_client_id > blotter.last_client_id:
            self._enter(Noted(last_client_id))
        self._send = send
        if blotter.last_client_id == 0:
            self._synchronised()  # A broker without earlier requests has no answers to wait for.
            return
        self._fence_id = blotter.last_client_id + 1
        self._request(Intent(self._fence_id, "D", 0, 0, ""))

    def receive(self, response: Response) -> None:
        """Process one message of the private stream; raise `StreamGap` if it is not the next one."""
        r = response
        if r.action == "H" or (r.sequence and r.broker_id != self.broker_id):
            return
        message = Received(
            r.sequence, r.time_ns, r.order_id, r.action, r.volume, r.price, r.symbol, r.client_id, r.detail
        )
        self._drop_refused_cancellation(message)
        if r.action in ("E", "F"):
            fee = self._fees.fee(r.symbol, r.detail, r.volume, r.price)
            message = msgspec.structs.replace(message, fee=fee) if fee else message
        elif r.action == "B":
            message = self._state.with_trade(message)
        self._enter(message)
        if self._fence_id and r.action == "R" and r.client_id == self._fence_id:
            self._synchronised()
        if self.is_killed and message.action == "A":
            self.cancel_all()  # Also orders that another connection of this broker sent.
        self._send_cancellations()
        self._state.compact_if_large()

    def lost(self) -> None:
        """Note that the connection was lost; nothing is sent before the next login."""
        self._send, self._is_synchronised, self._fence_id = None, False, 0
        self._outbox.clear()
        for event in self._blotter.lost():
            self._listener(event)

    def close(self) -> None:
        """Make everything durable, and close."""
        self._state.close_journal()
        self._sync.made_durable()
        self._state.close_trades()

    # -- internals

    def _enter(self, record: Record) -> None:
        """Apply and write a record, then notify the strategy."""
        for event in self._state.enter(record):
            self._listener(event)

    def _objection(self, order: Order, *, is_new: bool = True) -> str:
        if self.is_killed:
            return f"kill switch: {self.kill_reason}"
        if not self._is_synchronised:
            return "connection: expected to be logged in to the exchange, was not"
        if self.suspended:
            return self.suspended
        wanted = [target.replaced(0, i.volume_lots, i.price_ticks) for target, i in self._blotter.replacements()]
        return self.gate.objection(
            order,
            quote=self.quotes.get(order.symbol),
            position_lots=self.portfolio.holding(order.symbol).position_lots,
            open_orders=self._blotter.open_orders(),
            replacing=wanted,
            sent_today=self._blotter.sent_on_day(self.gate.now_ns()),
            is_new=is_new,
            exposures=self._exposures(),
        )

    def _exposures(self) -> dict[str, Exposure]:
        """Return the exposures of all symbols at their marks; empty if no limit needs them."""
        limits = self.gate.limits
        if not (limits.max_gross_notional or limits.max_net_notional):
            return {}
        return {
            symbol: Exposure(holding.position_lots, self.quotes.mark_ticks(symbol, holding.position_lots))
            for symbol, holding in self.portfolio.holdings.items()
        }

    def _request(self, intent: Intent) -> None:
        if not self._outbox:
            self._requested_s = self._stages.requested()
        self._outbox.append(intent)
        self._enter(intent)
        self._flush_later()

    def _flush_later(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._clock.callLater(0, self._flush)

    def _flush(self) -> None:
        """Write down all requests of a turn at once, and then send them."""
        self._is_flush_due = False
        intents, self._outbox = self._outbox, []
        has_remembered, self._has_remembered = self._has_remembered, False
        if not (intents or has_remembered):
            return
        if not self._state.is_broken:
            try:
                if intents:
                    self._sync.write_down(intents, must_be_durable=has_remembered)
                else:
                    self._state.write()
            except OSError as error:
                self._state.fail(error)
        if not intents:
            return
        written_s = self._stages.written(self._requested_s)
        if self._state.is_broken:
            # Unwritten requests are not sent, except cancellations, which need no record: they can only end orders.
            intents = [intent for intent in intents if intent.action == "D"]
        if intents and self._send is not None:
            self._send(b"".join(map(self._encoded, intents)))
            self._stages.sent(written_s)
        if not self._state.is_broken:
            self._sync.sent()

    def _encoded(self, intent: Intent) -> bytes:
        i = intent
        options = parse_options(i.options, b"") if i.options else PLAIN
        return encode_request(
            Request(
                i.client_id, i.order_id, self.broker_id, i.action, i.volume_lots, i.price_ticks, i.symbol,
                options=options,
            )
        )  # fmt: skip

    def _send_cancellations(self) -> None:
        """Send the cancellations that can be sent now; the others wait for the exchange's answers."""
        for client_id in list(self._to_cancel):
            order = self._blotter.order(client_id)
            if order is None or not order.is_open:
                del self._to_cancel[client_id]
            elif self._is_synchronised and order.order_id and not self._blotter.is_leaving(client_id):
                intent_id = self._blotter.last_client_id + 1
                self._request(Intent(intent_id, "D", 0, 0, order.symbol, order.order_id, client_id))

    def _drop_refused_cancellation(self, message: Received) -> None:
        """Stop trying to cancel an order if the exchange refused its cancellation.

        A cancellation that never reached the exchange is repeated. So is a cancellation that a replacement overtook,
        because the order has another order id by now.
        """
        if message.action != "R":
            return
        for intent in self._blotter.pending():
            if intent.client_id != message.client_id or intent.action != "D":
                continue
            order = self._blotter.order(intent.target)
            if order is None or order.order_id == intent.order_id:
                self._to_cancel.pop(intent.target, None)

    def _synchronised(self) -> None:
        self._fence_id, self._is_synchronised = 0, True
        if self.is_killed:
            self.cancel_all()
        self._send_cancellations()
        self.on_synchronised()


def _whole(what: str, number: int) -> int:
    """Return a number as an integer.

    Raise `TypeError` for a float, which neither the wire nor the journal can represent.
    """
    try:
        return index(number)
    except TypeError:
        raise TypeError(f"expected a whole number {what}, was {number!r}") from None


def _int64(what: str, number: int) -> int:
    """Return a number as an integer; raise `OverflowError` if the wire cannot represent it."""
    whole = _whole(what, number)
    if not -_INT64_MAX - 1 <= whole <= _INT64_MAX:
        raise OverflowError(f"expected a number {what} within 64 bits, was {whole}")
    return whole
