"""Client of OUCH 5.0 made of NASDAQ's own package only: its sessions, and messages as in the specification.

Independent of the exchange's own code for messages.
"""

from __future__ import annotations

from typing import Any, Final

from nasdaq_protocols import ouch
from nasdaq_protocols.common import message as fields

from tests.generators.soup_client import SoupClient

__all__ = ["Message", "OuchClient", "enter_order"]

_U2, _U4, _U8 = fields.UnsignedShortBE, fields.UnsignedIntBE, fields.UnsignedLongBE


def _text(length: int) -> Any:
    return fields.FixedAsciiString(length=length)


class Message(ouch.Message, app_name="exchange_ouch5"):  # type: ignore[misc, call-arg]
    """Message of this application."""

    def __init_subclass__(cls, **values: Any) -> None:
        values["app_name"] = "exchange_ouch5"
        super().__init_subclass__(**values)


def _define(letter: str, direction: str, *columns: tuple[str, Any]) -> Any:
    record = type("BodyRecord", (fields.Record,), {"Fields": [fields.Field(name, kind) for name, kind in columns]})
    body = {"BodyRecord": record, "__module__": __name__}
    kind: Any = type(Message)
    return kind(f"{direction}_{letter}", (Message,), body, indicator=ord(letter), direction=direction)


_STAMP: Final = ("timestamp", _U8)
_REF: Final = ("user_ref_num", _U4)
_TAIL: Final = (
    ("side", _text(1)),
    ("quantity", _U4),
    ("symbol", _text(8)),
    ("price", _U8),
    ("time_in_force", _text(1)),
    ("display", _text(1)),
    ("order_reference_number", _U8),
    ("capacity", _text(1)),
    ("iso", _text(1)),
    ("cross_type", _text(1)),
    ("order_state", _text(1)),
    ("cl_ord_id", _text(14)),
    ("appendage_length", _U2),
)

_ENTER: Final = _define(
    "O", "incoming", _REF, ("side", _text(1)), ("quantity", _U4), ("symbol", _text(8)), ("price", _U8),
    ("time_in_force", _text(1)), ("display", _text(1)), ("capacity", _text(1)), ("iso", _text(1)),
    ("cross_type", _text(1)), ("cl_ord_id", _text(14)), ("appendage_length", _U2),
)  # fmt: skip
_define("S", "outgoing", _STAMP, ("event_code", _text(1)))
_define("A", "outgoing", _STAMP, _REF, *_TAIL)
_define("U", "outgoing", _STAMP, ("orig_user_ref_num", _U4), _REF, *_TAIL)
_define("C", "outgoing", _STAMP, _REF, ("quantity", _U4), ("reason", _text(1)))
_define(
    "E", "outgoing", _STAMP, _REF, ("quantity", _U4), ("price", _U8), ("liquidity_flag", _text(1)),
    ("match_number", _U8), ("appendage_length", _U2),
)  # fmt: skip
_define("J", "outgoing", _STAMP, _REF, ("reason", _U2), ("cl_ord_id", _text(14)))
_define("Q", "outgoing", _STAMP, ("next_user_ref_num", _U4))


def enter_order(ref: int, side: str, quantity: int, price: int, symbol: str = "ACME") -> Any:
    """Return a limit order for the day."""
    order = _ENTER()
    values = {"user_ref_num": ref, "side": side, "quantity": quantity, "symbol": symbol, "price": price}
    for name, value in (values | {"cl_ord_id": f"id{ref}", "appendage_length": 0}).items():
        setattr(order, name, value)
    for name, letter in zip(("time_in_force", "display", "capacity", "iso", "cross_type"), "0YPNN", strict=True):
        setattr(order, name, letter)
    return order


class OuchClient(SoupClient):
    """User of the OUCH port."""

    def __init__(self, name: str, password: str, deadline_s: float) -> None:
        super().__init__(name, password, deadline_s)
        self.messages: list[Any] = []
        """Received messages, decoded by NASDAQ's package."""

    def take(self, message: bytes) -> None:
        """Process one more message."""
        super().take(message)
        length, read = Message.from_bytes(message)
        assert length == len(message), f"expected {length} bytes, was {message!r}"
        self.messages.append(read)

    def send(self, message: Any) -> None:
        """Send a request."""
        self.session.send_unseq_data(message.to_bytes()[1])

    def count(self, letter: str) -> int:
        """Return the number of messages of a type so far."""
        return sum(told[:1] == letter.encode() for told in self.told)

    async def hear(self, letter: str, count: int) -> None:
        """Wait until ``count`` messages of a type have arrived."""
        await self.hear_until(lambda: self.count(letter) >= count)
