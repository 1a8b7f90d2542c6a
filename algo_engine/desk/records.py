"""Records of the journal of orders: the facts from which the state of all own orders is restored."""

from __future__ import annotations

import msgspec

from algo_engine.desk.order import Order, Side
from algo_engine.desk.portfolio import Holding

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
    """Request that is about to be sent; written before its first byte is sent (`order_sync`)."""

    client_id: int
    """Number of the request."""
    action: str
    """Action of the request: B, S, X, U or D."""
    volume_lots: int
    """Number of lots to trade, to remove (X), or to have open (U)."""
    price_ticks: int
    """Limit price in ticks, 0 for a market order and for X and D."""
    symbol: str
    """Symbol of the instrument."""
    order_id: int = 0
    """Order id of the exchange that X, U and D refer to."""
    target: int = 0
    """Client id of that order; 0 in a D marks a fence (`blotter`)."""
    options: str = ""
    """Options of an order (B, S), as on the wire."""
    time_ns: int = 0
    """Time of the request, by the engine's clock."""

    @property
    def is_fence(self) -> bool:
        """True for a cancellation without an order, sent only for its place in the order of requests."""
        return self.action == "D" and self.target == 0


class VoidTrade(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Own trade that a message declares void, and the holding without it (`void_trades`)."""

    client_id: int
    """Client id of the order."""
    side: Side
    """Side of the order."""
    fee: int
    """Fee of the trade, which is refunded."""
    holding: Holding
    """Holding of the symbol as if the trade had never executed."""


class Received(msgspec.Struct, frozen=True, tag="t", array_like=True, gc=False):
    """One message of the private stream."""

    sequence: int
    """Position in the stream; 0 for an answer outside it."""
    time_ns: int
    """Market time in nanoseconds."""
    order_id: int
    """Order id of the exchange."""
    action: str
    """Action of the message: A, E, F, X, D, U, N, T, B or R."""
    volume_lots: int
    """Number of lots, as in `deltabook.wire.text.Response`."""
    price_ticks: int
    """Price, as in `deltabook.wire.text.Response`."""
    symbol: str
    """Symbol of the instrument."""
    client_id: int
    """Number of the request that is answered, or that created the order."""
    detail: str
    """Detail, as in `deltabook.wire.text.Response`."""
    fee: int = 0
    """Fee of an execution in ticks × lots, by the schedule in force when it arrived."""
    void: VoidTrade | None = None
    """Trade that a B declares void; None if it was void before, or is not in the list of trades."""


class Opened(msgspec.Struct, frozen=True, tag="o", array_like=True, gc=False):
    """Session of the exchange; the numbers in all records belong to it."""

    session: str
    """Name of the session in the login reply."""


class Noted(msgspec.Struct, frozen=True, tag="n", array_like=True, gc=False):
    """Highest request number of this broker that may be in use: as reported at a login, or as reserved by an earlier
    run.
    """

    client_id: int
    """Request number above which new client ids continue."""


class Reserved(msgspec.Struct, frozen=True, tag="r", array_like=True, gc=False):
    """Reserved request numbers. Requests with these numbers may be sent before they are on disk; the reservation itself
    is durable before the first of them is sent.
    """

    client_id: int
    """Highest of the numbers."""
    day: int
    """Only UTC day on which the numbers are used, by the engine's clock, counted from the epoch."""


class Memory(msgspec.Struct, frozen=True, tag="m", array_like=True, gc=False):
    """Memory of a strategy over a restart (`algo_engine.strategy.Context.remember`)."""

    name: str
    """Name of the memory; a later record of the same name replaces it."""
    data: bytes
    """Remembered data; empty data removes the memory."""


class Checkpoint(msgspec.Struct, frozen=True, tag="c"):
    """Complete state at one moment; the first record of every journal."""

    broker_id: int
    """Broker id of the orders."""
    session: str = ""
    """Session of the private stream, empty before the first login."""
    sequence: int = 0
    """Number of the last private message that is part of the state."""
    last_client_id: int = 0
    """Highest request number used."""
    orders: list[Order] = []
    """All orders that may still trade."""
    pending: list[Intent] = []
    """All requests without an answer."""
    holdings: dict[str, Holding] = {}
    """Holdings by symbol."""
    fills: int = 0
    """Number of executions so far."""
    filled_orders: int = 0
    """Number of orders filled completely so far."""
    sent: int = 0
    """Number of requests to buy or sell so far."""
    rejected: int = 0
    """Number of orders rejected by the exchange."""
    void_trades: int = 0
    """Number of executions so far that were later declared void."""
    void_matches: list[tuple[str, int]] = []
    """Latest void trades, by the match number and the exchange's order id."""
    day: int = 0
    """Day of the latest request to buy, sell or replace, counted from the UTC epoch."""
    sent_on_day: int = 0
    """Number of such requests on that day."""
    reserved_client_id: int = 0
    """Highest reserved request number."""
    reserved_day: int = 0
    """Day of that reservation, counted from the UTC epoch."""
    lost_from: int = 1
    """First number of the requests that an earlier run may have sent and its journal has lost."""
    lost_to: int = 0
    """Last such number; below `lost_from` if there are none."""
    memories: dict[str, bytes] = {}
    """Memories of the strategy, by name."""
    format: int = 1
    """Version of this record."""


Record = Checkpoint | Opened | Noted | Reserved | Intent | Received | Memory
_Line = Opened | Noted | Reserved | Intent | Received | Memory

_encoder = msgspec.msgpack.Encoder()
_lines = msgspec.msgpack.Decoder(_Line)
_checkpoints = msgspec.msgpack.Decoder(Checkpoint)
_json_lines: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_json_checkpoints = msgspec.json.Decoder(Checkpoint)


def encode_record(record: Record) -> bytes:
    """Return a record as bytes; a checkpoint is a map, all others are arrays.

    MessagePack has no integers beyond 64 bits. A record with such a sum of ticks × lots is JSON instead.
    """
    try:
        return _encoder.encode(record)
    except OverflowError:
        return msgspec.json.encode(record)


def decode_record(data: bytes) -> Record:
    """Return the record of these bytes; raise `msgspec.DecodeError` for invalid ones."""
    # No record in MessagePack begins with one of these characters, which are small integers there.
    if data[:1] == b"{":
        return _json_checkpoints.decode(data)
    if data[:1] == b"[":
        return _json_lines.decode(data)
    is_array = bool(data) and (0x90 <= data[0] <= 0x9F or data[0] in (0xDC, 0xDD))
    return _lines.decode(data) if is_array else _checkpoints.decode(data)
