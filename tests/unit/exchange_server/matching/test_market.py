"""Accounts, agents, references, and what a market counts."""

from __future__ import annotations

from deltabook.wire.symbols import Instrument
from exchange_server.matching import Cancel, Enter, Market, MarketRules, Order, Reduce, Tick, Wire
from exchange_server.matching.inputs import Bust, Kill
from tests.generators.order_desk import AGENT, OrderDesk


def test_the_session_begins_with_what_is_traded() -> None:
    desk = OrderDesk(("ACME", "GLOBEX"))
    market = Market(desk.market.rules, desk.market.encoders)
    market.apply(Tick(1))
    assert desk.feed() == ["system O", "listed", "listed", "system S", "trading T", "trading T", "system Q"]


def test_agents_get_no_answers_and_their_orders_are_protected() -> None:
    desk = OrderDesk()
    desk.open("ann")
    order = desk.enter(AGENT, "B", 5, 100)
    desk.cancel("ann", order)
    assert desk.told("ann") == ["refused FOREIGN_ORDER"]
    desk.feed()
    desk.apply(Cancel(0, 0, 98, 0, order))
    assert desk.feed() == []
    desk.cancel(AGENT, order)
    assert desk.feed() == ["deleted 1 5"]


def test_a_stale_reference_has_no_effect_and_no_answer() -> None:
    desk = OrderDesk()
    desk.open("ann")
    assert [desk.apply(Enter(0, 1, 1, 5, "ACME", "B", 5, 100)) for _ in range(2)] == [1, 0]
    desk.apply(Cancel(0, 1, 1, 4, 1))
    desk.apply(Reduce(0, 1, 1, 5, 1, 1))
    assert desk.told("ann") == ["accepted 1"]
    assert desk.market.orders == 1


def test_a_refused_request_uses_its_reference_up() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.apply(Enter(0, 1, 1, 5, "ACME", "B", 0, 100))
    desk.apply(Enter(0, 1, 1, 5, "ACME", "B", 5, 100))
    assert desk.told("ann") == ["refused BAD_VOLUME"]


def test_an_order_is_found_by_its_id_under_any_symbol() -> None:
    desk = OrderDesk(("ACME", "GLOBEX"))
    desk.open("ann")
    desk.enter("ann", "B", 5, 100, symbol="GLOBEX")
    desk.apply(Cancel(0, 1, 1, 9, 1, "ACME"))
    assert desk.told("ann")[1:] == ["canceled 1 5 USER left 0"]
    desk.apply(Cancel(0, 1, 1, 10, 1, "NOPE"))
    desk.apply(Cancel(0, 1, 1, 11, 1, "ACME"))
    assert desk.told("ann") == ["refused UNKNOWN_SYMBOL", "refused UNKNOWN_ORDER"]


def test_inputs_answer_with_the_order_that_lives_on() -> None:
    desk = OrderDesk()
    desk.open("ann")
    assert desk.enter("ann", "B", 5, 100) == 1
    assert desk.enter("ann", "S", 5, 100) == 0
    assert desk.enter("ann", "B", 5, 100, stop=120) == 3
    assert desk.replace("ann", 3, 5, 101) == 4
    assert desk.replace("ann", 4, 4, 101) == 4
    assert desk.replace("ann", 4, 0, 101) == 0
    assert desk.replace("ann", 77, 5, 101) == 0


def test_bytes_of_an_unknown_protocol_close_their_session() -> None:
    market = Market(MarketRules(instruments=(Instrument("ACME"),)))
    market.apply(Tick(1))
    assert market.apply(Wire(2, 0, b"")) == "the market has no protocol "


def test_a_reopened_account_takes_over_its_settings() -> None:
    desk = OrderDesk()
    desk.open("ann")
    desk.enter("ann", "B", 5, 100)
    desk.open("ann", self_trade="both", cancel_on_disconnect=True)
    account = desk.market.account_named("ann")
    assert account is not None
    assert (account.index, account.self_trade, account.cancel_on_disconnect, len(account.orders)) == (
        1,
        "both",
        True,
        1,
    )
    assert desk.market.account_named("bob") is None


def test_what_it_is_asked_to_do_to_nobody_has_no_effect() -> None:
    desk = OrderDesk()
    for item in (Kill(0, 0, True), Kill(0, 7, True), Bust(0, 1, "NOPE")):
        assert desk.apply(item) == 0
    assert desk.feed() == []
    desk.apply(Bust(0, 3, "ACME"))
    assert desk.feed() == ["busted 3"]
    assert desk.enter(AGENT, "B", 5, 100) == 1


def test_a_protocols_requests() -> None:
    """What OUCH does: orders are entered, replaced, made smaller and found by their owner's references."""
    desk = OrderDesk()
    desk.open("ann")
    market, account = desk.market, desk.market.accounts[1]

    def order(ref: int, volume: int, price: int) -> Order:
        return Order(0, 0, 1, "B", price, volume, 1, 1, ref)

    market.enter(order(1, 9, 100))
    first = market.order_of(account, 1)
    assert first is not None
    market.modify(first, 2)
    market.modify(first, 0)
    market.replace(first, order(2, 5, 100))
    market.replace(first, order(2, 5, 100))
    second = market.order_of(account, 2)
    assert second is not None
    market.cancel(second, 1)
    market.cancel(second, 0)
    market.modify(second, 4)
    assert market.order_of(account, 1) is market.order_of(account, 2) is None
    assert desk.told("ann") == [
        "accepted 1",
        "modified 1",
        "modified 1",
        "replaced 1 2",
        "canceled 2 1 USER left 4",
        "canceled 2 4 USER left 0",
    ]
    assert desk.feed() == ["added 1 B 9@100", "reduced 1 2", "replaced 1 2 5@100", "reduced 2 1", "deleted 2 4"]


def test_figures() -> None:
    desk = OrderDesk()
    desk.enter(AGENT, "B", 5, 100)
    desk.enter(AGENT, "S", 3, 100)
    desk.enter(AGENT, "S", 3, 101)
    market = desk.market
    assert (market.inputs, market.orders, market.trades, market.live_orders) == (4, 3, 1, 2)
    assert market.last_time_ns == desk.time_ns
