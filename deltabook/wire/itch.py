"""NASDAQ TotalView-ITCH 5.0: the table of all messages, functions that encode and decode a message, identifiers of
brokers, and the message that ends a snapshot of GLIMPSE.

Integers are big-endian and unsigned, alphas are ASCII, left-justified and padded with blanks, times are nanoseconds
since midnight in six bytes. Prices stay the integers of the wire, with four or eight implied decimals. To decode many
messages at once, use `MESSAGES` and read whole columns by `MessageField.offset` and `MessageField.width`.

>>> delete = encode_message("D", stock_locate=7, timestamp=34_200_000_000_000, order_reference_number=1001)
>>> len(delete), frame(delete)[:3]
(19, b'\\x00\\x13D')
>>> decode_message(delete).fields["order_reference_number"]
1001

A broker is a market participant with an identifier of up to four characters. The identifier of a broker id up to 9999
is the decimal number, which people can read. A higher id has a letter and three characters out of ``0-9A-Z``, like a
real participant; every such identifier belongs to a broker id.

A snapshot of GLIMPSE is the book as ITCH messages, and a last message with the number at which to join the feed:

>>> parse_snapshot_end(encode_snapshot_end(61_235))
61235
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from deltabook.wire import _messages
from deltabook.wire._messages import DecodedMessage, Kind, MessageField, MessageTable, Value
from deltabook.wire.errors import WireError

__all__ = [
    "LARGEST_BROKER",
    "LONGEST",
    "MESSAGES",
    "SNAPSHOT_END",
    "DecodedMessage",
    "Kind",
    "MessageField",
    "attribution_of",
    "broker_of",
    "decode_message",
    "encode_message",
    "encode_snapshot_end",
    "frame",
    "frames",
    "parse_snapshot_end",
]

_LENGTH: Final = struct.Struct(">H")
_DEFAULTS: Final[dict[str, Value]] = {"stock_locate": 0, "tracking_number": 0, "timestamp": 0, "reserved": " "}
"""Values of fields that `encode_message` does not require."""

# The columns are type, name and fields; see `_messages.table`. NASDAQ TotalView-ITCH 5.0, April 2023.
_TABLE: Final = """
S  System Event                            event_code:1
R  Stock Directory                         stock:8 market_category:1 financial_status_indicator:1 round_lot_size:u4 \
round_lots_only:1 issue_classification:1 issue_sub_type:2 authenticity:1 short_sale_threshold_indicator:1 ipo_flag:1 \
luld_reference_price_tier:1 etp_flag:1 etp_leverage_factor:u4 inverse_indicator:1
H  Stock Trading Action                    stock:8 trading_state:1 reserved:1 reason_code:4
Y  Reg SHO Restriction                     stock:8 reg_sho_action:1
L  Market Participant Position             mpid:4 stock:8 primary_market_maker:1 market_maker_mode:1 \
market_participant_state:1
V  MWCB Decline Level                      level_1:p8 level_2:p8 level_3:p8
W  MWCB Status                             breached_level:1
K  IPO Quoting Period Update               stock:8 ipo_quotation_release_time:u4 ipo_quotation_release_qualifier:1 \
ipo_price:p4
J  LULD Auction Collar                     stock:8 auction_collar_reference_price:p4 upper_auction_collar_price:p4 \
lower_auction_collar_price:p4 auction_collar_extension:u4
h  Operational Halt                        stock:8 market_code:1 operational_halt_action:1
A  Add Order, No MPID Attribution          order_reference_number:u8 buy_sell_indicator:1 shares:u4 stock:8 price:p4
F  Add Order, MPID Attribution             order_reference_number:u8 buy_sell_indicator:1 shares:u4 stock:8 price:p4 \
attribution:4
E  Order Executed                          order_reference_number:u8 executed_shares:u4 match_number:u8
C  Order Executed With Price               order_reference_number:u8 executed_shares:u4 match_number:u8 printable:1 \
execution_price:p4
X  Order Cancel                            order_reference_number:u8 canceled_shares:u4
D  Order Delete                            order_reference_number:u8
U  Order Replace                           order_reference_number:u8 new_order_reference_number:u8 shares:u4 price:p4
P  Trade, Non-Cross                        order_reference_number:u8 buy_sell_indicator:1 shares:u4 stock:8 price:p4 \
match_number:u8
Q  Cross Trade                             cross_shares:u8 stock:8 cross_price:p4 match_number:u8 cross_type:1
B  Broken Trade                            match_number:u8
I  Net Order Imbalance Indicator           paired_shares:u8 imbalance_shares:u8 imbalance_direction:1 stock:8 \
far_price:p4 near_price:p4 current_reference_price:p4 cross_type:1 price_variation_indicator:1
N  Retail Price Improvement Indicator      stock:8 interest_flag:1
O  Direct Listing With Capital Raise       stock:8 open_eligibility_status:1 minimum_allowable_price:p4 \
maximum_allowable_price:p4 near_execution_price:p4 near_execution_time:u8 lower_price_range_collar:p4 \
upper_price_range_collar:p4
"""
MESSAGES: Final[MessageTable] = _messages.table(
    _TABLE, name_end=43, common="stock_locate:u2 tracking_number:u2 timestamp:t6 "
)
"""All 23 messages, by letter."""
LONGEST: Final = max(message.length for message in MESSAGES.values())
"""Length of the longest message in bytes."""


def encode_message(type_: str, /, **values: Value) -> bytes:
    """Return a message without length prefix.

    Names are those of `MESSAGES`; the three fields that all messages share default to 0, and ``reserved`` is blank.
    Raises `WireError` for an unknown type, a missing or unknown name, and a value that does not fit.
    """
    fields = MESSAGES[type_].fields if type_ in MESSAGES else ()
    defaults = {field.name: _DEFAULTS[field.name] for field in fields if field.name in _DEFAULTS}
    return _messages.encode(MESSAGES, type_, {**defaults, **values})


def decode_message(data: bytes) -> DecodedMessage:
    """Return a message without its length prefix as values; raise `WireError` for an unknown type or a wrong length."""
    message, fields = _messages.decode(MESSAGES, data)
    return DecodedMessage(message.type, fields)


def frame(message: bytes) -> bytes:
    """Return the message, preceded by its length, as in NASDAQ's daily files and MoldUDP64."""
    return _LENGTH.pack(len(message)) + message


