"""Inputs of the market: the requests that the journal records.

Everything that changes a book is an `Input`, whatever its source: the same inputs in the same order always give the
same books, the same feed and the same private streams.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from deltabook.wire.symbols import Instrument
from exchange_server.matching.order import AccountLimits, SelfTrade

__all__ = [
    "AnyInput",
    "Bust",
    "Cancel",
    "Enter",
    "Input",
    "Kill",
    "MarketRules",
    "MassCancel",
    "OpenAccount",
    "Party",
    "Phase",
    "PhaseName",
    "Recorded",
    "Reduce",
    "Replace",
    "ReplayMode",
    "Tick",
    "Wire",
]

ReplayMode = Literal["as-recorded", "as-orders"]

PhaseName = Literal["continuous", "auction-open", "auction-close", "auction-halt", "halted", "paused", "closed"]
"""Phase of a symbol. Orders trade in `continuous`; the auctions collect orders until they uncross; `halted` refuses
orders, `paused` refuses them too but for the auction that will follow; `closed` is the end of the day."""

REMAIN: Final = "V"
"""A recording's own action: the order has `volume` left (Bitstamp's ``changed``)."""


class Input(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One request to the market, with the time it was given."""

    time_ns: int
    """Market time, nanoseconds since the UTC epoch; strictly increasing over a journal."""


class OpenAccount(Input, frozen=True, gc=False, array_like=True, tag=1):
    """Opens an account, or gives an account of this name these settings."""

    name: str
    protocol: str
    broker_id: int
    limits: AccountLimits = AccountLimits()
    self_trade: SelfTrade = "allow"
    cancel_on_disconnect: bool = False


class Enter(Input, frozen=True, gc=False, array_like=True, tag=2):
    """A new order, of a text client or (account 0) an agent."""

    account: int
    broker_id: int
    ref: int
    """The client's number for the order, 0 from agents; a number not above the last is a retransmission, without
    effect."""
    symbol: str
    side: str
    volume: int
    """Lots, the undisplayed ones included."""
    price_ticks: int
    """Limit; 0 is a market order."""
    flags: int = 0
    """Bits of `exchange_server.matching.order`; ``MARKET`` is set for a price of 0."""
    display: int = 0
    minimum: int = 0
    stop_ticks: int = 0
    expire_ns: int = 0


class Reduce(Input, frozen=True, gc=False, array_like=True, tag=3):
    """Takes `volume` lots off an order, all that is left if it has no more; it keeps its place."""

    account: int
    broker_id: int
    ref: int
    order_id: int
    volume: int
    symbol: str = ""
    """Repeated in a refusal; the order is looked up by its id alone."""


class Cancel(Input, frozen=True, gc=False, array_like=True, tag=4):
    """Ends an order."""

    account: int
    broker_id: int
    ref: int
    order_id: int
    symbol: str = ""


class Replace(Input, frozen=True, gc=False, array_like=True, tag=5):
    """An order becomes another of `volume` lots still open at a price.

    With the same price and no more volume it is reduced, and keeps its id and its place; else it ends and a new order
    (the same side, account and attributes) is entered with a new id behind all others.
    """

    account: int
    broker_id: int
    ref: int
    order_id: int
    volume: int
    price_ticks: int
    symbol: str = ""


class MassCancel(Input, frozen=True, gc=False, array_like=True, tag=6):
    """Ends all live orders of an account (0: of every account and agent), of one symbol or (empty) of all."""

    account: int
    symbol: str = ""
    reason: int = 1
    """A `CancelReason`."""
    ref: int = 0
    """Reference of a client's request, else 0."""


class Kill(Input, frozen=True, gc=False, array_like=True, tag=7):
    """Stops an account (its orders are cancelled, new ones refused) or lets it trade again."""

    account: int
    killed: bool


class Phase(Input, frozen=True, gc=False, array_like=True, tag=8):
    """Brings a symbol (empty: all) into a phase. Leaving an auction uncrosses it."""

    symbol: str
    phase: PhaseName
    reason: str = ""
    """Up to four characters that the feed says of a halt."""


class Tick(Input, frozen=True, gc=False, array_like=True, tag=9):
    """Time passes: orders expire, and auctions say their imbalance."""


class Party(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One order's part of a trade, as its owner knows it."""

    account: int
    """Index of the account that is told."""
    ref: int | bytes
    """As `Order.ref`."""
    order_id: int
    locate: int
    """Number of the instrument."""
    volume: int
    """Executed lots."""
    price_ticks: int
    """Price of the execution."""
    echo: bytes = b""
    """As `Order.echo`."""


class Bust(Input, frozen=True, gc=False, array_like=True, tag=10):
    """A trade is declared void, on the feed and to its parties; books do not change."""

    match_id: int
    symbol: str
    parties: tuple[Party, ...] = ()
    """Orders whose owners are notified, recorded with the input: a replay sends the same messages, whatever the market
    remembers then."""


class Recorded(Input, frozen=True, gc=False, array_like=True, tag=11):
    """A record of a file that is played; what it does depends on the symbol's replay mode."""

    position: int
    """Position of the record in its file, from 1."""
    order_id: int
    """The id in the file."""
    broker_id: int
    action: str
    """B S E F D X T C or `REMAIN`, and U: `order_id` becomes `new_id` (the same side and broker)."""
    volume: int
    price_ticks: int
    symbol: str
    new_id: int = 0


class Wire(Input, frozen=True, gc=False, array_like=True, tag=12):
    """Bytes as a session of a binary protocol sent them: whole packets of one account, in their order.

    They are journalled as they came and read by the account's protocol inside the market: so reading them costs once,
    and what is wrong with them is part of what can be played again. The n-th message in them has the time
    `time_ns` + n - 1; the caller that assigns times leaves room for that.
    """

    account: int
    data: bytes
    """SoupBinTCP packets, length and type included."""


AnyInput = OpenAccount | Enter | Reduce | Cancel | Replace | MassCancel | Kill | Phase | Tick | Bust | Recorded | Wire


class MarketRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants on which the market's answers depend beside its inputs; the journal begins with them."""

    instruments: tuple[Instrument, ...]
    """Symbols that are traded; an instrument's locate is its place here, from 1."""
    replay_symbols: tuple[str, ...] = ()
    """The symbols that a recording plays."""
    replay_mode: ReplayMode = "as-orders"
    """Mode in which it plays them."""
    replay_begins: str = ""
    """Hash of the beginning of the file that is played, empty for none: a session goes on with its own recording."""
    outlier_factor: int = 0
    """Drop recorded prices ≤ 0 or above this many times the mid; 0 drops none."""
    first_order_id: int = 1
    """The first id that the market gives; above every recorded id where a symbol is played as recorded."""
    max_live_orders: int = 1_000_000
    """More live orders than this are refused."""
    collar_bps: int = 0
    """Executions farther than this from the reference price (the last trade's, before it the instrument's) do not
    happen, in hundredths of a percent; 0 for no collar."""
    opens_with_auction: bool = False
    """True if symbols begin in `auction-open`, else in `continuous`."""
