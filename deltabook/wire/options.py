"""Options of an order beside its side, volume and price: the ninth field of a request.

Words separated by ``;``, each at most once:

>>> msgspec.structs.asdict(parse_options("ioc;min=100", b""))["minimum"]
100
>>> encode_options(OrderOptions(display=10, stop_ticks=9_900))
'show=10;stop=9900'
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from deltabook.wire._fields import int64
from deltabook.wire.errors import WireError

__all__ = ["PLAIN", "AuctionName", "OrderOptions", "encode_options", "parse_options"]

AuctionName = Literal["", "open", "close", "halt"]


class OrderOptions(msgspec.Struct, frozen=True, gc=False):
    """The attributes of an order. Which of them go together is the market's to say."""

    immediate: bool = False
    """``ioc``: what does not execute at once is cancelled."""
    post_only: bool = False
    """``post``: cancelled if it would execute on entry."""
    hidden: bool = False
    """``hidden``: rests, and is in no feed."""
    minimum: int | None = None
    """``min=N``: with ``ioc``: executes at least so many lots at once, or none."""
    display: int | None = None
    """``show=N``: an iceberg, which displays so many lots at a time."""
    stop_ticks: int | None = None
    """``stop=TICKS``: waits for a trade at this price, or beyond it."""
    expire_ns: int | None = None
    """``until=NS``: ends at this market time."""
    auction: AuctionName = ""
    """``open``, ``close``, ``halt``: takes part in the opening or closing auction alone, or in one after a halt."""


PLAIN: Final = OrderOptions()
"""An order with nothing special about it."""

_FLAGS: Final = {"ioc": "immediate", "post": "post_only", "hidden": "hidden"}
_NUMBERS: Final = {"min": "minimum", "show": "display", "stop": "stop_ticks", "until": "expire_ns"}
_AUCTIONS: Final = frozenset(("open", "close", "halt"))
_WORDS: Final = "ioc, post, hidden, min=N, show=N, stop=TICKS, until=NS, open, close or halt"


def parse_options(text: str, line: bytes) -> OrderOptions:
    """The options in a field of `line` (for the message of an error only); raises `WireError`."""
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
    """The field, empty for `PLAIN`."""
    words = [word for word, field in _FLAGS.items() if getattr(options, field)]
    for word, field in _NUMBERS.items():
        value = getattr(options, field)
        if value is not None:
            words.append(f"{word}={value}")
    if options.auction:
        words.append(options.auction)
    return ";".join(words)