def frames(data: bytes) -> Iterator[bytes]:
    """Yield the messages of framed bytes; raise `WireError` if the bytes end inside a message."""
    at = 0
    while at < len(data):
        stop = at + 2 + _LENGTH.unpack_from(data, at)[0] if at + 2 <= len(data) else at + 2
        if stop > len(data):
            raise WireError(f"expected a whole message at byte {at}, was {data[at : at + 64]!r}")
        yield data[at + 2 : stop]
        at = stop


_DECIMAL: Final = 10_000
_PER_LETTER: Final = 36**3
_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"

LARGEST_BROKER: Final = _DECIMAL + 26 * _PER_LETTER - 1
"""The largest broker id that has an attribution."""


def attribution_of(broker_id: int) -> str:
    """Return a broker's attribution without padding, empty if it has none.

    >>> attribution_of(7), attribution_of(10_000), attribution_of(-1)
    ('7', 'A000', '')
    """
    if not 0 <= broker_id <= LARGEST_BROKER:
        return ""
    if broker_id < _DECIMAL:
        return str(broker_id)
    letter, rest = divmod(broker_id - _DECIMAL, _PER_LETTER)
    return chr(ord("A") + letter) + _DIGITS[rest // 1296] + _DIGITS[rest // 36 % 36] + _DIGITS[rest % 36]


def broker_of(attribution: str) -> int | None:
    """Return the broker of an attribution, ignoring blanks around it; None if no broker has it.

    >>> broker_of("7   "), broker_of("GSCO"), broker_of("")
    (7, 326680, None)
    """
    text = attribution.strip(" ")
    if text.isascii() and text.isdigit():
        return int(text) if len(text) <= 4 and (text == "0" or text[0] != "0") else None
    if len(text) != 4 or not "A" <= text[0] <= "Z" or not all(character in _DIGITS for character in text):
        return None
    return _DECIMAL + (ord(text[0]) - ord("A")) * _PER_LETTER + int(text[1:], 36)


SNAPSHOT_END: Final = b"G"
"""Letter of the message that ends a snapshot."""
_SEQUENCE_DIGITS: Final = 20


def encode_snapshot_end(sequence: int) -> bytes:
    """Return the message that ends a snapshot; raise `WireError` for a number that does not fit.

    ``sequence`` is the number of the first message of the feed that the snapshot does not contain.
    """
    if not 0 < sequence < 10**_SEQUENCE_DIGITS:
        raise WireError(f"expected a sequence of 1 to {_SEQUENCE_DIGITS} digits, was {sequence}")
    return SNAPSHOT_END + str(sequence).rjust(_SEQUENCE_DIGITS).encode("ascii")


def parse_snapshot_end(message: bytes) -> int:
    """Return the number at which to join the feed; raise `WireError` for another message."""
    digits = message[1:].strip(b" ")
    if message[:1] != SNAPSHOT_END or len(message) != 1 + _SEQUENCE_DIGITS or not digits.isdigit():
        raise WireError(f"expected {SNAPSHOT_END!r} and {_SEQUENCE_DIGITS} digits, was {message[:40]!r}")
    return int(digits)
