"""NASDAQ OUCH 5.0: the tables of its messages, options and codes, and functions that encode and decode a message.

Requests are sent in unsequenced packets of SoupBinTCP, replies in sequenced ones (`soupbin`). Integers are big-endian
and unsigned, alphas are ASCII, left-justified and padded with blanks. Prices are integers with four implied decimals,
quantities are shares, times are nanoseconds since midnight.

>>> order = encode_request(
...     "O", user_ref_num=1, side="B", quantity=100, symbol="ACME", price=10_500, time_in_force="0", display="Y",
...     capacity="P", inter_market_sweep_eligibility="N", cross_type="N", cl_ord_id="a",
...     options={Option.POST_ONLY: "P"},
... )
>>> len(order), decode_request(order).options
(50, {12: 'P'})
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import Final

from deltabook.wire import _messages
from deltabook.wire._messages import DecodedMessage, Kind, MessageField, MessageTable, Value
from deltabook.wire.errors import WireError

__all__ = [
    "LARGEST_QUANTITY",
    "MARKET_PRICE",
    "OPTIONS",
    "REPLIES",
    "REQUESTS",
    "CancelReason",
    "CrossType",
    "Display",
    "Option",
    "RejectReason",
    "TimeInForce",
    "decode_options",
    "decode_reply",
    "decode_request",
    "encode_options",
    "encode_reply",
    "encode_request",
]

MARKET_PRICE: Final = 0x7FFFFFFF
"""Price of a market order; every price of $200,000 or more means a market order."""
LARGEST_QUANTITY: Final = 999_999

# The columns are type, name and fields; see `_messages.table`. NASDAQ OUCH 5.0, April 2023.
REQUESTS: Final[MessageTable] = _messages.table("""
O  Enter Order              user_ref_num:u4 side:1 quantity:u4 symbol:8 price:u8 time_in_force:1 display:1 capacity:1 \
inter_market_sweep_eligibility:1 cross_type:1 cl_ord_id:14 +
U  Replace Order            orig_user_ref_num:u4 user_ref_num:u4 quantity:u4 price:u8 time_in_force:1 display:1 \
inter_market_sweep_eligibility:1 cl_ord_id:14 +
X  Cancel Order             user_ref_num:u4 quantity:u4
C  Mass Cancel              user_ref_num:u4 firm:4 symbol:8 +
M  Modify Order             user_ref_num:u4 side:1 quantity:u4
Q  Account Query            \n""")
"""Messages of clients, by letter."""

REPLIES: Final[MessageTable] = _messages.table("""
S  System Event             timestamp:u8 event_code:1
A  Order Accepted           timestamp:u8 user_ref_num:u4 side:1 quantity:u4 symbol:8 price:u8 time_in_force:1 \
display:1 order_reference_number:u8 capacity:1 inter_market_sweep_eligibility:1 cross_type:1 order_state:1 \
cl_ord_id:14 +
U  Order Replaced           timestamp:u8 orig_user_ref_num:u4 user_ref_num:u4 side:1 quantity:u4 symbol:8 price:u8 \
time_in_force:1 display:1 order_reference_number:u8 capacity:1 inter_market_sweep_eligibility:1 cross_type:1 \
order_state:1 cl_ord_id:14 +
C  Order Canceled           timestamp:u8 user_ref_num:u4 quantity:u4 reason:1
D  AIQ Canceled             timestamp:u8 user_ref_num:u4 decrement_shares:u4 reason:1 \
quantity_prevented_from_trading:u4 execution_price:u8 liquidity_flag:1 aiq_strategy:1
E  Order Executed           timestamp:u8 user_ref_num:u4 quantity:u4 price:u8 liquidity_flag:1 match_number:u8 +
B  Broken Trade             timestamp:u8 user_ref_num:u4 match_number:u8 reason:1 cl_ord_id:14
F  Trade Correction         timestamp:u8 user_ref_num:u4 quantity:u4 price:u8 liquidity_flag:1 match_number:u8 \
reason:1 cl_ord_id:14
J  Order Rejected           timestamp:u8 user_ref_num:u4 reason:u2 cl_ord_id:14
P  Cancel Pending           timestamp:u8 user_ref_num:u4
I  Cancel Reject            timestamp:u8 user_ref_num:u4
T  Order Priority Update    timestamp:u8 user_ref_num:u4 price:u8 display:1 order_reference_number:u8
M  Order Modified           timestamp:u8 user_ref_num:u4 side:1 quantity:u4
R  Order Restated           timestamp:u8 user_ref_num:u4 reason:1 +
X  Mass Cancel Response     timestamp:u8 user_ref_num:u4 firm:4 symbol:8 +
Q  Account Query Response   timestamp:u8 next_user_ref_num:u4
""")
"""Messages of the exchange, by letter."""


class Option(IntEnum):
    """Tags of the options after a message."""

    SECONDARY_ORDER_REFERENCE = 1
    """Present order number on the feed."""
    FIRM = 2
    MINIMUM_QUANTITY = 3
    CUSTOMER_TYPE = 4
    MAX_FLOOR = 5
    """Shares that an iceberg displays at a time."""
    PRICE_TYPE = 6
    PEG_OFFSET = 7
    DISCRETION_PRICE = 9
    DISCRETION_PRICE_TYPE = 10
    DISCRETION_PEG_OFFSET = 11
    POST_ONLY = 12
    """Post-only instruction, P or N."""
    RANDOM_RESERVES = 13
    ROUTE = 14
    EXPIRE_TIME = 15
    """Expiry in seconds since midnight."""
    TRADE_NOW = 16
    HANDLE_INSTRUCTION = 17
    BBO_WEIGHT = 18
    DISPLAY_QUANTITY = 22
    DISPLAY_PRICE = 23
    GROUP_ID = 24
    SHARES_LOCATED = 25


_UINT, _ALPHA, _SIGNED = Kind.UINT, Kind.ALPHA, Kind.SIGNED

OPTIONS: Final[Mapping[int, MessageField]] = {
    tag: MessageField(tag.name.lower(), 0, width, kind)
    for tag, width, kind in (
        (Option.SECONDARY_ORDER_REFERENCE, 8, _UINT),
        (Option.FIRM, 4, _ALPHA),
        (Option.MINIMUM_QUANTITY, 4, _UINT),
        (Option.CUSTOMER_TYPE, 1, _ALPHA),
        (Option.MAX_FLOOR, 4, _UINT),
        (Option.PRICE_TYPE, 1, _ALPHA),
        (Option.PEG_OFFSET, 4, _SIGNED),
        (Option.DISCRETION_PRICE, 8, _UINT),
        (Option.DISCRETION_PRICE_TYPE, 1, _ALPHA),
        (Option.DISCRETION_PEG_OFFSET, 4, _SIGNED),
        (Option.POST_ONLY, 1, _ALPHA),
        (Option.RANDOM_RESERVES, 4, _UINT),
        (Option.ROUTE, 4, _ALPHA),
        (Option.EXPIRE_TIME, 4, _UINT),
        (Option.TRADE_NOW, 1, _ALPHA),
        (Option.HANDLE_INSTRUCTION, 1, _ALPHA),
        (Option.BBO_WEIGHT, 1, _ALPHA),
        (Option.DISPLAY_QUANTITY, 4, _UINT),
        (Option.DISPLAY_PRICE, 8, _UINT),
        (Option.GROUP_ID, 2, _UINT),
        (Option.SHARES_LOCATED, 1, _ALPHA),
    )
}
"""All options by tag; their offset is 0."""


class TimeInForce(StrEnum):
    """Time in force of an order. There is no fill-or-kill: use `IOC` with the whole quantity as minimum quantity."""

    DAY = "0"
    IOC = "3"
    GTX = "5"
    GTT = "6"
    AFTER_HOURS = "E"


class Display(StrEnum):
    """Visibility of an order."""

    VISIBLE = "Y"
    HIDDEN = "N"
    ATTRIBUTABLE = "A"
    CONFORMANT = "Z"


class CrossType(StrEnum):
    """Auction in which an order takes part."""

    CONTINUOUS = "N"
    OPENING = "O"
    CLOSING = "C"
    HALT = "H"
    SUPPLEMENTAL = "S"
    RETAIL = "R"
    EXTENDED = "E"
    AFTER_HOURS_CLOSE = "A"


class CancelReason(StrEnum):
    """Reason why an order, or a part of it, was cancelled."""

    USER = "U"
    IMMEDIATE = "I"
    TIMEOUT = "T"
    SUPERVISORY = "S"
    REGULATORY = "D"
    SELF_MATCH = "Q"
    SYSTEM = "Z"
    COLLARS = "K"
    HALTED = "H"
    OPEN_PROTECTION = "X"
    CLOSED = "E"
    POST_ONLY_NMS = "F"
    POST_ONLY_CONTRA = "G"
    DIRECT_LISTING = "e"


class RejectReason(IntEnum):
    """Reason why an order was rejected."""

    QUOTE_UNAVAILABLE = 0x01
    DESTINATION_CLOSED = 0x02
    INVALID_DISPLAY = 0x03
    INVALID_MAX_FLOOR = 0x04
    INVALID_PEG_TYPE = 0x05
    FAT_FINGER = 0x06
    HALTED = 0x07
    ISO_NOT_ALLOWED = 0x08
    INVALID_SIDE = 0x09
    PROCESSING_ERROR = 0x0A
    CANCEL_PENDING = 0x0B
    FIRM_NOT_AUTHORIZED = 0x0C
    INVALID_MINIMUM_QUANTITY = 0x0D
    NO_CLOSING_REFERENCE_PRICE = 0x0E
    OTHER = 0x0F
    CANCEL_NOT_ALLOWED = 0x10
    PEGGING_NOT_ALLOWED = 0x11
    CROSSED_MARKET = 0x12
    INVALID_QUANTITY = 0x13
    INVALID_CROSS_ORDER = 0x14
    REPLACE_NOT_ALLOWED = 0x15
    ROUTING_NOT_ALLOWED = 0x16
    INVALID_SYMBOL = 0x17
    TEST = 0x18
    LATE_LOC_TOO_AGGRESSIVE = 0x19
    RETAIL_NOT_ALLOWED = 0x1A
    INVALID_MIDPOINT_POST_ONLY_PRICE = 0x1B
    INVALID_DESTINATION = 0x1C
    INVALID_PRICE = 0x1D
    SHARES_EXCEED_THRESHOLD = 0x1E
    EXCEEDS_NOTIONAL = 0x1F
    RISK_EXPOSURE = 0x20
    RISK_MARKET_IMPACT = 0x21
    RISK_RESTRICTED_STOCK = 0x22
    RISK_SHORT_SELL = 0x23
    RISK_ORDER_TYPE = 0x24
    RISK_VOLUME = 0x25
    RISK_FAT_FINGER = 0x26
    RISK_LOCATE = 0x27
    RISK_SYMBOL_RATE = 0x28
    RISK_PORT_RATE = 0x29
    RISK_DUPLICATE_RATE = 0x2A


_HEAD: Final = struct.Struct(">BB")
_LENGTH: Final = struct.Struct(">H")


def encode_options(options: Mapping[int, Value]) -> bytes:
    """Return an appendage, preceded by its length; raise `WireError` for unknown tags and for values that do not fit.

    >>> encode_options({Option.MINIMUM_QUANTITY: 100})
    b'\\x00\\x06\\x05\\x03\\x00\\x00\\x00d'
    """
    parts: list[bytes] = []
    for tag, value in options.items():
        field = OPTIONS.get(tag)
        if field is None:
            raise WireError(f"expected an option out of {', '.join(map(str, map(int, OPTIONS)))}, was {tag}")
        data = (
            _messages.alpha(field, value, "an option")
            if field.kind is Kind.ALPHA
            else _messages.number(field, value, "an option").to_bytes(field.width, signed=field.kind is Kind.SIGNED)
        )
        parts.append(_HEAD.pack(field.width + 1, tag) + data)
    appendage = b"".join(parts)
    return _LENGTH.pack(len(appendage)) + appendage


def decode_options(data: bytes) -> dict[int, Value]:
    """Return, by tag, the options of an appendage that begins with its length.

    Raise `WireError` for bytes of another form, and for an unknown tag: a request with an unknown option cannot be
    carried out as the client intends.
    """
    if len(data) < 2 or _LENGTH.unpack_from(data)[0] != len(data) - 2:
        raise WireError(f"expected an appendage of as many bytes as its length says, was {data[:64]!r}")
    options: dict[int, Value] = {}
    at = 2
    while at < len(data):
        end = at + 1 + data[at]
        if end > len(data) or end - at < 2:
            raise WireError(f"expected an option of a tag and a value, was {data[at : at + 16]!r}")
        tag = data[at + 1]
        field = OPTIONS.get(tag)
        if field is None or tag in options:
            raise WireError(f"expected each known option at most once, was tag {tag}")
        if end - at - 2 != field.width:
            raise WireError(f"expected {field.width} bytes of option {field.name}, was {end - at - 2}")
        value = data[at + 2 : end]
        options[tag] = (
            value.decode("latin-1").rstrip(" ")
            if field.kind is Kind.ALPHA
            else int.from_bytes(value, signed=field.kind is Kind.SIGNED)
        )
        at = end
    return options


def _encode(messages: MessageTable, type_: str, options: Mapping[int, Value] | None, values: dict[str, Value]) -> bytes:
    data = _messages.encode(messages, type_, values)
    if messages[type_].has_options:
        return data + encode_options(options or {})
    if options:
        raise WireError(f"expected no options with a message {type_}")
    return data


def _decode(messages: MessageTable, data: bytes) -> DecodedMessage:
    message, fields = _messages.decode(messages, data)
    options = decode_options(data[message.length - 2 :]) if message.has_options else {}
    return DecodedMessage(message.type, fields, options)


def encode_request(type_: str, /, *, options: Mapping[int, Value] | None = None, **values: Value) -> bytes:
    """Return a client's message, without a packet around it; names are those of `REQUESTS`.

    Raise `WireError` for values that do not fit.
    """
    return _encode(REQUESTS, type_, options, values)


def decode_request(data: bytes) -> DecodedMessage:
    """Return a client's message as values; raise `WireError` for bytes of another form."""
    return _decode(REQUESTS, data)


def encode_reply(type_: str, /, *, options: Mapping[int, Value] | None = None, **values: Value) -> bytes:
    """Return the exchange's message, without a packet around it; names are those of `REPLIES`.

    Raise `WireError` for values that do not fit.
    """
    return _encode(REPLIES, type_, options, values)


def decode_reply(data: bytes) -> DecodedMessage:
    """Return the exchange's message as values; raise `WireError` for bytes of another form.

    AIQ Canceled is also accepted without its strategy, as older servers send it.
    """
    if data[:1] == b"D" and len(data) == REPLIES["D"].length - 1:
        data += b" "
    return _decode(REPLIES, data)
