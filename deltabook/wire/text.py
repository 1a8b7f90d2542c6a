"""The text protocol: logins, feed lines, requests with their options, and responses as ASCII lines.

One line is one message, and commas separate its fields. Integers are decimal int64, times are nanoseconds since the UTC
epoch, prices are ticks and volumes are lots. ``docs/wire.md`` describes the conversation; this module has the records
and functions that encode and decode them.

Options of an order are words separated by ``;`` in the ninth field of a request, each at most once:

>>> msgspec.structs.asdict(parse_options("ioc;min=100", b""))["minimum"]
100
>>> encode_options(OrderOptions(display=10, stop_ticks=9_900))
'show=10;stop=9900'
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from deltabook.wire.errors import WireError

__all__ = [
    "INTERACTIVE",
    "LINE_LIMIT_BYTES",
    "PASSIVE",
    "PLAIN",
    "SYMBOL_LIMIT",
    "Accepted",
    "AuctionName",
    "FeedMessage",
    "InteractiveLogin",
    "OrderOptions",
    "PassiveLogin",
    "Refused",
    "Request",
    "Response",
    "WireError",
    "encode_feed_message",
    "encode_login",
    "encode_login_reply",
    "encode_options",
    "encode_request",
    "encode_response",
    "int64",
    "parse_feed_message",
    "parse_login",
    "parse_login_reply",
    "parse_options",
    "parse_request",
    "parse_response",
    "reason_field",
]

_LARGEST: Final = str(2**63 - 1)
_SMALLEST: Final = str(2**63)
_SAFE_DIGITS: Final = len(_LARGEST)
SYMBOL_LIMIT: Final = 16
"""Largest number of characters of an instrument's name."""


def int64(text: str, name: str, line: bytes) -> int:
    """Return the decimal int64 in an ASCII field; raise `WireError`, which names the field and the line.

    The field consists of digits, with or without a minus before them: no blanks, no plus and no underscores.
    """
    if text.isdigit() and len(text) < _SAFE_DIGITS:
        return int(text)
    digits, limit = (text[1:], _SMALLEST) if text[:1] == "-" else (text, _LARGEST)
    if digits.isdigit() and (len(digits) < len(limit) or (len(digits) == len(limit) and digits <= limit)):
        return int(text)
    raise WireError(f"expected an int64 for {name}, was {text[:40]!r} in {line[:80]!r}")


def is_symbol(text: str) -> bool:
    """Return True if an ASCII field can be an instrument's name, or is empty."""
    return len(text) <= SYMBOL_LIMIT and (text.isalnum() or (text.isprintable() and " " not in text))


AuctionName = Literal["", "open", "close", "halt"]


class OrderOptions(msgspec.Struct, frozen=True, gc=False):
    """Attributes of an order; the market decides which of them may be combined."""

    immediate: bool = False
    """Option ``ioc``: the part that does not execute at once is cancelled."""
    post_only: bool = False
    """Option ``post``: the order is cancelled if it would execute on entry."""
    hidden: bool = False
    """Option ``hidden``: the order rests, and is in no feed."""
    minimum: int | None = None
    """Option ``min=N``, together with ``ioc``: at least this many lots execute at once, or none does."""
    display: int | None = None
    """Option ``show=N``: an iceberg, which displays this many lots at a time."""
    stop_ticks: int | None = None
    """Option ``stop=TICKS``: the order waits for a trade at this price, or beyond it."""
    expire_ns: int | None = None
    """Option ``until=NS``: the order ends at this market time."""
    auction: AuctionName = ""
    """Option ``open``, ``close`` or ``halt``: the order takes part only in the opening or closing auction, or in an
    auction after a halt.
    """


PLAIN: Final = OrderOptions()
"""Attributes of a plain limit or market order."""

_FLAGS: Final = {"ioc": "immediate", "post": "post_only", "hidden": "hidden"}
_NUMBERS: Final = {"min": "minimum", "show": "display", "stop": "stop_ticks", "until": "expire_ns"}
_AUCTIONS: Final = frozenset(("open", "close", "halt"))
_WORDS: Final = "ioc, post, hidden, min=N, show=N, stop=TICKS, until=NS, open, close or halt"


