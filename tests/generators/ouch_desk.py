"""Market with OUCH accounts, without an exchange around it: applies requests, returns replies."""

from __future__ import annotations

from typing import Any

from deltabook.wire import ouch5, ouch42
from deltabook.wire._messages import DecodedMessage
from deltabook.wire.soupbin import UNSEQUENCED, PacketSplitter, encode_packet
from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules, OpenAccount, Wire
from exchange_server.matching.market import Market
from exchange_server.matching.order import AccountLimits, SelfTrade
from exchange_server.nasdaq.ouch import Ouch5, Ouch42

__all__ = ["MIDNIGHT_NS", "RULES", "START_NS", "Desk", "cancel", "enter", "enter_42", "modify", "replace", "short"]

MIDNIGHT_NS = 20_000 * 86_400 * 10**9
START_NS = MIDNIGHT_NS + 10 * 3_600 * 10**9
"""Ten in the morning."""
RULES = MarketRules(
    instruments=(
        Instrument("ACME", "0.01", "1", 1_000),
        Instrument("LOTS", "0.05", "10", 1_000),
        Instrument("TOOLONGNAME", "0.01", "1", 1_000),
    )
)


def enter(ref: int, side: str = "B", quantity: int = 100, price: int = 100_000, **values: Any) -> bytes:
    """Return an Enter Order of 5.0; ``values`` are further fields, or replace the defaults."""
    fields: dict[str, Any] = {
        "user_ref_num": ref,
        "side": side,
        "quantity": quantity,
        "symbol": "ACME",
        "price": price,
        "time_in_force": "0",
        "display": "Y",
        "capacity": "P",
        "inter_market_sweep_eligibility": "N",
        "cross_type": "N",
        "cl_ord_id": f"c{ref}",
    }
    return ouch5.encode_request("O", **(fields | values))


def cancel(ref: int, quantity: int = 0) -> bytes:
    """Return a Cancel Order of 5.0."""
    return ouch5.encode_request("X", user_ref_num=ref, quantity=quantity)


def modify(ref: int, quantity: int, side: str = "B") -> bytes:
    """Return a Modify Order of 5.0."""
    return ouch5.encode_request("M", user_ref_num=ref, side=side, quantity=quantity)


def replace(orig: int, ref: int, quantity: int = 100, price: int = 100_100, **values: Any) -> bytes:
    """Return a Replace Order of 5.0."""
    fields: dict[str, Any] = {
        "orig_user_ref_num": orig,
        "user_ref_num": ref,
        "quantity": quantity,
        "price": price,
        "time_in_force": "0",
        "display": "Y",
        "inter_market_sweep_eligibility": "N",
        "cl_ord_id": f"r{ref}",
    }
    return ouch5.encode_request("U", **(fields | values))


def short(told: list[DecodedMessage], *names: str) -> list[tuple[Any, ...]]:
    """Return the letter of each message, with the values of those named fields that the message has."""
    return [(each.type, *(each.fields[name] for name in names if name in each.fields)) for each in told]


def enter_42(token: str, side: str = "B", shares: int = 100, price: int = 100_000, **values: Any) -> bytes:
    """Return an Enter Order of 4.2."""
    fields: dict[str, Any] = {
        "order_token": token,
        "buy_sell_indicator": side,
        "shares": shares,
        "stock": "ACME",
        "price": price,
        "time_in_force": ouch42.SYSTEM_HOURS,
        "firm": "FIRM",
        "display": "Y",
        "capacity": "P",
        "intermarket_sweep_eligibility": "N",
        "minimum_quantity": 0,
        "cross_type": "N",
        "customer_type": "N",
    }
    return ouch42.encode_request("O", **(fields | values))


class Desk:
    """Accounts in a market, each with its messages since the last call."""

    def __init__(self, rules: MarketRules = RULES) -> None:
        self.market = Market(rules, (), (Ouch5(rules), Ouch42(rules)))
        self.time_ns = START_NS
        self._told: dict[str, bytes] = {}
        self.next_id = 0

    def open(
        self,
        name: str,
        protocol: str = "ouch5",
        broker_id: int = 7,
        limits: AccountLimits = AccountLimits(),  # noqa: B008 - frozen
        self_trade: SelfTrade = "allow",
    ) -> None:
        """Open an account; drop its messages so far."""
        self.apply(OpenAccount(0, name, protocol, broker_id, limits, self_trade))
        self.take(name)

    def apply(self, item: AnyInput) -> int | str:
        """Apply an input, a microsecond after the previous one."""
        self.time_ns += 1_000
        values = {name: getattr(item, name) for name in item.__struct_fields__}
        result = self.market.apply(type(item)(**(values | {"time_ns": self.time_ns})))
        for teller in self.market.touched:
            data, _ = teller.take()
            self._told[teller.account.name] = self._told.get(teller.account.name, b"") + data
        self.market.touched.clear()
        return result

    def send(self, name: str, *messages: bytes) -> str:
        """Send requests of an account in one piece; return why its session must be closed, empty if it need not be."""
        account = self.market.account_named(name)
        assert account is not None
        data = b"".join(encode_packet(UNSEQUENCED, message) for message in messages)
        return str(self.apply(Wire(0, account.index, data)))

    def rest(self, side: str, lots: int, ticks: int, symbol: str = "ACME") -> None:
        """Enter another participant's limit order."""
        self.apply(Enter(0, 0, 99, 0, symbol, side, lots, ticks))

    def raw(self, name: str) -> list[bytes]:
        """Return the messages to an account since the last call."""
        packets = PacketSplitter().split(self._told.pop(name, b""))
        assert all(packet.type == b"S" for packet in packets)
        return [packet.payload for packet in packets]

    def take(self, name: str) -> list[DecodedMessage]:
        """Return the messages to an account since the last call, decoded."""
        account = self.market.account_named(name)
        assert account is not None
        decode = ouch5.decode_reply if account.protocol == "ouch5" else ouch42.decode_reply
        return [decode(message) for message in self.raw(name)]

    def ask(self, name: str, *messages: bytes) -> list[DecodedMessage]:
        """Send requests, and return the decoded replies."""
        assert self.send(name, *messages) == ""
        return self.take(name)
