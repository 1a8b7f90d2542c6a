"""Records of the journal of orders: the facts from which the state of all own orders can be folded again."""

from __future__ import annotations

import msgspec

from algo_engine.order import Order, Side
from algo_engine.portfolio import Holding

__all__ = [
    "Checkpoint",
    "Intent",
    "Memory",
    "Noted",
    "Opened",
    "Received",
    "Record",
    "Reserved",
    "VoidTrade",
    "decode_record",
    "encode_record",
]


class Intent(msgspec.Struct, frozen=True, tag="i", array_like=True, gc=False):
    """A request that is about to be sent; written before its first byte leaves (see `algo_engine.order_sync`)."""

    client_id: int
    """Number of the request."""
    action: str
    """B, S, X, U or D."""
    volume_lots: int
    """To trade, to take away (X), or that shall be open (U)."""
    price_ticks: int
    """Limit, 0 for a market order and for X and D."""
    symbol: str
    """Instrument."""
    order_id: int = 0
    """The exchange's number of the order that X, U and D speak of."""
    target: int = 0
    """Our own number of that order; 0 in a D is a fence (see `algo_engine.blotter`)."""
    options: str = ""
    """Options of an order (B, S), as on the wire."""
    time_ns: int = 0
    """Time of the request, by our own clock."""

    @property
    def is_fence(self) -> bool:
        """A cancellation of nothing, sent only for its place in the order of requests."""
        return self.action == "D" and self.target == 0


class VoidTrade(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The own trade that a message declares void, and what is held without it (see `algo_engine.void_trades`)."""

    client_id: int
    """Our own number of the order."""
    side: Side
    """Side of the order."""
    fee: int
    """Fee of the trade, which is given back."""
    holding: Holding
    """Holding of the symbol as if the trade had never been."""


class Received(msgspec.Struct, frozen=True, tag="t", array_like=True, gc=False):
    """One message of the private stream."""

    sequence: int
    """Position in it; 0 for an answer outside it."""
    time_ns: int
    """Market time."""
    order_id: int
    """The exchange's order."""
    action: str
    """A, E, F, X, D, U, N, T, B or R."""
    volume_lots: int
    """See `deltabook.wire.text.Response`."""
    price_ticks: int
    """See `deltabook.wire.text.Response`."""
    symbol: str
    """Instrument."""
    client_id: int
    """The request answered, or that made the order."""
    detail: str
    """See `deltabook.wire.text.Response`."""
    fee: int = 0
    """Fee of an execution, ticks × lots, by the schedule in force when it arrived."""
    void: VoidTrade | None = None
    """Trade that a B declares void; None if it was void before, or is not in the list of trades."""


class Opened(msgspec.Struct, frozen=True, tag="o", array_like=True, gc=False):
    """The exchange's session to which all numbers belong."""

    session: str
    """As the login reply named it."""


class Noted(msgspec.Struct, frozen=True, tag="n", array_like=True, gc=False):
    """The highest request number of this broker that may be in use: as the exchange said at a login, or as an earlier
    run had reserved."""

    client_id: int
    """Own numbers continue above it."""


class Reserved(msgspec.Struct, frozen=True, tag="r", array_like=True, gc=False):
    """Request numbers that may be sent before the disk has their requests; durable before the first of them is sent."""

    client_id: int
    """The highest of them."""
    day: int
    """The only UTC day on which they are used, by our own clock, counted from the epoch."""


class Memory(msgspec.Struct, frozen=True, tag="m", array_like=True, gc=False):
    """What a strategy remembers over a restart, see `algo_engine.strategy.Context.remember`."""

    name: str
    """Name of it; a later record of the same name takes its place."""
    data: bytes
    """What is remembered; empty: it is forgotten."""


class Checkpoint(msgspec.Struct, frozen=True, tag="c"):
    """The whole state at one moment; the first record of every journal."""

    broker_id: int
    """Whose orders."""
    session: str = ""
    """Session of the private stream, empty before the first login."""
    sequence: int = 0
    """Last message of the private stream that is part of the state."""
    last_client_id: int = 0
    """Highest request number used."""
    orders: list[Order] = []
    """All orders that may still trade."""
    pending: list[Intent] = []
    """All requests without an answer."""
    holdings: dict[str, Holding] = {}
    """Position and money by symbol."""
    fills: int = 0
    """Executions so far."""
    filled_orders: int = 0
    """Orders filled completely so far."""
    sent: int = 0
    """Requests to buy or sell so far."""
    rejected: int = 0
    """Orders refused by the exchange."""
    void_trades: int = 0
    """Executions so far that were declared void later."""
    void_matches: list[tuple[str, int]] = []
    """The newest of them, by the number of the match and the exchange's number of the order."""
    day: int = 0
    """Day of the newest request to buy, sell or replace, counted from the UTC epoch."""
    sent_on_day: int = 0
    """Such requests on that day."""
    reserved_client_id: int = 0
    """Highest request number that was reserved."""
    reserved_day: int = 0
    """Day on which it was, counted from the UTC epoch."""
    lost_from: int = 1
    """First request number that an earlier run may have sent and that its journal has lost."""
    lost_to: int = 0
    """Last such number; below `lost_from` if there are none."""
    memories: dict[str, bytes] = {}
    """What the strategy remembers, by name."""
    format: int = 1
    """Version of this record."""


Record = Checkpoint | Opened | Noted | Reserved | Intent | Received | Memory
_Line = Opened | Noted | Reserved | Intent | Received | Memory

_encoder = msgspec.msgpack.Encoder()
_lines = msgspec.msgpack.Decoder(_Line)
_checkpoints = msgspec.msgpack.Decoder(Checkpoint)


def encode_record(record: Record) -> bytes:
    """Return a record as bytes; a checkpoint is a map, all others are arrays."""
    return _encoder.encode(record)


def decode_record(data: bytes) -> Record:
    """Return the record of these bytes; raises `msgspec.DecodeError`."""
    is_array = bool(data) and (0x90 <= data[0] <= 0x9F or data[0] in (0xDC, 0xDD))
    return _lines.decode(data) if is_array else _checkpoints.decode(data)
