"""What the market says about each kind of request."""

from __future__ import annotations

import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.inputs import AGENT, CLIENT, Input, MarketRules
from exchange_server.market import Market


class Desk:
    """Sends requests to a market and shows the lines without sequence and time."""

    def __init__(self, **rules: object) -> None:
        settings = {"instruments": (Instrument("ACME"), Instrument("PAST")), **rules}
        self.market = Market(MarketRules(**settings))  # type: ignore[arg-type]
        self._clients: dict[int, int] = {}
        self._time_ns = 100

    def send(
        self, broker: int, action: str, volume: int = 0, price: int = 0, order: int = 0, symbol: str = "ACME",
        origin: str = CLIENT,
    ) -> tuple[list[str], dict[int, list[str]]]:  # fmt: skip
        client = 0
        if origin == CLIENT:
            client = self._clients[broker] = self._clients.get(broker, 0) + 1
        self._time_ns += 1
        self.market.apply(Input(origin, self._time_ns, client, order, broker, action, volume, price, symbol))
        self.market._check()
        feed, private = self.market.take_output()
        return (
            [line.strip().split(",", 2)[2] for line in feed],
            {key: [line.strip().split(",", 2)[2] for line in lines] for key, lines in private.items()},
        )


def test_a_resting_order_is_accepted_and_shown() -> None:
    feed, private = Desk().send(7, "B", 5, 100)
    assert feed == ["1,7,B,5,100,ACME"]
    assert private == {7: ["1,7,A,5,100,ACME,1,B"]}


def test_an_aggressor_executes_the_best_price_first_then_the_oldest_and_rests_with_what_is_left() -> None:
    desk = Desk()
    desk.send(1, "S", 5, 101)
    desk.send(2, "S", 5, 100)
    desk.send(3, "S", 5, 100)
    feed, private = desk.send(9, "B", 14, 100)
    assert feed == ["2,2,F,5,100,ACME", "3,3,F,5,100,ACME", "4,9,B,4,100,ACME"]
    assert private[9] == ["4,9,A,14,100,ACME,1,B", "4,9,E,5,100,ACME,1,taker", "4,9,E,5,100,ACME,1,taker"]
    assert private[2] == ["2,2,F,5,100,ACME,1,maker"]


def test_the_aggressors_last_execution_and_a_partly_hit_order_are_told_apart() -> None:
    desk = Desk()
    desk.send(1, "B", 5, 100)
    feed, private = desk.send(2, "S", 3, 99)
    assert feed == ["1,1,E,3,100,ACME"]
    assert private == {1: ["1,1,E,3,100,ACME,1,maker"], 2: ["2,2,A,3,99,ACME,1,S", "2,2,F,3,100,ACME,1,taker"]}


def test_what_a_market_order_does_not_find_is_cancelled_and_never_rests() -> None:
    desk = Desk()
    desk.send(1, "S", 5, 100)
    feed, private = desk.send(2, "B", 8)
    assert feed == ["1,1,F,5,100,ACME"]
    assert private[2][-1] == "2,2,D,3,0,ACME,1,market"


def test_a_reduction_keeps_the_place_in_the_queue() -> None:
    desk = Desk()
    desk.send(1, "B", 5, 100)
    desk.send(2, "B", 5, 100)
    feed, private = desk.send(1, "X", 2, order=1)
    assert (feed, private) == (["1,1,X,2,100,ACME"], {1: ["1,1,X,2,100,ACME,2,user"]})
    assert desk.send(3, "S", 4)[0] == ["1,1,F,3,100,ACME", "2,2,E,1,100,ACME"]


def test_a_reduction_by_everything_is_a_cancellation() -> None:
    desk = Desk()
    desk.send(1, "B", 5, 100)
    assert desk.send(1, "X", 9, order=1) == (["1,1,D,5,100,ACME"], {1: ["1,1,D,5,100,ACME,1,user"]})


def test_a_cancellation_names_the_orders_own_request() -> None:
    desk = Desk()
    desk.send(1, "B", 5, 100)
    assert desk.send(1, "D", order=1)[1] == {1: ["1,1,D,5,100,ACME,1,user"]}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"action": "B", "volume": 0, "price": 1}, "expected a volume of 1 or more was 0"),
        ({"action": "B", "volume": 1, "price": -1}, "expected a price of 0 or more was -1"),
        ({"action": "B", "volume": 1, "symbol": "NOPE"}, "unknown symbol NOPE"),
        ({"action": "D", "order": 77}, "unknown order 77"),
        ({"action": "D", "order": 1}, "order 1 belongs to another broker"),
        ({"action": "X", "order": 1, "volume": 1}, "order 1 belongs to another broker"),
        ({"action": "S", "volume": 1, "symbol": "PAST"}, "replayed"),
    ],
)
def test_a_refusal_says_why_and_changes_nothing(request_: dict[str, object], reason: str) -> None:
    desk = Desk(replay_symbol="PAST", replay_mode="as-recorded")
    desk.send(1, "B", 5, 100)
    feed, private = desk.send(2, **request_)  # type: ignore[arg-type]
    assert feed == []
    assert private[2][0].split(",")[2] == "R"
    assert private[2][0].endswith(reason)


def test_a_client_id_that_is_not_above_the_last_does_nothing() -> None:
    desk = Desk()
    item = Input(CLIENT, 1, 5, 0, 1, "B", 5, 100, "ACME")
    assert [desk.market.apply(item), desk.market.apply(item)] == [1, 0]
    assert desk.market.orders == 1


def test_agents_have_no_private_stream_and_a_client_of_the_same_broker_cannot_touch_their_orders() -> None:
    desk = Desk()
    assert desk.send(1, "B", 5, 100, origin=AGENT) == (["1,1,B,5,100,ACME"], {})
    assert desk.send(1, "D", order=1)[0] == []
    assert desk.send(1, "D", order=1, origin=AGENT)[0] == ["1,1,D,5,100,ACME"]


def test_the_number_of_live_orders_is_bounded() -> None:
    desk = Desk(max_live_orders=1)
    desk.send(1, "B", 5, 100)
    assert "takes no more" in desk.send(1, "B", 5, 100)[1][1][0]
