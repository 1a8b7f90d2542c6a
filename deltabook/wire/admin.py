"""Messages of the admin port of an exchange over HTTP: reports, the changes that an operator may make, and live frames.

``GET`` of a path ``NAME_PATH`` answers with the struct ``Name``: `STATUS_PATH` with a `Status`, `BOOK_PATH` with a
`Book`, and `HASH_PATH` with a `StateHash`. ``POST`` to one of the paths of `CHANGES` takes the path's struct and
answers with a `Done`. All messages are JSON; a refusal is one line of text. ``GET /metrics`` is for Prometheus.

``GET`` of `LIVE_PATH` answers with one frame, for a page that follows one symbol. The frame's prices and quantities are
decimal strings, exact and with all the decimals of tick and lot, so that a page need not calculate. Times of day fit
into a float exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal

import msgspec

__all__ = [
    "ACCOUNTS_PATH",
    "BOOK_PATH",
    "CHANGES",
    "HASH_PATH",
    "LIVE_DEPTH",
    "LIVE_PATH",
    "LONGEST_REASON",
    "MOST_ACCOUNTS",
    "MOST_DEPTH",
    "MOST_SESSIONS",
    "MOST_SYMBOLS",
    "MOST_TRADES",
    "PORTS_FILE",
    "REPLAY_PATH",
    "SESSIONS_PATH",
    "STATISTICS_PATH",
    "STATUS_PATH",
    "AccountLine",
    "Accounts",
    "Book",
    "BustTrade",
    "CancelOrders",
    "Change",
    "CutSession",
    "Done",
    "KillAccount",
    "Level",
    "Listening",
    "Live",
    "LiveFigures",
    "LiveLevel",
    "LiveTrade",
    "PlayReplay",
    "Replay",
    "SessionLine",
    "Sessions",
    "SetPhase",
    "StateHash",
    "Statistics",
    "Status",
    "SymbolLine",
    "TakeSnapshot",
]

STATUS_PATH: Final = "/v1/status"
STATISTICS_PATH: Final = "/v1/statistics"
"""Path of the statistics; ``?after=SYMBOL`` continues after a symbol."""
BOOK_PATH: Final = "/v1/books/"
"""Path of a book, followed by the symbol; ``?depth=N`` sets the number of levels."""
SESSIONS_PATH: Final = "/v1/sessions"
ACCOUNTS_PATH: Final = "/v1/accounts"
"""Path of the accounts; ``?after=NAME`` continues after an account."""
HASH_PATH: Final = "/v1/hash"
REPLAY_PATH: Final = "/v1/replay"

LONGEST_REASON: Final = 4
"""Greatest number of characters of the reason of a halt, as in the feed."""
MOST_DEPTH: Final = 1_000
"""Largest number of levels of a side in one answer."""
MOST_ACCOUNTS: Final = 1_000
"""Largest number of accounts in one answer."""
MOST_SESSIONS: Final = 1_000
"""Largest number of sessions in one answer."""
MOST_SYMBOLS: Final = 1_000
"""Largest number of symbols in one answer."""

PORTS_FILE: Final = "ports.json"
"""File in the directory of a journal with a `Listening`, while an exchange runs there."""

PhaseName = Literal["continuous", "auction-open", "auction-close", "auction-halt", "halted", "paused", "closed"]
Text = Annotated[str, msgspec.Meta(max_length=200)]


class Listening(msgspec.Struct, frozen=True):
    """Addresses at which an exchange can be reached."""

    pid: int
    """Process id."""
    interface: str
    """Address on which the exchange listens."""
    admin_interface: str
    """Address on which its admin port listens."""
    ports: dict[str, int]
    """Port by purpose."""
    is_secure: bool = False
    """True if the admin port uses TLS."""


class Status(msgspec.Struct, frozen=True):
    """State of an exchange as a whole."""

    session: str
    """Name of the session."""
    time_ns: int
    """Market time in nanoseconds since the UTC epoch."""
    up_s: float
    """Seconds since the process started."""
    pid: int
    """Process id."""
    directory: str
    """Directory of the journal."""
    ports: dict[str, int]
    """Port by purpose."""
    phases: dict[str, int]
    """Number of symbols in each phase."""
    figures: dict[str, int | float | str | None]
    """Figures of the status lines."""


class SymbolLine(msgspec.Struct, frozen=True):
    """Summary of one symbol; prices are in ticks, None if there is none."""

    symbol: str
    locate: int
    """Number of the symbol, from 1."""
    phase: PhaseName
    bid_ticks: int | None
    bid_volume: int
    """Lots displayed at the best bid."""
    ask_ticks: int | None
    ask_volume: int
    """Lots displayed at the best ask."""
    last_ticks: int | None
    """Price of the last trade."""
    live_orders: int
    """Number of orders in the book, or waiting for their stop or auction."""
    tick_size: str
    """Price of one tick."""


class Statistics(msgspec.Struct, frozen=True):
    """Totals of the session."""

    time_ns: int
    inputs: int
    """Number of requests in the journal."""
    orders: int
    """Number of orders accepted."""
    trades: int
    live_orders: int
    accounts: int
    refused: dict[str, int]
    """Number of requests refused since the process started, by reason."""
    symbols: tuple[SymbolLine, ...]
    """Symbols in the order of their numbers."""
    total_symbols: int
    """Number of all symbols, which may exceed the `MOST_SYMBOLS` that are listed."""


class Level(msgspec.Struct, frozen=True, array_like=True):
    """Displayed orders at one price."""

    price_ticks: int
    volume: int
    """Displayed volume in lots."""
    orders: int


class Book(msgspec.Struct, frozen=True):
    """The displayed book of one symbol at one time, best prices first."""

    symbol: str
    phase: PhaseName
    time_ns: int
    """Market time of the newest request, in nanoseconds since the UTC epoch."""
    tick_size: str
    """Price of one tick."""
    lot_size: str
    """Quantity of one lot."""
    last_ticks: int | None
    bids: tuple[Level, ...]
    asks: tuple[Level, ...]


class SessionLine(msgspec.Struct, frozen=True):
    """One connection."""

    session: str
    """Name of the connection: ``FACE:HOST:PORT``, with the address of its peer."""
    face: str
    """Protocol: text, itch, ouch or glimpse."""
    peer: str
    """Address of the peer, as HOST:PORT."""
    account: str
    """Account that uses the connection; empty for a listener, and before the login."""
    follows: bool
    """True if the connection is logged in and receives a stream."""
    lag_bytes: int
    """Number of bytes of the connection's stream that were not sent yet."""