def parse_options(text: str, line: bytes) -> OrderOptions:
    """Parse the options in a field of `line`, which is for error messages only; raise `WireError` for other text."""
    if not text:
        return PLAIN
    settings: dict[str, Any] = {}
    for word in text.split(";"):
        name, equals, value = word.partition("=")
        setting: Any
        if word in _FLAGS:
            field, setting = _FLAGS[word], True
        elif equals and name in _NUMBERS:
            field, setting = _NUMBERS[name], int64(value, name, line)
        elif word in _AUCTIONS:
            field, setting = "auction", word
        else:
            raise WireError(f"expected an option out of {_WORDS}, was {word[:40]!r} in {line[:80]!r}")
        if field in settings:
            raise WireError(f"expected each option once, and one auction, was {text[:40]!r} in {line[:80]!r}")
        settings[field] = setting
    return OrderOptions(**settings)


def encode_options(options: OrderOptions) -> str:
    """Return the options as a field, empty for `PLAIN`."""
    words = [word for word, field in _FLAGS.items() if getattr(options, field)]
    for word, field in _NUMBERS.items():
        value = getattr(options, field)
        if value is not None:
            words.append(f"{word}={value}")
    if options.auction:
        words.append(options.auction)
    return ";".join(words)


INTERACTIVE: Final = "0"
PASSIVE: Final = "1"
LINE_LIMIT_BYTES: Final = 1024
"""Greatest size in bytes of a line that either side accepts, delimiter included."""

_REASON_LIMIT: Final = 500
"""Largest number of characters of a reason, so that its line stays below the limit."""
_FEED_ACTIONS: Final = frozenset("BSEFXDTH")
_REQUEST_ACTIONS: Final = frozenset("BSXDUM")
_RESPONSE_ACTIONS: Final = frozenset("AEFXDUNTBRH")


class FeedMessage(msgspec.Struct, frozen=True, gc=False):
    """One sequenced event of the exchange, as every passive listener receives it."""

    sequence: int
    """Position in the session's feed, from 1; in a heartbeat, the number of the next message."""
    time_ns: int
    """Market time in nanoseconds; all messages of one request share it."""
    order_id: int
    """Number of the resting order (0 if there is none)."""
    broker_id: int
    """Broker of the resting order."""
    action: str
    """Action, one of B S E F X D T H."""
    volume: int
    """Volume in lots: resting for B S, executed for E F T, removed for X, remaining for D."""
    price: int
    """Price in ticks: the limit for B S, the execution price for E F T."""
    symbol: str
    """Instrument, empty in a heartbeat."""


class Request(msgspec.Struct, frozen=True, gc=False):
    """Request of an interactive client."""

    client_id: int
    """Number of the request, strictly increasing per broker: a request whose number is not above that of the broker's
    last request is a retransmission.
    """
    order_id: int
    """The exchange's order id for X, D and U, 0 for B, S and M."""
    broker_id: int
    """Broker that sends the request."""
    action: str
    """Action, one of B S X D U M."""
    volume: int
    """Volume in lots: to buy or sell, to remove (X), or to remain open (U)."""
    price: int
    """Limit in ticks; 0 is a market order."""
    symbol: str
    """Instrument; for M the instrument of the orders to cancel, empty for all orders."""
    time_ns: int = 0
    """The client's own time in nanoseconds; the exchange does not use it."""
    options: OrderOptions = PLAIN
    """Options of an order; only with B and S."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """One message of a broker's private stream."""

    sequence: int
    """Position in the private stream, from 1; 0 is outside it (retransmissions, invalid lines).

    In a heartbeat, the number of the next message.
    """
    time_ns: int
    """Market time in nanoseconds."""
    order_id: int
    """The exchange's order id."""
    broker_id: int
    """Broker that owns the stream."""
    action: str
    """Action, one of A E F X D U N T B R H."""
    volume: int
    """Volume in lots: accepted (A), executed (E F B), removed (X), remaining (D), open (U T), displayed (N)."""
    price: int
    """Price in ticks: limit (A U N T), execution price (E F B)."""
    symbol: str
    """Instrument."""
    client_id: int
    """Number of the request that the message answers; for E, F, D, N, T and B, number of the request that created the
    order.
    """
    detail: str
    """Detail of the action: A: side B or S; E F: maker, taker or cross; X D: the reason; U: the previous id of the
    order; N: the id on the feed; T: the stop price; B: the number of the void match; R: the reason.
    """


class PassiveLogin(msgspec.Struct, frozen=True):
    """A listener's first line."""

    session: str = ""
    """Session to continue, empty for the current one."""
    sequence: int = 0
    """Number of the first message requested, 0 for messages from now on."""


