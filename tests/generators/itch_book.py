"""Books and trades from ITCH messages, one message at a time, as simple as possible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from deltabook.wire.itch import decode_message
from deltabook.wire.soupbin import SEQUENCED, PacketSplitter

__all__ = ["ItchBook", "messages_of"]


def messages_of(data: bytes) -> Iterator[bytes]:
    """Yield the messages in the sequenced packets of a stream; it must end with a packet."""
    splitter = PacketSplitter()
    yield from (packet.payload for packet in splitter.split(data) if packet.type == SEQUENCED)
    assert splitter.partial == b""


class ItchBook:
    """Live orders and trades."""

    def __init__(self) -> None:
        self.stocks: dict[int, str] = {}
        self.events: list[str] = []
        self.orders: dict[int, dict[str, Any]] = {}
        """Reference number → stock, side, shares, price, attribution."""
        self.trades: list[tuple[int, str, int, int, int]] = []
        """Match number, stock, order, shares, price; a cross is one trade, with order 0, without its executions."""
        self.states: dict[str, str] = {}
        """Stock → trading state."""
        self.imbalances: list[dict[str, Any]] = []
        self.busted: list[int] = []
        self.last_timestamp = 0

    def take(self, messages: Iterable[bytes]) -> ItchBook:
        """Apply messages; every one of them must make sense."""
        for message in messages:
            letter, fields = message[:1].decode(), decode_message(message).fields
            time = int(fields["timestamp"])
            assert time >= self.last_timestamp, "time goes back"
            self.last_timestamp = time
            if "stock" in fields and letter != "R":
                assert self.stocks[int(fields["stock_locate"])] == fields["stock"], "the directory comes first"
            self._take(letter, fields)
        return self

    def _take(self, letter: str, f: dict[str, Any]) -> None:
        number = f.get("order_reference_number", 0)
        if letter == "S":
            self.events.append(f["event_code"])
        elif letter == "R":
            self.stocks[f["stock_locate"]] = f["stock"]
        elif letter in "AF":
            assert number not in self.orders
            assert f["shares"] > 0
            self.orders[number] = {
                "stock": f["stock"],
                "side": f["buy_sell_indicator"],
                "shares": f["shares"],
                "price": f["price"],
                "attribution": f.get("attribution", ""),
            }
        elif letter in "ECX":
            self._reduce(letter, number, f)
        elif letter == "D":
            del self.orders[number]
        elif letter == "U":
            new = f["new_order_reference_number"]
            assert new not in self.orders
            self.orders[new] = self.orders.pop(number) | {"shares": f["shares"], "price": f["price"]}
        elif letter == "P":
            self.trades.append((f["match_number"], f["stock"], number, f["shares"], f["price"]))
        elif letter == "Q":
            self.trades.append((f["match_number"], f["stock"], 0, f["cross_shares"], f["cross_price"]))
        elif letter == "I":
            self.imbalances.append(f)
        elif letter == "B":
            self.busted.append(f["match_number"])
        else:
            assert letter == "H", letter
            self.states[f["stock"]] = f["trading_state"]

    @property
    def stocks_by_name(self) -> dict[str, int]:
        """Stock → locate."""
        return {stock: locate for locate, stock in self.stocks.items()}

    def queues(self) -> dict[tuple[str, str, int], list[int]]:
        """Return the orders by stock, side and price, in order of time."""
        found: dict[tuple[str, str, int], list[int]] = {}
        for number, order in self.orders.items():
            found.setdefault((order["stock"], order["side"], order["price"]), []).append(number)
        return found

    def touch(self, stock: str) -> tuple[int | None, int | None]:
        """Return the best prices."""
        prices: dict[str, list[int]] = {"B": [], "S": []}
        for order in self.orders.values():
            if order["stock"] == stock:
                prices[order["side"]].append(order["price"])
        return max(prices["B"], default=None), min(prices["S"], default=None)

    def _reduce(self, letter: str, number: int, f: dict[str, Any]) -> None:
        order = self.orders[number]
        shares = f["canceled_shares"] if letter == "X" else f["executed_shares"]
        assert 0 < shares <= order["shares"], "more than there is"
        if letter != "X" and f.get("printable") != "N":
            price = f.get("execution_price", order["price"])
            self.trades.append((f["match_number"], order["stock"], number, shares, price))
        order["shares"] -= shares
        if not order["shares"]:
            assert letter != "X", "a cancellation of all is a delete"
            del self.orders[number]