class Sessions(msgspec.Struct, frozen=True):
    """Connections to the exchange."""

    sessions: tuple[SessionLine, ...]
    total: int
    """Number of all connections, which may exceed the `MOST_SESSIONS` that are listed."""


class AccountLine(msgspec.Struct, frozen=True):
    """One account."""

    name: str
    """Name of the account: ``text:7`` or ``ouch:ALPHA``."""
    protocol: str
    broker_id: int
    killed: bool
    """True if its new orders are refused."""
    open_orders: int
    open_notional: int | None
    """Ticks × lots of its live orders; None if no limit of the account needs this sum."""
    self_trade: str
    cancel_on_disconnect: bool
    messages: int
    """Number of messages of its private stream."""


class Accounts(msgspec.Struct, frozen=True):
    """Accounts in the order of their appearance."""

    accounts: tuple[AccountLine, ...]
    total: int
    """Number of all accounts, which may exceed the `MOST_ACCOUNTS` that are listed."""


class StateHash(msgspec.Struct, frozen=True):
    """Hash of the market's state after a request of the journal."""

    inputs: int
    """Number of requests applied."""
    time_ns: int
    hash: str
    """Hash of 32 bytes, in hexadecimal."""


class Replay(msgspec.Struct, frozen=True):
    """Replay of a recorded file."""

    file: str
    symbol: str
    position: int
    """Position of the last record that was played."""
    time_ns: int
    """Market time, which is the recording's, in nanoseconds since the UTC epoch."""
    speed: float | None
    """Recorded seconds per real second; None: as fast as possible."""
    paused: bool
    seeking: bool
    """True if the replay is skipping to a requested position."""
    finished: bool
    counts: dict[str, int]
    """Number of records that could not be played as recorded, by reason."""


class SetPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to change the phase of a symbol; empty: of all symbols."""

    symbol: Text
    phase: PhaseName
    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON, pattern=r"^[ -~]*\Z")] = ""
    """Reason of a halt, as published on the feed."""


class CutSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to close a connection."""

    session: Text
    """Name of the connection, as in `SessionLine`."""
    reason: Text = "by the operator"
    """Reason for the log, and for the client if its protocol can carry one."""


class KillAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to stop an account, or to allow it to trade again; a stop cancels live orders and refuses new orders."""

    account: Text
    killed: bool = True


class CancelOrders(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to cancel live orders: those of one account, or of every account if `all` is true.

    Exactly one of `account` and `all` must be given, so that an empty request cancels nothing; `ValueError` otherwise.
    """

    account: Text = ""
    symbol: Text = ""
    """Symbol in which orders are cancelled; empty: every symbol."""
    all: bool = False
    """True to cancel the orders of every account, agents included."""

    def __post_init__(self) -> None:
        """Raise `ValueError` unless the request names one account or all."""
        if bool(self.account) == self.all:
            raise ValueError(f'expected an account or "all": true, was {"both" if self.all else "neither"}')


class BustTrade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to declare a trade void on the feed; books do not change."""

    symbol: Text
    match_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class TakeSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to write a snapshot now, so that a restart reads less of the journal."""


class PlayReplay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Request to pause or resume the replay, to change its speed, or to skip forward; unset fields change nothing.

    At most one of `position` and `time_ns` may be given; `ValueError` otherwise.
    """

    paused: bool | None = None
    speed: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Recorded seconds per real second; 0: as fast as possible."""
    position: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """Position of the record at which to continue."""
    time_ns: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """Recorded time at which to continue, in nanoseconds since the UTC epoch."""

    def __post_init__(self) -> None:
        """Raise `ValueError` for two places at which to continue: one could be carried out and the other refused."""
        if self.position is not None and self.time_ns is not None:
            raise ValueError("expected a position or a time, was both")


Change = SetPhase | CutSession | KillAccount | CancelOrders | BustTrade | TakeSnapshot | PlayReplay

CHANGES: Final[Mapping[str, type[Change]]] = MappingProxyType(
    {
        "/v1/phase": SetPhase,
        "/v1/sessions/cut": CutSession,
        "/v1/accounts/kill": KillAccount,
        "/v1/orders/cancel": CancelOrders,
        "/v1/trades/bust": BustTrade,
        "/v1/snapshot": TakeSnapshot,
        "/v1/replay": PlayReplay,
    }
)
"""Struct that each path takes."""


class Done(msgspec.Struct, frozen=True):
    """Confirmation of a change."""

    what: str
    """Description of the change."""
    time_ns: int
    """Market time in nanoseconds since the UTC epoch."""
    inputs: int
    """Number of requests in the journal, this one included."""


LIVE_PATH: Final = "/v1/live/"
"""Path of live frames, followed by the symbol; ``?after=N`` omits the trades of the feed's messages up to N."""
LIVE_DEPTH: Final = 10
"""Number of levels of a side."""
MOST_TRADES: Final = 50
"""Greatest number of trades in one frame, the newest."""


class LiveLevel(msgspec.Struct, frozen=True, array_like=True):
    """Displayed orders at one price."""

    price: str
    quantity: str
    orders: int


class LiveTrade(msgspec.Struct, frozen=True, array_like=True):
    """One execution on the feed."""

    number: int
    """Number of the feed message."""
    day_ns: int
    """Market time in nanoseconds since midnight UTC."""
    price: str | None
    """Price; None if the message has no price, and the order to which it refers is too old to be known (ITCH)."""
    quantity: str


class LiveFigures(msgspec.Struct, frozen=True):
    """Figures of the session and of the present state."""

    inputs: int
    """Number of requests in the journal."""
    messages: int
    """Number of messages of the feed."""
    orders: int
    """Number of orders accepted."""
    trades: int
    live_orders: int
    """Number of orders in the books, or waiting."""
    sessions: int
    """Number of connections."""
    listeners: int
    """Number of connections that receive a stream."""
    refused: int
    """Number of requests refused since the process started."""


class Live(msgspec.Struct, frozen=True):
    """State of one symbol and of the exchange at one time."""

    session: str
    """Name of the session; message numbers are only valid within a session."""
    up_s: float
    """Seconds since the process started, for the calculation of rates."""
    day_ns: int
    """Market time in nanoseconds since midnight UTC."""
    symbol: str
    phase: PhaseName
    last: str | None
    """Price of the last trade."""
    spread: str | None
    """Best ask less best bid; None unless there are both."""
    bids: tuple[LiveLevel, ...]
    """Levels of the bids, best first."""
    asks: tuple[LiveLevel, ...]
    """Levels of the asks, best first."""
    trades: tuple[LiveTrade, ...]
    """Trades among the newest messages of the feed, oldest first."""
    next_after: int
    """Value of ``after`` for the next request."""
    figures: LiveFigures
    replay: Replay | None
    """Replay; None if no recorded file is played."""
