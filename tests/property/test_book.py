"""A book keeps its invariants and its queues, whatever comes and goes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from exchange_server.matching import Book, Order, Side, Silence
from tests.harness.examples import examples

Step = tuple[str, int, int]
"""B or S to enter an order at a price, or D to cancel the live order of this place; the volume."""

steps: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from("BBSSD"), st.integers(97, 103), st.integers(1, 12)), max_size=200
)


class _Queues:
    """What a book is, as one list that is searched for everything."""

    def __init__(self) -> None:
        self.orders: list[list[int]] = []  # id, sign (1 buys), price, volume

    def enter(self, order_id: int, sign: int, price: int, volume: int) -> None:
        while volume:
            others = [order for order in self.orders if order[1] != sign and sign * order[2] <= sign * price]
            if not others:
                self.orders.append([order_id, sign, price, volume])
                return
            best = min(others, key=lambda order: (sign * order[2], order[0]))
            done = min(volume, best[3])
            volume -= done
            best[3] -= done
            self.orders = [order for order in self.orders if order[3]]


@given(steps)
@settings(max_examples=examples(300), deadline=None)
def test_a_book_holds_what_a_list_holds(requests: list[Step]) -> None:
    book, queues = Book(1, "ACME", Silence()), _Queues()
    for order_id, (action, price, volume) in enumerate(requests, 1):
        if action == "D":
            if queues.orders:
                gone = queues.orders.pop((price * volume) % len(queues.orders))
                assert book.cancel(gone[0]) == gone[3]
        else:
            side: Side = "B" if action == "B" else "S"
            book.enter(Order(order_id, order_id, 1, side, price, volume, 7))
            queues.enter(order_id, 1 if action == "B" else -1, price, volume)
        book._check()
    held = sorted([o.order_id, 1 if o.side == "B" else -1, o.price_ticks, o.volume] for o in book.orders.values())
    assert held == sorted(queues.orders)
    ids = [order.order_id for order in book.resting()]
    expected = sorted(queues.orders, key=lambda order: (-order[1], -order[1] * order[2], order[0]))
    assert ids == [order[0] for order in expected]
