"""The real engine against the real exchange: whatever is killed, no order is doubled and none is orphaned."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from signal import SIGCONT, SIGSTOP, SIGTERM

import pytest
from click.testing import CliRunner

from algo_engine.desk.fees import parse_fees
from deltabook.audit import audit
from deltabook.cli import main
from deltabook.wire.text import Response
from tests.integration.algo_process import ASK_TICKS, BID_TICKS, FakeResults, Process, private_stream, trades

pytestmark = pytest.mark.process

BUSY = """
from algo_engine import Strategy

class Busy(Strategy):
    '''Orders at many prices without a pause: some rest, some trade with each other, some are cancelled or reduced.'''

    def on_start(self, context):
        self.count = 0
        context.set_timer("next", 2, repeat=True)

    def on_timer(self, name):
        self.count += 1
        context, n = self.context, self.count
        for order in context.open_orders()[:-20]:
            context.cancel(order.client_id)
        context.buy("ACME", 3 + n % 5, 9_980 + n % 7)
        if n % 3 == 0:
            context.sell("ACME", 4, 9_982 + n % 9)
        if n % 11 == 0:
            context.sell("ACME", 2)
        resting = [order for order in context.open_orders() if order.order_id]
        if resting:
            context.reduce(resting[0].client_id, 1)
            context.replace(resting[-1].client_id, 2 + n % 4, 9_979 + n % 8)
"""
SLICES = """
from algo_engine import Side, Strategy
from algo_engine.execution import CompositeOrders, PeggedOrder, ScheduledOrder, TrailingStop

class Slices(Strategy):
    '''Buys 300 lots in 200 pieces from its own resting order, and keeps a trailing stop and a peg beside it.'''

    def on_start(self, context):
        self.orders = CompositeOrders(context)
        restored = self.orders.restore(self.ended)
        context.log("restored", orders=len(restored))
        if not any(order.side is Side.SELL and not order.options.stop_ticks for order in context.open_orders()):
            context.sell("ACME", 1_000, 10_010)
        if not restored:
            self.orders.add(TrailingStop(context, Side.SELL, "ACME", 7, 3_000))
            self.orders.add(PeggedOrder(context, Side.BUY, "ACME", 3, offset_ticks=10))
            schedule = ScheduledOrder(context, Side.BUY, "ACME", 300, 20_000, 100, limit_ticks=10_010)
            schedule.on_done = self.ended
            self.orders.add(schedule)

    def ended(self, order):
        self.context.log("ended", kind=type(order).__name__, state=order.state, lots=order.filled_lots)

    def on_order_event(self, event):
        self.orders.on_order_event(event)

    def on_view_change(self, change):
        self.orders.on_view_change(change)

    def on_timer(self, name):
        self.orders.on_timer(name)
