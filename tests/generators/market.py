"""Random requests to a market, and a market so simple that it is obviously right.

The model holds one list of orders and looks at all of it for everything it does.
"""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import strategies as st

from deltabook.wire.symbols import Instrument
from exchange_server.inputs import CLIENT, Input, MarketRules

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("GLOBEX")))

Line = tuple[int | str, ...]

Step = tuple[int, str, int, int, int, str]
"""Broker, action, volume, price, order id, symbol."""

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.sampled_from("BBSSXD"),
        st.integers(-1, 12),
        st.sampled_from([-1, 0, 97, 98, 99, 100, 101, 102, 103]),
        st.integers(0, 25),
        st.sampled_from(["ACME", "ACME", "ACME", "GLOBEX", "NOPE"]),
    ),
    max_size=60,
)
"""Requests over few prices, brokers and ids, so that they meet each other; some are wrong."""


def inputs_of(requests: list[Step], *, time_ns: int = 1_000) -> Iterator[Input]:
    """Journal records of requests, with rising times and client ids."""
    for number, (broker_id, action, volume, price, order_id, symbol) in enumerate(requests, 1):
        yield Input(CLIENT, time_ns + number, number, order_id, broker_id, action, volume, price, symbol)


class ModelMarket:
    """Price-time priority by sorting one list; `feed` and `private` are what should be said."""

    def __init__(self) -> None:
        self.resting: list[dict[str, int | str]] = []
        self.feed: list[Line] = []
        self.private: list[Line] = []
        self.next_id = 1

    def apply(self, item: Input) -> None:
        """One request."""
        if item.symbol not in {"ACME", "GLOBEX"}:
            self._tell(item, item.order_id, "R", item.volume, item.price_ticks)
        elif item.action in "BS":
            self._order(item)
        else:
            self._change(item)

    def _tell(self, item: Input, order_id: int, action: str, volume: int, price: int) -> None:
        self.private.append((item.broker_id, order_id, action, volume, price, item.symbol, item.client_id))

    def _order(self, item: Input) -> None:
        if item.volume < 1 or item.price_ticks < 0:
            self._tell(item, item.order_id, "R", item.volume, item.price_ticks)
            return
        order_id, self.next_id = self.next_id, self.next_id + 1
        self._tell(item, order_id, "A", item.volume, item.price_ticks)
        left = item.volume
        sign = 1 if item.action == "B" else -1
        while left:
            others = [o for o in self.resting if o["symbol"] == item.symbol and o["side"] != item.action]
            others.sort(key=lambda o: (sign * int(o["price"]), int(o["id"])))
            if not others or (item.price_ticks and sign * int(others[0]["price"]) > sign * item.price_ticks):
                break
            best = others[0]
            done = min(left, int(best["volume"]))
            left -= done
            best["volume"] = int(best["volume"]) - done
            last = "E" if best["volume"] else "F"
            self.feed.append((best["id"], best["broker"], last, done, best["price"], item.symbol))
            self.private.append((best["broker"], best["id"], last, done, best["price"], item.symbol, best["client"]))
            self._tell(item, order_id, "E" if left else "F", done, int(best["price"]))
            self.resting = [o for o in self.resting if o["volume"]]
        if left and item.price_ticks:
            self.resting.append({
                "id": order_id, "broker": item.broker_id, "side": item.action, "price": item.price_ticks,
                "volume": left, "symbol": item.symbol, "client": item.client_id,
            })  # fmt: skip
            self.feed.append((order_id, item.broker_id, item.action, left, item.price_ticks, item.symbol))
        elif left:
            self._tell(item, order_id, "D", left, 0)

    def _change(self, item: Input) -> None:
        found = [o for o in self.resting if o["id"] == item.order_id and o["symbol"] == item.symbol]
        if not found or found[0]["broker"] != item.broker_id or (item.action == "X" and item.volume < 1):
            self._tell(item, item.order_id, "R", item.volume, item.price_ticks)
            return
        order = found[0]
        volume = int(order["volume"])
        if item.action == "X" and item.volume < volume:
            order["volume"] = volume - item.volume
            self.feed.append((order["id"], order["broker"], "X", item.volume, order["price"], item.symbol))
            self._tell(item, int(order["id"]), "X", item.volume, int(order["price"]))
            return
        self.resting.remove(order)
        self.feed.append((order["id"], order["broker"], "D", volume, order["price"], item.symbol))
        self.private.append((order["broker"], order["id"], "D", volume, order["price"], item.symbol, order["client"]))
