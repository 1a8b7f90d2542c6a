"""Messages of the admin port of an exchange over HTTP: reports, the changes that an operator may make, and live frames.

``GET`` one of the paths answers with the struct of its name; ``POST`` one of those of `CHANGES` takes its struct and
answers with a `Done`. Both are JSON; a refusal is one line of text. ``GET /metrics`` is for a Prometheus.

``GET`` of `LIVE_PATH` answers with a frame for a page that follows one symbol, each sent when the page asks for it. Its
prices and quantities are decimal strings, exact and with all the decimals of tick and lot: what shows them has nothing
to calculate. Times of day fit into a float exactly.
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
"""``?after=SYMBOL`` goes on behind a symbol."""
BOOK_PATH: Final = "/v1/books/"
"""And the symbol; ``?depth=N``."""
SESSIONS_PATH: Final = "/v1/sessions"
ACCOUNTS_PATH: Final = "/v1/accounts"
"""``?after=NAME`` goes on behind an account."""
HASH_PATH: Final = "/v1/hash"
REPLAY_PATH: Final = "/v1/replay"

LONGEST_REASON: Final = 4
"""Characters of the reason of a halt, as the feed has it."""
MOST_DEPTH: Final = 1_000
"""Levels of a side in one answer."""
MOST_ACCOUNTS: Final = 1_000
"""Accounts in one answer."""
MOST_SESSIONS: Final = 1_000
"""Sessions in one answer."""
MOST_SYMBOLS: Final = 1_000
"""Symbols in one answer."""

PORTS_FILE: Final = "ports.json"
"""In the directory of a journal while an exchange runs on it: a `Listening`."""

PhaseName = Literal["continuous", "auction-open", "auction-close", "auction-halt", "halted", "paused", "closed"]
Text = Annotated[str, msgspec.Meta(max_length=200)]


class Listening(msgspec.Struct, frozen=True):
    """Where an exchange can be reached."""

    pid: int
    """Process id."""
    interface: str
    """Address that it listens at."""
    admin_interface: str
    """The same of its admin port."""
    ports: dict[str, int]
    """Port by purpose."""
    is_secure: bool = False
    """True if the admin port speaks TLS."""


class Status(msgspec.Struct, frozen=True):
    """An exchange as a whole."""

    session: str
    """Name of the session."""
    time_ns: int
    """Market time."""
    up_s: float
    """Seconds since the process began."""
    pid: int
    """Process id."""
    directory: str
    """Directory of the journal."""
    ports: dict[str, int]
    """Port by purpose."""
    phases: dict[str, int]
    """Phase → symbols that are in it."""
    figures: dict[str, int | float | str | None]
    """Those of the status lines."""


class SymbolLine(msgspec.Struct, frozen=True):
    """One symbol in a nutshell; prices are ticks, None where there is none."""

    symbol: str
    locate: int
    """Its number, from 1."""
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
    """Orders in the book, or waiting for their stop or auction."""
    tick_size: str
    """Price of one tick."""


class Statistics(msgspec.Struct, frozen=True):
    """What has happened in the session."""

    time_ns: int
    inputs: int
    """Requests that are in the journal."""
    orders: int
    """Orders that were taken."""
    trades: int
    live_orders: int
    accounts: int
    refused: dict[str, int]
    """Reason → requests, since the process began."""
    symbols: tuple[SymbolLine, ...]
    """In the order of their numbers."""
    total_symbols: int
    """Number of all symbols."""


class Level(msgspec.Struct, frozen=True, array_like=True):
    """What is displayed at one price."""

    price_ticks: int
    volume: int
    """Lots."""
    orders: int


class Book(msgspec.Struct, frozen=True):
    """The displayed book of one symbol at one moment, best prices first."""

    symbol: str
    phase: PhaseName
    time_ns: int
    """Market time of the newest request."""
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
    """What it is called here: ``FACE:HOST:PORT``, the address being its peer's."""
    face: str
    """text, itch, ouch or glimpse."""
    peer: str
    """HOST:PORT at the other end."""
    account: str
    """Whose it is; empty of a listener, and before the login."""
    follows: bool
    """True if it is logged in and sent a stream."""
    lag_bytes: int
    """How far it is behind what there is."""


class Sessions(msgspec.Struct, frozen=True):
    """The connections that there are."""

    sessions: tuple[SessionLine, ...]
    total: int
    """More than are listed, if there are more than `MOST_SESSIONS`."""


class AccountLine(msgspec.Struct, frozen=True):
    """One account."""

    name: str
    """``text:7`` or ``ouch:ALPHA``."""
    protocol: str
    broker_id: int
    killed: bool
    """True if its orders are refused."""
    open_orders: int
    open_notional: int | None
    """Ticks times lots of its live orders; None where no limit of the account needs it."""
    self_trade: str
    cancel_on_disconnect: bool
    messages: int
    """That it was told."""