class InteractiveLogin(msgspec.Struct, frozen=True):
    """A trading client's first line."""

    broker_id: int | None = None
    """Broker that owns the private stream; None takes the broker of the first request."""
    session: str = ""
    """Session to continue, empty for the current one."""
    sequence: int = 0
    """Number of the first private message requested, 0 for messages from now on."""
    cancel_on_disconnect: bool | None = None
    """True to cancel the broker's orders, from now on, when its last connection ends; None: unchanged."""


class Accepted(msgspec.Struct, frozen=True):
    """The answer to an accepted login."""

    session: str
    """The exchange's session."""
    sequence: int
    """Number of the next message of this stream; 0 for a client that has not named its broker yet."""
    last_client_id: int | None = None
    """Number of the broker's last request that was processed, 0 for none; for interactive clients only."""


class Refused(msgspec.Struct, frozen=True):
    """The answer to a refused login; the connection is closed."""

    code: str
    """Code of the reason: session, sequence or login."""
    reason: str
    """Reason as text."""


def _fields(line: bytes, count: int, most: int = 0) -> list[str]:
    try:
        text = line.rstrip(b"\r\n").decode("ascii")
    except UnicodeDecodeError:
        raise WireError(f"expected ASCII, was {line[:80]!r}") from None
    fields = text.split(",")
    if len(fields) != count and len(fields) != most:
        wanted = f"{count} or {most}" if most else count
        raise WireError(f"expected {wanted} fields, was {len(fields)} in {line[:80]!r}")
    return fields


def _symbol(text: str, line: bytes) -> str:
    if not is_symbol(text):
        raise WireError(f"expected a symbol of up to 16 characters without blanks, was {text[:40]!r} in {line[:80]!r}")
    return text


def reason_field(text: str) -> str:
    """Return the part of a reason that fits into a field of a line; commas and line ends become blanks."""
    return text.replace(",", " ").replace("\n", " ").replace("\r", " ")[:_REASON_LIMIT]


def _action(text: str, allowed: frozenset[str], line: bytes) -> str:
    if text not in allowed:
        letters = " ".join(sorted(allowed))
        raise WireError(f"expected an action out of {letters}, was {text[:40]!r} in {line[:80]!r}")
    return text


def encode_feed_message(message: FeedMessage) -> bytes:
    """Return a feed line with its delimiter."""
    m = message
    return (f"{m.sequence},{m.time_ns},{m.order_id},{m.broker_id},{m.action},{m.volume},{m.price},{m.symbol}\n").encode(
        "ascii"
    )


def parse_feed_message(line: bytes) -> FeedMessage:
    """Return a feed line's record; raise `WireError` for a line of another form."""
    f = _fields(line, 8)
    return FeedMessage(
        sequence=int64(f[0], "sequence", line),
        time_ns=int64(f[1], "t", line),
        order_id=int64(f[2], "order_id", line),
        broker_id=int64(f[3], "broker_id", line),
        action=_action(f[4], _FEED_ACTIONS, line),
        volume=int64(f[5], "volume", line),
        price=int64(f[6], "price", line),
        symbol=_symbol(f[7], line),
    )


def encode_request(request: Request) -> bytes:
    """Return a request line with its delimiter; it has 8 fields if there are no options."""
    r = request
    options = "" if r.options == PLAIN else f",{encode_options(r.options)}"
    return (
        f"{r.client_id},{r.time_ns},{r.order_id},{r.broker_id},{r.action},{r.volume},{r.price},{r.symbol}{options}\n"
    ).encode("ascii")


def parse_request(line: bytes) -> Request:
    """Return a request line's record; raise `WireError` for a line of another form."""
    f = _fields(line, 8, 9)
    options = parse_options(f[8], line) if len(f) == 9 else PLAIN
    action = _action(f[4], _REQUEST_ACTIONS, line)
    if options is not PLAIN and action not in "BS":
        raise WireError(f"expected options with B and S only, was {f[8][:40]!r} with {action} in {line[:80]!r}")
    # Arguments are positional, and ordinary symbols are checked without a call: this runs for every request.
    symbol = f[7] if f[7].isalnum() and len(f[7]) <= SYMBOL_LIMIT else _symbol(f[7], line)
    return Request(
        int64(f[0], "client_id", line),
        int64(f[2], "order_id", line),
        int64(f[3], "broker_id", line),
        action,
        int64(f[5], "volume", line),
        int64(f[6], "price", line),
        symbol,
        int64(f[1], "t", line),
        options,
    )


