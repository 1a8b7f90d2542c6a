"""NASDAQ OUCH 4.2: the tables of its messages and its codes, and functions that encode and decode a message.

This version differs from `ouch5`: a token of 14 characters identifies an order, prices have four bytes, and there are
no options.

>>> encode_request("X", order_token="A1", shares=0)
b'XA1            \\x00\\x00\\x00\\x00'
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from deltabook.wire import _messages
from deltabook.wire._messages import DecodedMessage, MessageTable, Value

__all__ = [
    "IMMEDIATE",
    "LARGEST_QUANTITY",
    "MARKET_HOURS",
    "MARKET_PRICE",
    "REPLIES",
    "REQUESTS",
    "SYSTEM_HOURS",
    "CancelReason",
    "Display",
    "RejectReason",
    "decode_reply",
    "decode_request",
    "encode_reply",
    "encode_request",
]

MARKET_PRICE: Final = 0x7FFFFFFF
"""Price of a market order; every price of $200,000 or more means a market order."""
LARGEST_QUANTITY: Final = 999_999
IMMEDIATE: Final = 0
"""Time in force of an order that does not rest; other values are seconds to live."""
MARKET_HOURS: Final = 99_998
"""Time in force of an order for the day."""
SYSTEM_HOURS: Final = 99_999
"""Time in force of an order for as long as the system runs."""

# The columns are type, name and fields; see `_messages.table`.
REQUESTS: Final[MessageTable] = _messages.table("""
O  Enter Order              order_token:14 buy_sell_indicator:1 shares:u4 stock:8 price:u4 time_in_force:u4 firm:4 \
display:1 capacity:1 intermarket_sweep_eligibility:1 minimum_quantity:u4 cross_type:1 customer_type:1
U  Replace Order            existing_order_token:14 replacement_order_token:14 shares:u4 price:u4 time_in_force:u4 \
display:1 intermarket_sweep_eligibility:1 minimum_quantity:u4
X  Cancel Order             order_token:14 shares:u4
M  Modify Order             order_token:14 buy_sell_indicator:1 shares:u4
N  Trade Now                order_token:14
""")
"""Messages of clients, by letter."""

REPLIES: Final[MessageTable] = _messages.table("""
S  System Event             timestamp:u8 event_code:1
A  Accepted                 timestamp:u8 order_token:14 buy_sell_indicator:1 shares:u4 stock:8 price:u4 \
time_in_force:u4 firm:4 display:1 order_reference_number:u8 capacity:1 intermarket_sweep_eligibility:1 \
minimum_quantity:u4 cross_type:1 order_state:1 bbo_weight_indicator:1
U  Replaced                 timestamp:u8 replacement_order_token:14 buy_sell_indicator:1 shares:u4 stock:8 price:u4 \
time_in_force:u4 firm:4 display:1 order_reference_number:u8 capacity:1 intermarket_sweep_eligibility:1 \
minimum_quantity:u4 cross_type:1 order_state:1 previous_order_token:14 bbo_weight_indicator:1
C  Canceled                 timestamp:u8 order_token:14 decrement_shares:u4 reason:1
D  AIQ Canceled             timestamp:u8 order_token:14 decrement_shares:u4 reason:1 \
quantity_prevented_from_trading:u4 execution_price:u4 liquidity_flag:1
E  Executed                 timestamp:u8 order_token:14 executed_shares:u4 execution_price:u4 liquidity_flag:1 \
match_number:u8
B  Broken Trade             timestamp:u8 order_token:14 match_number:u8 reason:1
G  Executed With Reference  timestamp:u8 order_token:14 executed_shares:u4 execution_price:u4 liquidity_flag:1 \
match_number:u8 reference_price:u4 reference_price_type:1
F  Trade Correction         timestamp:u8 order_token:14 executed_shares:u4 execution_price:u4 liquidity_flag:1 \
match_number:u8 reason:1
J  Rejected Order           timestamp:u8 order_token:14 reason:1
P  Cancel Pending           timestamp:u8 order_token:14
I  Cancel Reject            timestamp:u8 order_token:14
T  Order Priority Update    timestamp:u8 order_token:14 price:u4 display:1 order_reference_number:u8
M  Order Modified           timestamp:u8 order_token:14 buy_sell_indicator:1 shares:u4
N  Sequenced Trade Now      timestamp:u8 order_token:14
""")
"""Messages of the exchange, by letter."""


class Display(StrEnum):
    """Visibility of an order, and other attributes that 4.2 puts in the same field."""

    ATTRIBUTABLE = "A"
    VISIBLE = "Y"
    HIDDEN = "N"
    POST_ONLY = "P"
    POST_ONLY_ATTRIBUTABLE = "L"
    IMBALANCE_ONLY = "I"
    MIDPOINT_PEG = "M"
    MIDPOINT_POST_ONLY = "W"
    RETAIL_1 = "O"
    RETAIL_2 = "T"
    RETAIL_PRICE_IMPROVEMENT = "Q"
    CONFORMANT = "Z"


class CancelReason(StrEnum):
    """Reason why an order, or a part of it, was cancelled."""

    USER = "U"
    IMMEDIATE = "I"
    TIMEOUT = "T"
    SUPERVISORY = "S"
    REGULATORY = "D"
    SELF_MATCH = "Q"
    SYSTEM = "Z"
    CROSS = "C"
    COLLARS = "K"
    HALTED = "H"
    OPEN_PROTECTION = "X"
    CLOSED = "E"


class RejectReason(StrEnum):
    """Reason why an order was rejected."""

    TEST = "T"
    HALTED = "H"
    SHARES_EXCEED_THRESHOLD = "Z"
    INVALID_STOCK = "S"
    INVALID_DISPLAY = "D"
    CLOSED = "C"
    FIRM_NOT_AUTHORIZED = "L"
    CLEARING_TIME = "M"
    INVALID_CROSS = "R"
    INVALID_PRICE = "X"
    INVALID_MINIMUM_QUANTITY = "N"
    OTHER = "O"
    INVALID_MIDPOINT_POST_ONLY_PRICE = "W"
    REJECT_ALL = "a"
    EASY_TO_BORROW = "b"
    RESTRICTED_SYMBOL = "c"
    ISO_RESTRICTION = "d"
    ODD_LOT_RESTRICTION = "e"
    MIDPOINT_RESTRICTION = "f"
    PRE_MARKET_RESTRICTION = "g"
    POST_MARKET_RESTRICTION = "h"
    SHORT_SALE_RESTRICTION = "i"
    ON_OPEN_RESTRICTION = "j"
    ON_CLOSE_RESTRICTION = "k"
    TWO_SIDED_QUOTE = "l"
    EXCEEDED_SHARES = "m"
    EXCEEDED_VALUE = "n"


def encode_request(type_: str, /, **values: Value) -> bytes:
    """Return a client's message, without a packet around it; names are those of `REQUESTS`.

    Raise `WireError` for values that do not fit.
    """
    return _messages.encode(REQUESTS, type_, values)


def decode_request(data: bytes) -> DecodedMessage:
    """Return a client's message as values; raise `WireError` for bytes of another form."""
    message, fields = _messages.decode(REQUESTS, data)
    return DecodedMessage(message.type, fields)


def encode_reply(type_: str, /, **values: Value) -> bytes:
    """Return the exchange's message, without a packet around it; names are those of `REPLIES`.

    Raise `WireError` for values that do not fit.
    """
    return _messages.encode(REPLIES, type_, values)


def decode_reply(data: bytes) -> DecodedMessage:
    """Return the exchange's message as values; raise `WireError` for bytes of another form."""
    message, fields = _messages.decode(REPLIES, data)
    return DecodedMessage(message.type, fields)