class Accounts(msgspec.Struct, frozen=True):
    """Accounts in the order of their appearance."""

    accounts: tuple[AccountLine, ...]
    total: int
    """Number of all entries."""


class StateHash(msgspec.Struct, frozen=True):
    """The market's state after a request of the journal, in 32 bytes."""

    inputs: int
    """After so many requests."""
    time_ns: int
    hash: str
    """Hexadecimal."""


class Replay(msgspec.Struct, frozen=True):
    """A recorded file that is played."""

    file: str
    symbol: str
    position: int
    """Position of the last record that was played."""
    time_ns: int
    """Market time, which is the recording's."""
    speed: float | None
    """Recorded seconds a real second; None: as fast as possible."""
    paused: bool
    seeking: bool
    """True if it is on its way to where it was told to skip to."""
    finished: bool
    counts: dict[str, int]
    """What could not be done as recorded."""


class SetPhase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bring a symbol into a phase; empty: all symbols."""

    symbol: Text
    phase: PhaseName
    reason: Annotated[str, msgspec.Meta(max_length=LONGEST_REASON, pattern=r"^[ -~]*\Z")] = ""
    """What the feed says of a halt."""


class CutSession(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """End a connection."""

    session: Text
    """As in `SessionLine`."""
    reason: Text = "by the operator"
    """What the log says, and the client where its protocol has words for it."""


class KillAccount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop an account (its live orders are cancelled, new ones refused), or let it trade again."""

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
        """Raise `ValueError` unless the request names whose orders it means."""
        if bool(self.account) == self.all:
            raise ValueError(f'expected an account or "all": true, was {"both" if self.all else "neither"}')


class BustTrade(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Declare a trade void on the feed; books do not change."""

    symbol: Text
    match_id: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]


class TakeSnapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Write a snapshot now, so that a restart reads less of the journal."""


class PlayReplay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pause or resume the recorded file, change its speed, or skip forward to a record; what is unset stays."""

    paused: bool | None = None
    speed: Annotated[float, msgspec.Meta(ge=0)] | None = None
    """Recorded seconds a real second; 0: as fast as possible."""
    position: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """The record to go on with."""
    time_ns: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)] | None = None
    """The recorded time to go on with."""


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
"""Path → what is posted there."""


class Done(msgspec.Struct, frozen=True):
    """A change that was made."""

    what: str
    """In words."""
    time_ns: int
    """Market time."""
    inputs: int
    """Requests in the journal up to and with this one."""


LIVE_PATH: Final = "/v1/live/"
"""And the symbol; ``?after=N`` leaves out the trades of the feed's messages up to N."""
LIVE_DEPTH: Final = 10
"""Levels of a side."""
MOST_TRADES: Final = 50
"""Trades in one frame, the newest."""


class LiveLevel(msgspec.Struct, frozen=True, array_like=True):
    """What is displayed at one price."""

    price: str
    quantity: str
    orders: int


class LiveTrade(msgspec.Struct, frozen=True, array_like=True):
    """One execution that the feed has told of."""

    number: int
    """Number of the feed's message."""
    day_ns: int
    """Market time since midnight UTC."""
    price: str | None
    """None if the message does not say it, and the order that does lies too far back (ITCH)."""
    quantity: str


class LiveFigures(msgspec.Struct, frozen=True):
    """Figures of the session, or of the moment."""

    inputs: int
    """Requests in the journal."""
    messages: int
    """Messages of the feed."""
    orders: int
    """Orders that were taken."""
    trades: int
    live_orders: int
    """Orders in the books, or waiting."""
    sessions: int
    """Connections."""
    listeners: int
    """Those of them that are sent a stream."""
    refused: int
    """Requests that were refused since the process began."""


class Live(msgspec.Struct, frozen=True):
    """One symbol and the exchange around it at one moment."""

    session: str
    """Name of the session; another one has other messages."""
    up_s: float
    """Seconds since the process began; rates are differences by it."""
    day_ns: int
    """Market time since midnight UTC."""
    symbol: str
    phase: PhaseName
    last: str | None
    """Price of the last trade."""
    spread: str | None
    """Best ask less best bid, if there are both."""
    bids: tuple[LiveLevel, ...]
    """Best first, as `asks`."""
    asks: tuple[LiveLevel, ...]
    trades: tuple[LiveTrade, ...]
    """Oldest first, as far as they are among the feed's newest messages."""
    next_after: int
    """What to ask the next frame with."""
    figures: LiveFigures
    replay: Replay | None
    """None if no recorded file is played."""