def encode_response(response: Response) -> bytes:
    """Return a private line with its delimiter; the detail is written as `reason_field` returns it."""
    r = response
    return (
        f"{r.sequence},{r.time_ns},{r.order_id},{r.broker_id},{r.action},{r.volume},{r.price},{r.symbol},"
        f"{r.client_id},{reason_field(r.detail)}\n"
    ).encode("ascii", "replace")


def parse_response(line: bytes) -> Response:
    """Return a private line's record; raise `WireError` for a line of another form."""
    f = _fields(line, 10)
    return Response(
        sequence=int64(f[0], "sequence", line),
        time_ns=int64(f[1], "t", line),
        order_id=int64(f[2], "order_id", line),
        broker_id=int64(f[3], "broker_id", line),
        action=_action(f[4], _RESPONSE_ACTIONS, line),
        volume=int64(f[5], "volume", line),
        price=int64(f[6], "price", line),
        symbol=_symbol(f[7], line),
        client_id=int64(f[8], "client_id", line),
        detail=f[9],
    )


def encode_login(login: PassiveLogin | InteractiveLogin) -> bytes:
    """Return the first line of a connection, with its delimiter."""
    if isinstance(login, PassiveLogin):
        return f"{PASSIVE},{login.session},{login.sequence}\n".encode("ascii")
    if login.broker_id is None:
        return f"{INTERACTIVE}\n".encode("ascii")
    choice = "" if login.cancel_on_disconnect is None else f",{login.cancel_on_disconnect:d}"
    return f"{INTERACTIVE},{login.broker_id},{login.session},{login.sequence}{choice}\n".encode("ascii")


def parse_login(line: bytes) -> PassiveLogin | InteractiveLogin:
    """Parse the first line of a connection; raise `WireError` for a line of another form."""
    try:
        fields = line.rstrip(b"\r\n").decode("ascii").split(",")
    except UnicodeDecodeError:
        raise WireError(f"expected a login in ASCII, was {line[:80]!r}") from None
    kind, rest = fields[0], fields[1:]
    if kind == PASSIVE and len(rest) in (0, 2):
        return PassiveLogin(rest[0], _position(rest[1], line)) if rest else PassiveLogin()
    if kind == INTERACTIVE and len(rest) in (0, 1, 3, 4):
        broker_id = int64(rest[0], "broker_id", line) if rest else None
        if len(rest) < 3:
            return InteractiveLogin(broker_id)
        choice = _choice(rest[3], line) if len(rest) == 4 else None
        return InteractiveLogin(broker_id, rest[1], _position(rest[2], line), choice)
    raise WireError(f"expected a login `1` with 0 or 2 fields after it or `0` with 0 or 1 or 3 or 4, was {line[:80]!r}")


def _choice(text: str, line: bytes) -> bool:
    if text not in ("0", "1"):
        raise WireError(f"expected 1 or 0 for cancel on disconnect, was {text[:40]!r} in {line[:80]!r}")
    return text == "1"


def _position(text: str, line: bytes) -> int:
    value = int64(text, "sequence", line)
    if value < 0:
        raise WireError(f"expected a sequence of 0 or more, was {value} in {line[:80]!r}")
    return value


def encode_login_reply(reply: Accepted | Refused) -> bytes:
    """Return the exchange's first line, with its delimiter."""
    if isinstance(reply, Refused):
        return f"J,{reply.code},{reason_field(reply.reason)}\n".encode("ascii", "replace")
    last = "" if reply.last_client_id is None else f",{reply.last_client_id}"
    return f"A,{reply.session},{reply.sequence}{last}\n".encode("ascii")


def parse_login_reply(line: bytes) -> Accepted | Refused:
    """Parse the exchange's first line; raise `WireError` for a line of another form."""
    fields = line.rstrip(b"\r\n").decode("ascii", "replace").split(",")
    if fields[0] == "J" and len(fields) == 3:
        return Refused(fields[1], fields[2])
    if fields[0] == "A" and len(fields) in (3, 4):
        last = int64(fields[3], "last_client_id", line) if len(fields) == 4 else None
        return Accepted(fields[1], int64(fields[2], "sequence", line), last)
    raise WireError(f"expected a login reply `A,session,sequence[,last]` or `J,code,reason`, was {line[:80]!r}")
