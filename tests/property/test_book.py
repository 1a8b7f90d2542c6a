"""The market says and holds exactly what a slow, obvious one does."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from deltabook.wire import text
from exchange_server.book import Book, Order
from exchange_server.market import Market
from tests.generators.market import RULES, Line, ModelMarket, Step, inputs_of, steps


def _feed(lines: list[str]) -> list[Line]:
    messages = [text.parse_feed_message(line.encode()) for line in lines]
    return [(m.order_id, m.broker_id, m.action, m.volume, m.price, m.symbol) for m in messages]


def _private(streams: dict[int, list[str]]) -> list[Line]:
    responses = [text.parse_response(line.encode()) for lines in streams.values() for line in lines]
    return [(r.broker_id, r.order_id, r.action, r.volume, r.price, r.symbol, r.client_id) for r in responses]


@given(steps)
@settings(max_examples=300, deadline=None)
def test_every_request_says_what_the_model_says_and_keeps_every_invariant(requests: list[Step]) -> None:
    market, model = Market(RULES), ModelMarket()
    for item in inputs_of(requests):
        market.apply(item)
        model.apply(item)
        feed, private = market.take_output()
        assert _feed(feed) == model.feed
        assert sorted(_private(private)) == sorted(model.private)
        assert {line.split(",")[1] for line in feed} <= {str(item.time_ns)}
        model.feed, model.private = [], []
        market._check()
    held = sorted((o.order_id, o.volume) for book in market.books.values() for o in book.orders.values())
    assert held == sorted((order["id"], order["volume"]) for order in model.resting)


@given(steps)
@settings(max_examples=50, deadline=None)
def test_sequences_rise_by_one_without_holes_in_the_feed_and_in_each_private_stream(requests: list[Step]) -> None:
    market = Market(RULES)
    for item in inputs_of(requests):
        market.apply(item)
    feed, private = market.take_output()
    for lines in [feed, *private.values()]:
        assert [int(line.split(",", 1)[0]) for line in lines] == list(range(1, len(lines) + 1))


@given(st.lists(st.tuples(st.sampled_from("BS"), st.integers(1, 5), st.integers(1, 9)), max_size=30), st.randoms())
def test_a_book_keeps_its_invariants_under_adds_takes_and_removals_in_any_order(
    orders: list[tuple[str, int, int]], random: object
) -> None:
    book = Book("ACME")
    for order_id, (side, price, volume) in enumerate(orders, 1):
        book.add(Order(order_id, 1, "B" if side == "B" else "S", price, volume))
        book._check(crossed=True)
    live = list(book.orders.values())
    random.shuffle(live)  # type: ignore[attr-defined]
    for order in live:
        if order.volume > 1:
            book.take(order, order.volume // 2)
            book._check(crossed=True)
        book.take(order, order.volume) if order.order_id % 2 else book.remove(order)
        book._check(crossed=True)
    assert not book and not book.bids and not book.asks  # noqa: PT018 - one claim: nothing is left
