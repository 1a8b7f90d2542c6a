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
"""Phase of a symbol.

Orders trade in `continuous`; the auctions collect orders until they uncross; `halted` refuses orders; `paused` accepts
the same orders as an auction, and publishes no imbalance; `closed` is the end of the day.
"""

REMAIN: Final = "V"
"""Action that only recordings have: the order has `volume` left (Bitstamp's ``changed``)."""


class Input(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Request to the market, with the time at which it was submitted."""

    time_ns: int
    """Market time in nanoseconds since the UTC epoch; strictly increasing over a journal."""


class OpenAccount(Input, frozen=True, gc=False, array_like=True, tag=1):
    """Opens an account, or changes the settings of the account with this name."""

    name: str
    protocol: str
    broker_id: int
    limits: AccountLimits = AccountLimits()
    self_trade: SelfTrade = "allow"
    cancel_on_disconnect: bool = False


class Enter(Input, frozen=True, gc=False, array_like=True, tag=2):
    """New order of a text client or (account 0) an agent."""

    account: int
    broker_id: int
    ref: int
    """The client's number for the order, 0 from agents.

    A number not above the account's last one marks a retransmission, which has no effect.
    """
    symbol: str
    side: str
    volume: int
    """Number of lots, including undisplayed ones."""
    price_ticks: int
    """Limit price; 0 for a market order."""
    flags: int = 0
    """Bits of `exchange_server.matching.order`; ``MARKET`` is set for a price of 0."""
    display: int = 0
    """Lots that an iceberg displays at a time."""
    minimum: int = 0
    """Smallest number of lots to execute at once, with ``MINIMUM``."""
    stop_ticks: int = 0
    """Trigger price, with ``STOP``."""
    expire_ns: int = 0
    """Market time at which the order ends, with ``EXPIRES``."""


class Reduce(Input, frozen=True, gc=False, array_like=True, tag=3):
    """Takes `volume` lots off an order, which keeps its place; the order ends if it has at most `volume` lots."""

    account: int
    broker_id: int
    ref: int
    order_id: int
    volume: int
    symbol: str = ""
    """Symbol of the order, for the text of a refusal; it does not select the order."""


class Cancel(Input, frozen=True, gc=False, array_like=True, tag=4):
    """Ends an order."""

    account: int
    broker_id: int
    ref: int
    order_id: int
    symbol: str = ""


class Replace(Input, frozen=True, gc=False, array_like=True, tag=5):
    """Replaces an order by one with `volume` open lots at a price.

    If the price is the same and the volume is not larger, the order is reduced, and keeps its id and its place.
    Otherwise the order ends, and a new order with the same side, account and attributes is entered with a new id,
    behind all others.
    """

    account: int
    broker_id: int
    ref: int
    order_id: int
    volume: int
    price_ticks: int
    symbol: str = ""


class MassCancel(Input, frozen=True, gc=False, array_like=True, tag=6):
    """Ends all live orders of an account (0: of every account and agent) in one symbol (empty: in all symbols)."""

    account: int
    symbol: str = ""
    reason: int = 1
    """Value of a `CancelReason`."""
    ref: int = 0
    """Reference of a client's request, otherwise 0."""


class Kill(Input, frozen=True, gc=False, array_like=True, tag=7):
    """Stops an account (its orders are cancelled, new ones refused), or permits it to trade again."""

    account: int
    killed: bool


class Phase(Input, frozen=True, gc=False, array_like=True, tag=8):
    """Moves a symbol (empty: all symbols) to a phase.

    A change from an auction to `continuous` or `closed` executes the auction's trade.
    """

    symbol: str
    phase: PhaseName
    reason: str = ""
    """Reason of a halt on the feed, at most four characters."""


class Tick(Input, frozen=True, gc=False, array_like=True, tag=9):
    """Passage of time: orders expire, and auctions publish their imbalance."""


class Party(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """One order's part of a trade, with the data that its owner needs."""

    account: int
    """Index of the account that is notified."""
    ref: int | bytes
    """Reference of the order, as `Order.ref`."""
    order_id: int
    locate: int
    """Number of the instrument."""
    volume: int
    """Number of executed lots."""
    price_ticks: int
    """Price of the execution, in ticks."""
    echo: bytes = b""
    """Bytes of the request that answers repeat, as `Order.echo`."""


class Bust(Input, frozen=True, gc=False, array_like=True, tag=10):
    """Declares a trade void, on the feed and to its parties; books do not change."""

    match_id: int
    symbol: str
    parties: tuple[Party, ...] = ()
    """Orders whose owners are notified. They are part of the input, so that a replay sends the same messages even if
    the market no longer remembers the trade.
    """


class Recorded(Input, frozen=True, gc=False, array_like=True, tag=11):
    """Record of a replayed file; its effect depends on the symbol's replay mode."""

    position: int
    """Position of the record in its file, from 1."""
    order_id: int
    """Id of the order in the file."""
    broker_id: int
    action: str
    """One of: B, S, E, F, D, X, T; C, a broken trade; `REMAIN`; and U, by which the order `order_id` is replaced by
    `new_id`, with the same side and broker.
    """
    volume: int
    price_ticks: int
    symbol: str
    new_id: int = 0


class Wire(Input, frozen=True, gc=False, array_like=True, tag=12):
    """Bytes that a session of a binary protocol sent: whole packets of one account, in their order.

    The bytes are journalled as received and decoded by the account's protocol inside the market: they are decoded once,
    and invalid messages are part of the replayable journal. The n-th message has the time `time_ns` + n - 1; the caller
    reserves these times.
    """

    account: int
    data: bytes
    """SoupBinTCP packets, length and type included."""


AnyInput = OpenAccount | Enter | Reduce | Cancel | Replace | MassCancel | Kill | Phase | Tick | Bust | Recorded | Wire


class MarketRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Constants that, together with the inputs, determine the market's answers; the journal begins with them."""

    instruments: tuple[Instrument, ...]
    """Traded instruments; an instrument's locate is its place here, from 1."""
    replay_symbols: tuple[str, ...] = ()
    """Symbols that a recording replays."""
    replay_mode: ReplayMode = "as-orders"
    """Mode of the replay."""
    replay_begins: str = ""
    """Hash of the beginning of the replayed file, empty without one: a session continues only with its own recording.
    """
    outlier_factor: int = 0
    """Drop recorded prices ≤ 0 or above this many times the mid; 0 drops none."""
    first_order_id: int = 1
    """First id that the market assigns. If a symbol is replayed as recorded, it is above every recorded id."""
    max_live_orders: int = 1_000_000
    """Largest number of live orders; further orders are refused."""
    collar_bps: int = 0
    """Largest distance of executions from the reference price, in hundredths of a percent; 0 for no collar. The
    reference price is that of the last trade or, before the first trade, that of the instrument.
    """
    opens_with_auction: bool = False
    """True if symbols begin in `auction-open`, otherwise in `continuous`."""
