"""Clients that trade, and repeat requests that may not have arrived."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

from deltabook.wire import ouch5, ouch42, text
from deltabook.wire.soupbin import UNSEQUENCED, encode_packet
from tests.simulation.exchange.clients import ClientError, SoupReader, TextReader

__all__ = ["UNITS_PER_TICK", "Ouch5Trader", "Ouch42Trader", "OuchTrader", "TextTrader"]

_MOST_UNANSWERED: Final = 50
UNITS_PER_TICK: Final = 100
"""Price units of OUCH in a tick: a tick is a cent, and OUCH counts in hundredths of one."""


class TextTrader(TextReader):
    """Trades for one broker; repeats a request that may not have arrived, with the same number."""

    def __init__(self, name: str, broker_id: int, *, cancels: bool | None = None) -> None:
        super().__init__(name)
        self.broker_id = broker_id
        self._cancels = cancels
        self._next_id = 1
        self.unanswered: dict[int, bytes] = {}
        """Requests that may not have arrived."""
        self.live: list[int] = []
        """Ids of orders that were accepted and have not ended."""

    def login(self) -> bytes:
        self._partial_line = b""
        login = text.InteractiveLogin(self.broker_id, self.session, self.count + 1, self._cancels)
        return text.encode_login(login)

    def answered(self, reply: text.Accepted) -> None:
        taken = reply.last_client_id or 0
        self.unanswered = {number: line for number, line in self.unanswered.items() if number > taken}
        self._next_id = max(self._next_id, taken + 1)
        for line in self.unanswered.values():
            self.write(line)

    def ask(
        self, action: str, order_id: int, volume: int, price: int, symbol: str, options: text.OrderOptions = text.PLAIN
    ) -> None:
        """Send one request."""
        request = text.Request(self._next_id, order_id, self.broker_id, action, volume, price, symbol, 0, options)
        line = self.unanswered[self._next_id] = text.encode_request(request)
        self._next_id += 1
        if self.is_logged_in:
            self.write(line)
        while len(self.unanswered) > 50:
            del self.unanswered[next(iter(self.unanswered))]

    def take_record(self, line: bytes) -> None:
        response = text.parse_response(line)
        if response.broker_id != self.broker_id:
            raise ClientError(f"{self.name}: expected broker {self.broker_id}, was {line!r}")
        if response.action == "A":
            self.live.append(response.order_id)
            self.unanswered.pop(response.client_id, None)
        elif response.action in {"F", "D"} and response.order_id in self.live:
            self.live.remove(response.order_id)
        elif response.action == "U":
            if (old := int(response.detail)) in self.live:
                self.live.remove(old)
            self.live.append(response.order_id)


class OuchTrader(SoupReader):
    """Trades for one user; several traders may share a user and then receive the same messages."""

    def __init__(self, name: str, user: str, password: str) -> None:
        super().__init__(name, "ouch", user, password)
        self.user = user
        self._next_ref = 1
        self.unanswered: dict[int, bytes] = {}
        """Orders that may not have arrived."""
        self.live: list[int] = []
        """References of accepted orders whose end was not seen."""

    def answered(self) -> None:
        for message in list(self.unanswered.values()):
            self.write(encode_packet(UNSEQUENCED, message))

    def send(self, message: bytes) -> None:
        """Send a message, if there is a connection."""
        if self.is_logged_in:
            self.write(encode_packet(UNSEQUENCED, message))

    def _new_ref(self) -> int:
        self._next_ref += 1
        return self._next_ref - 1

    def _sent(self, ref: int, message: bytes) -> None:
        self.unanswered[ref] = message
        self.send(message)
        while len(self.unanswered) > _MOST_UNANSWERED:
            del self.unanswered[next(iter(self.unanswered))]

    def _taken(self, ref: int) -> None:
        """Note that the exchange knows this number, perhaps from another session of the same user."""
        self.unanswered.pop(ref, None)
        self._next_ref = max(self._next_ref, ref + 1)

    @abstractmethod
    def enter(self, side: str, quantity: int, ticks: int, symbol: str, *, immediate: bool, hidden: bool) -> None:
        """Send a new order."""

    @abstractmethod
    def cancel(self, ref: int, quantity: int) -> None:
        """Send a cancel; ``quantity`` is the total that may still execute."""

    @abstractmethod
    def replace(self, ref: int, quantity: int, ticks: int) -> None:
        """Send a replacement of an order."""


class Ouch5Trader(OuchTrader):
    """Trader in OUCH 5.0."""

    def enter(self, side: str, quantity: int, ticks: int, symbol: str, *, immediate: bool, hidden: bool) -> None:
        ref = self._new_ref()
        message = ouch5.encode_request(
            "O", user_ref_num=ref, side=side, quantity=quantity, symbol=symbol, price=ticks * UNITS_PER_TICK,
            time_in_force="3" if immediate else "0", display="N" if hidden else "Y", capacity="P",
            inter_market_sweep_eligibility="N", cross_type="N", cl_ord_id=f"c{ref}",
        )  # fmt: skip
        self._sent(ref, message)

    def cancel(self, ref: int, quantity: int) -> None:
        self.send(ouch5.encode_request("X", user_ref_num=ref, quantity=quantity))

    def replace(self, ref: int, quantity: int, ticks: int) -> None:
        new = self._new_ref()
        message = ouch5.encode_request(
            "U", orig_user_ref_num=ref, user_ref_num=new, quantity=quantity, price=ticks * UNITS_PER_TICK,
            time_in_force="0", display="Y", inter_market_sweep_eligibility="N", cl_ord_id=f"c{new}",
        )  # fmt: skip
        self.send(message)

    def take_record(self, message: bytes) -> None:
        reply = ouch5.decode_reply(message)
        values = reply.fields
        if reply.type in {"A", "U"}:
            self._taken(int(values["user_ref_num"]))
            self.live.append(int(values["user_ref_num"]))
        elif reply.type == "J":
            self._taken(int(values["user_ref_num"]))
        del self.live[:-20]


class Ouch42Trader(OuchTrader):
    """Trader in OUCH 4.2: its tokens are numbers in letters."""

    def enter(self, side: str, quantity: int, ticks: int, symbol: str, *, immediate: bool, hidden: bool) -> None:
        ref = self._new_ref()
        message = ouch42.encode_request(
            "O", order_token=f"T{ref}", buy_sell_indicator=side, shares=quantity, stock=symbol,
            price=ticks * UNITS_PER_TICK, time_in_force=ouch42.IMMEDIATE if immediate else ouch42.MARKET_HOURS, firm="",
            display="N" if hidden else "Y", capacity="P", intermarket_sweep_eligibility="N", minimum_quantity=0,
            cross_type="N", customer_type="R",
        )  # fmt: skip
        self._sent(ref, message)

    def cancel(self, ref: int, quantity: int) -> None:
        self.send(ouch42.encode_request("X", order_token=f"T{ref}", shares=quantity))

    def replace(self, ref: int, quantity: int, ticks: int) -> None:
        message = ouch42.encode_request(
            "U", existing_order_token=f"T{ref}", replacement_order_token=f"T{self._new_ref()}", shares=quantity,
            price=ticks * UNITS_PER_TICK, time_in_force=ouch42.MARKET_HOURS, display="Y",
            intermarket_sweep_eligibility="N", minimum_quantity=0,
        )  # fmt: skip
        self.send(message)

    def take_record(self, message: bytes) -> None:
        reply = ouch42.decode_reply(message)
        values = reply.fields
        if reply.type == "A":
            ref = int(str(values["order_token"])[1:])
            self._taken(ref)
            self.live.append(ref)
        elif reply.type == "U":
            ref = int(str(values["replacement_order_token"])[1:])
            self._taken(ref)
            self.live.append(ref)
        elif reply.type == "J":
            self._taken(int(str(values["order_token"])[1:]))
        del self.live[:-20]