"""
FEES = parse_fees("maker=-10,taker=250")
FREE = ["busy.risk.orders_per_s=100000", "busy.risk.burst_orders=100000", "busy.risk.max_open_orders=1000"]


def exchange(tmp_path: Path, port: int = 0, *more: str) -> Process:
    return Process(
        "exchange",
        "--dir",
        str(tmp_path / "exchange"),
        "--port",
        str(port),
        "--agents",
        "none",
        "--status-interval",
        "0",
        *more,
    )


def algo(tmp_path: Path, results: FakeResults, port: int, *more: str, name: str = "busy", text: str = BUSY) -> Process:
    strategy = tmp_path / f"{name}.py"
    strategy.write_text(text)
    parameters = [part for each in FREE for part in ("--param", each.replace("busy", name))]
    where = ["--results", results.address, "--orders", f"127.0.0.1:{port}", "--dir", str(tmp_path / "algo")]
    fees = ["--fees", "maker=-10,taker=250"]
    return Process("algo", "run", str(strategy), *where, *parameters, *fees, "--status-interval", "0.05", *more)


def live(told: list[Response]) -> dict[int, int]:
    """Order id → lots, of the orders that are still in the market."""
    orders: dict[int, int] = {}
    for message in told:
        if message.action == "A":
            orders[message.order_id] = message.volume
        elif message.action == "U":
            del orders[int(message.detail)]
            orders[message.order_id] = message.volume
        elif message.action in {"E", "F", "X", "D"}:
            orders[message.order_id] -= message.volume
            if not orders[message.order_id]:
                del orders[message.order_id]
    return orders


def position(told: list[Response]) -> int:
    sides: dict[int, str] = {}
    lots = 0
    for message in told:
        if message.action in {"A", "U"}:
            sides[message.order_id] = message.detail if message.action == "A" else sides[int(message.detail)]
        elif message.action in {"E", "F"}:
            lots += message.volume if sides[message.order_id] == "B" else -message.volume
    return lots


def bought(told: list[Response]) -> int:
    """Lots of all executed orders to buy."""
    sides = {message.order_id: message.detail for message in told if message.action == "A"}
    return sum(m.volume for m in told if m.action in {"E", "F"} and sides[m.order_id] == "B")


def check(told: list[Response], figures: dict[str, int], directory: Path) -> None:
    """What the engine believes is what the exchange told."""
    times_accepted = Counter(message.client_id for message in told if message.action == "A")
    assert times_accepted
    assert set(times_accepted.values()) == {1}, "an order was doubled"
    fills = [message.sequence for message in told if message.action in {"E", "F"}]
    assert figures["position_lots"] == position(told)
    assert figures["fills"] == len(fills)
    assert figures["orders_open"] == len(live(told)) == 0
    assert [int(trade["sequence"]) for trade in trades(directory)] == fills
    found = audit(directory, directory.parent / "exchange", FEES)
    assert found.agrees, found
    accounts = [account for strategy in found.strategies for account in strategy.accounts.values()]
    # What the process said at its end: positions are worth what closing them at the quote that never changes brings.
    worth = [account.worth(BID_TICKS if account.position_lots >= 0 else ASK_TICKS) for account in accounts]
    assert figures["pnl"] == sum(worth)


@pytest.mark.parametrize(("policy", "fsync"), [("cancel", "behind"), ("adopt", "behind"), ("adopt", "before")])
def test_repeated_kills_of_an_engine_lose_and_double_nothing(tmp_path: Path, policy: str, fsync: str) -> None:
    policies = ["--on-restart", policy, "--order-fsync", fsync]
    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        sent = 0
        for _ in range(3):
            with algo(tmp_path, results, port, *policies) as engine:
                sent = int(engine.wait_for("orders_sent", sent + 40)["orders_sent"])
        left = live(private_stream(port, 9001))
        assert left, "it was killed with orders in the market"
        with algo(tmp_path, results, port, *policies) as engine:
            engine.wait_for("orders_sent", sent + 40)
            figures = engine.stop()
        check(private_stream(port, 9001), figures, tmp_path / "algo")


@pytest.mark.slow
@pytest.mark.parametrize(("policy", "fsync"), [("cancel", "behind"), ("adopt", "before")])
def test_composite_orders_survive_kills_of_the_engine(tmp_path: Path, policy: str, fsync: str) -> None:
    """A schedule that is killed three times buys its lots to the last one, and no lot twice."""
    options = ["--on-restart", policy, "--order-fsync", fsync]

    def engine_of(port: int) -> Process:
        return algo(tmp_path, results, port, *options, name="slices", text=SLICES)

    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        for fills in (10, 20, 30):
            with engine_of(port) as engine:
                engine.wait_for("fills", fills)
        assert 15 <= bought(private_stream(port, 9001)) < 300
        with engine_of(port) as engine:
            engine.wait_for_log("ended kind=ScheduledOrder")
            figures = engine.stop()
        said = engine.errors()
        told = private_stream(port, 9001)
    assert "ended kind=ScheduledOrder state=filled lots=300" in said
    assert bought(told) == 300
    assert "restored orders=3" in said
    check(told, figures, tmp_path / "algo")


def declare_void(admin_port: int, *matches: int) -> None:
    for match in matches:
        done = CliRunner().invoke(main, ["exchange", "bust", "ACME", str(match), "--admin", f"127.0.0.1:{admin_port}"])
        assert done.exit_code == 0, done.output


def test_a_void_trade_is_reversed_once_over_kills(tmp_path: Path) -> None:
    """Declared while it is dead, just before it is killed, and again."""
    with FakeResults() as results, exchange(tmp_path, 0, "--admin-port", "0") as market:
        ports = market.ready().ports
        with algo(tmp_path, results, ports["text"]) as engine:
            fills = int(engine.wait_for("fills", 20)["fills"])
        declare_void(ports["admin"], 1, 2)
        with algo(tmp_path, results, ports["text"]) as engine:
            fills = int(engine.wait_for("fills", fills + 20)["fills"])
            declare_void(ports["admin"], 3, 4, 1)
        with algo(tmp_path, results, ports["text"]) as engine:
            engine.wait_for("fills", fills + 20)
            declare_void(ports["admin"], 5)
            engine.wait_for_log("match 5 is void")
            figures = engine.stop()
        told = private_stream(ports["text"], 9001)
    void = {(message.detail, message.order_id) for message in told if message.action == "B"}
    assert len(void) < sum(message.action == "B" for message in told), "one was declared void again"
    found = audit(tmp_path / "algo", tmp_path / "exchange", FEES)
    assert found.agrees, found
    (strategy,) = found.strategies
    account = strategy.accounts["ACME"]
    assert strategy.void_trades == len(void) == 10, "the strategy trades with itself alone"
    assert sum(int(trade["volume_lots"]) < 0 for trade in trades(tmp_path / "algo")) == 10
    assert figures["position_lots"] == account.position_lots
    assert figures["pnl"] == account.worth(BID_TICKS if account.position_lots >= 0 else ASK_TICKS)


def test_an_engine_outlives_an_exchange_that_is_killed(tmp_path: Path) -> None:
    with FakeResults() as results:
        with exchange(tmp_path) as market:
            port = market.ready().ports["text"]
            engine = algo(tmp_path, results, port)
            sent = engine.wait_for("orders_sent", 40)["orders_sent"]
        with engine:
            for _ in range(2):
                with exchange(tmp_path, port) as market:
                    market.ready()
                    sent = engine.wait_for("orders_sent", sent + 60)["orders_sent"]
            with exchange(tmp_path, port) as market:
                market.ready()
                engine.wait_for("orders_sent", sent + 60)
                figures = engine.stop()
                check(private_stream(port, 9001), figures, tmp_path / "algo")


def test_the_engine_ends_in_order_when_its_supervisor_goes(tmp_path: Path) -> None:
    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port, "--exit-with-stdin") as engine:
            engine.wait_for("orders_sent", 10)
            engine.close_input()
            figures = engine.finish()
        check(private_stream(port, 9001), figures, tmp_path / "algo")


def test_a_second_signal_does_not_disturb_the_end(tmp_path: Path) -> None:
    with FakeResults() as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port) as engine:
            engine.wait_for("orders_sent", 10)
            market.signal(SIGSTOP)  # cancellations stay unanswered, so that the engine waits for them
            for _ in range(2):
                engine.signal(SIGTERM)
                engine.next_event()
            market.signal(SIGCONT)
            figures = engine.finish()
            assert "Traceback" not in engine.errors()
        check(private_stream(port, 9001), figures, tmp_path / "algo")


def test_a_view_that_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    with FakeResults(views=("other",)) as results, exchange(tmp_path) as market:
        port = market.ready().ports["text"]
        with algo(tmp_path, results, port) as engine:
            said = engine.fails()
    assert said.splitlines()[-1] == (
        "deltabook algo: failed: expected the runtime to keep the view best_quote, was other"
    )
    assert "Traceback" not in said


def test_a_journal_of_another_session_is_one_clear_line(tmp_path: Path) -> None:
    with FakeResults() as results:
        for number in range(2):
            with exchange(tmp_path / str(number)) as market:
                port = market.ready().ports["text"]
                with algo(tmp_path, results, port) as engine:
                    if number == 0:
                        engine.wait_for("orders_sent", 5)
                        engine.stop()
                    else:
                        said = engine.fails()
    assert "refused: session" in said.splitlines()[-1]
