"""Orders, fills, breaks and crashes in any order: desk and exchange agree in the end, whatever happened."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from algo_engine.desk.order import TERMINAL, OrderEvent, OrderStatus, Side
from tests.generators.order_lab import OrderLab
from tests.harness.examples import examples

SUCCESSORS = {
    OrderStatus.NEW: {*OrderStatus} - {OrderStatus.PARTIALLY_FILLED, OrderStatus.FILLED},
    OrderStatus.UNKNOWN: {*OrderStatus} - {OrderStatus.NEW},
    OrderStatus.ACCEPTED: {
        OrderStatus.ACCEPTED,
        OrderStatus.PARTIALLY_FILLED,
        OrderStatus.FILLED,
        OrderStatus.CANCELLED,
        OrderStatus.EXPIRED,
    },
    OrderStatus.PARTIALLY_FILLED: {
        OrderStatus.PARTIALLY_FILLED,
        OrderStatus.FILLED,
        OrderStatus.CANCELLED,
        OrderStatus.EXPIRED,
    },
}
"""The plain model of an order's life: what may follow what; nothing follows an end."""


class OrderLife(RuleBasedStateMachine):
    """A desk, an exchange and everything that can come between them."""

    is_behind = False
    """Requests are synced behind their sending."""

    def __init__(self) -> None:
        super().__init__()
        self.lab = OrderLab(compact_bytes=64 * 5, is_behind=self.is_behind)
        self.lives: dict[int, OrderStatus] = {}
        self.unwanted: set[int] = set()
        self.lab.settle()

    @rule(
        side=st.sampled_from(Side),
        lots=st.sampled_from([1, 10, 100, 950]),
        price=st.sampled_from([99, 100, 0]),
        sent=st.booleans(),
    )
    def submit(self, side: Side, lots: int, price: int, sent: bool) -> None:
        self.lab.desk.submit(side, "ACME", lots, price)
        if sent:
            self.lab.turn()

    @rule(pick=st.integers(0, 9))
    def cancel(self, pick: int) -> None:
        orders = self.lab.desk.blotter.open_orders()
        if orders:
            client_id = orders[pick % len(orders)].client_id
            self.unwanted.add(client_id)
            self.lab.desk.cancel(client_id)

    @rule(pick=st.integers(0, 9), lots=st.sampled_from([1, 5, 10, 100]))
    def reduce(self, pick: int, lots: int) -> None:
        orders = self.lab.desk.blotter.open_orders()
        if orders:
            self.lab.desk.reduce(orders[pick % len(orders)].client_id, lots)

    @rule(pick=st.integers(0, 9), lots=st.sampled_from([1, 5, 10, 100, 950]), price=st.sampled_from([98, 99, 100]))
    def replace(self, pick: int, lots: int, price: int) -> None:
        orders = self.lab.desk.blotter.open_orders()
        if orders:
            self.lab.desk.replace(orders[pick % len(orders)].client_id, lots, price)

    @rule(pick=st.integers(0, 9))
    def expire(self, pick: int) -> None:
        resting = list(self.lab.exchange.resting)
        if resting:
            self.lab.exchange.end(resting[pick % len(resting)], "timeout")
            self.lab.told()

    @rule(times=st.integers(1, 4))
    def requests_arrive(self, times: int) -> None:
        self.lab.turn()
        for _ in range(times):
            self.lab.deliver_request()

    @rule(times=st.integers(1, 4))
    def responses_arrive(self, times: int) -> None:
        for _ in range(times):
            self.lab.deliver_response()

    @rule()
    def late_request_arrives(self) -> None:
        self.lab.deliver_late()

    @rule(pick=st.integers(0, 9), lots=st.sampled_from([1, 7, 1000]))
    def execute(self, pick: int, lots: int) -> None:
        resting = list(self.lab.exchange.resting)
        if resting:
            self.lab.exchange.fill(resting[pick % len(resting)], lots, 100)
            self.lab.told()

    @precondition(lambda self: self.lab.is_connected)
    @rule(arriving=st.integers(0, 3), again=st.booleans())
    def break_connection(self, arriving: int, again: bool) -> None:
        self.lab.drop(arriving=arriving)
        if again:
            self.lab.connect()

    @precondition(lambda self: not self.lab.is_connected)
    @rule()
    def connect(self) -> None:
        self.lab.connect()

    @rule()
    def sync_ends(self) -> None:
        self.lab.finish_sync()

    @rule(arriving=st.integers(0, 3), written=st.none() | st.integers(0, 5), again=st.booleans())
    def crash(self, arriving: int, written: int | None, again: bool) -> None:
        """The process is killed, or the machine loses power: then so many records beyond the last sync are left."""
        self._follow()
        if written is None:
            self.lab.kill(arriving=arriving)
        else:
            self.lab.crash(arriving=arriving, written=written)
        # What the desk had heard but not made durable, it hears again.
        self.lives.clear()
        self.unwanted.clear()
        if again:
            self.lab.connect()

    @rule()
    def settle(self) -> None:
        self.lab.settle()
        self.lab.check_settled()
        left = {order.client_id for order in self.lab.desk.blotter.open_orders()}
        assert not left & self.unwanted, "what was cancelled is gone, whatever came between"

    @invariant()
    def blotter_holds(self) -> None:
        self.lab.desk.blotter._check()
        self._follow()

    def _follow(self) -> None:
        for event in self.lab.events:
            self._step(event)
        self.lab.events.clear()

    def _step(self, event: OrderEvent) -> None:
        order = event.order
        before = self.lives.get(order.client_id)
        if before in TERMINAL:
            assert order.status is before, "nothing follows an end"
        elif before is not None:
            assert order.status in SUCCESSORS[before], f"{before} → {order.status}"
        self.lives[order.client_id] = order.status
        assert 0 <= order.filled_lots + order.removed_lots <= order.volume_lots

    def teardown(self) -> None:
        self.lab.settle()
        self.lab.check_settled()
        self._follow()


class OrderLifeBehind(OrderLife):
    """The same with requests that are synced behind their sending."""

    is_behind = True


TestOrderLife = OrderLife.TestCase
TestOrderLife.settings = settings(max_examples=examples(250), stateful_step_count=40, deadline=None)
TestOrderLifeBehind = OrderLifeBehind.TestCase
TestOrderLifeBehind.settings = settings(max_examples=examples(250), stateful_step_count=40, deadline=None)
