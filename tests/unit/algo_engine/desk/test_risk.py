"""Every limit refuses what is past it, in words, and nothing else."""

from __future__ import annotations

import msgspec
import pytest

from algo_engine.desk.order import Order, OrderStatus, Side
from algo_engine.desk.risk import Exposure, RiskGate, RiskLimits, TokenBucket
from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quote
from tests.generators.order_lab import OrderLab

QUOTE = Quote("ACME", 99, 100, 101, 100, 100)


def new(lots: int, price: int = 100, side: Side = Side.BUY) -> Order:
    return Order(2, "ACME", side, lots, price)


def objection(
    limits: RiskLimits,
    lots: int = 10,
    price: int = 100,
    *,
    side: Side = Side.BUY,
    position: int = 0,
    orders: tuple[Order, ...] = (),
    quote: Quote | None = QUOTE,
) -> str:
    gate = RiskGate(limits, lambda: 0)
    return gate.objection(new(lots, price, side), quote=quote, position_lots=position, open_orders=orders)


def resting(lots: int, side: Side = Side.BUY) -> Order:
    return Order(1, "ACME", side, lots, 100, OrderStatus.ACCEPTED, 1)


def test_an_ordinary_order_passes() -> None:
    assert not objection(RiskLimits())


@pytest.mark.parametrize(
    ("limits", "lots", "reason"),
    [
        (RiskLimits(max_order_lots={"ACME": 9}), 10, "order size: expected at most 9 lots, was 10"),
        (RiskLimits(max_order_lots={"*": 9}), 10, "order size"),
        (RiskLimits(max_order_touches=2), 201, "order size: expected at most 200 lots"),
        (RiskLimits(), 0, "volume"),
    ],
)
def test_the_size_of_an_order_is_limited(limits: RiskLimits, lots: int, reason: str) -> None:
    assert objection(limits, lots).startswith(reason)


def test_open_orders_count_towards_the_position_as_if_filled() -> None:
    limits = RiskLimits(max_position_lots={"*": 100})
    assert not objection(limits, 10, position=50, orders=(resting(40),))
    assert objection(limits, 10, position=50, orders=(resting(41),)).startswith("position: expected at most 100")
    assert not objection(limits, 10, position=50, orders=(resting(41, Side.SELL),))


def test_a_position_beyond_its_limit_can_be_closed() -> None:
    limits = RiskLimits(max_position_lots={"*": 5})
    assert not objection(limits, 50, side=Side.SELL, position=50)
    assert objection(limits, 56, side=Side.SELL, position=50).startswith("position")


def test_the_number_of_open_orders_is_limited() -> None:
    assert objection(RiskLimits(max_open_orders=1), orders=(resting(1),)).startswith("open orders")


@pytest.mark.parametrize(("price", "passes"), [(90, True), (110, True), (89, False), (111, False), (0, True)])
def test_a_price_must_be_within_the_band(price: int, passes: bool) -> None:
    assert (not objection(RiskLimits(price_band_bps=1000), price=price)) is passes


def test_without_a_quote_nothing_is_sent() -> None:
    assert objection(RiskLimits(), quote=None).startswith("price band: expected a quote of ACME")
    one_sided = msgspec.structs.replace(QUOTE, ask_price_ticks=None, ask_volume_lots=0)
    assert objection(RiskLimits(), price=0, quote=one_sided).endswith("was an empty side")
    assert not objection(RiskLimits(), price=0, quote=one_sided, side=Side.SELL)


def test_a_market_order_needs_more_than_a_remembered_price() -> None:
    gone = msgspec.structs.replace(QUOTE, bid_volume_lots=0, ask_volume_lots=0)
    for side in Side:
        assert objection(RiskLimits(), price=0, quote=gone, side=side).endswith("was an empty side")


def test_a_sale_is_worth_the_bid_that_it_finds() -> None:
    limits = RiskLimits(max_order_notional={"*": 989})
    assert objection(limits, price=95, side=Side.SELL) == "notional: expected at most 989 ticks × lots, was 990"
    assert not objection(limits, price=95)
    assert objection(RiskLimits(max_open_notional={"*": 989}), price=95, side=Side.SELL).startswith("open notional")


def test_the_middle_of_the_band_is_said_exactly() -> None:
    quote = Quote("BTCUSD", 68_000_001, 1, 68_000_002, 1, 100)
    assert "within 1000 bps of 68000001.5, was 5" in objection(RiskLimits(), price=5, quote=quote)


def test_the_rate_is_limited_and_comes_back_with_time() -> None:
    now = [0]
    bucket = TokenBucket(2, 3, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] += 499_999_999
    assert not bucket.take()
    now[0] += 1
    assert bucket.take()
    now[0] -= 10**9
    assert not bucket.take()


def test_a_refused_order_does_not_use_up_the_rate() -> None:
    gate = RiskGate(RiskLimits(burst_orders=1, max_order_lots={"*": 5}), lambda: 0)
    for _ in range(3):
        assert gate.objection(new(9), quote=QUOTE, position_lots=0, open_orders=())
    assert not gate.objection(new(5), quote=QUOTE, position_lots=0, open_orders=())
    assert gate.objection(new(5), quote=QUOTE, position_lots=0, open_orders=()).startswith("order rate")


EXPOSURE = "exposure: expected at most"
GLOBEX = Order(3, "GLOBEX", Side.SELL, 5, 210, OrderStatus.ACCEPTED, 3)


@pytest.mark.parametrize(
    ("limits", "lots", "side", "expected"),
    [
        # Long 10 at 99 and short 20 at 202, of which 5 more are on offer: gross 990 + 5,050.
        (RiskLimits(max_gross_notional=6_138), 1, Side.BUY, f"gross {EXPOSURE} 6138 ticks × lots, was 6139"),
        (RiskLimits(max_gross_notional=6_139), 1, Side.BUY, ""),
        (RiskLimits(max_gross_notional=100), 20, Side.SELL, ""),
        (RiskLimits(max_gross_notional=100), 21, Side.SELL, f"gross {EXPOSURE} 100 ticks × lots, was 6139"),
        # Net: 990 - 5,050 with the sale on offer, and a purchase brings it nearer to 0.
        (RiskLimits(max_net_notional=100), 30, Side.BUY, ""),
        (RiskLimits(max_net_notional=4_060), 1, Side.SELL, f"net {EXPOSURE} 4060 ticks × lots, was 4159"),
        (RiskLimits(max_net_notional=4_159), 1, Side.SELL, ""),
        (RiskLimits(max_net_notional=4_159), 90, Side.BUY, f"net {EXPOSURE} 4159 ticks × lots, was 5860"),
    ],
)  # fmt: skip
def test_exposures_over_all_symbols_are_limited(limits: RiskLimits, lots: int, side: Side, expected: str) -> None:
    """Gross and net, with the open orders of other symbols, and never against an order that makes them smaller."""
    exposures = {"ACME": Exposure(10, 99), "GLOBEX": Exposure(-20, 202)}
    gate = RiskGate(limits, lambda: 0)
    reason = gate.objection(
        new(lots, 100, side), quote=QUOTE, position_lots=10, open_orders=(GLOBEX,), exposures=exposures
    )
    assert reason == expected


def test_a_desks_exposures_are_its_positions_at_their_marks() -> None:
    """A desk asks only where there is a limit, and passes on what it holds."""
    lab = OrderLab(limits=RiskLimits(max_gross_notional=1_000, max_order_lots={"*": 100}, max_position_lots={"*": 100}))
    lab.settle()
    row = {"bid_price": 99, "bid_volume": 100, "ask_price": 101, "ask_volume": 100}
    lab.quotes.apply(ViewChange("best_quote", True, 0, 1, ({"symbol": "ACME", **row}, {"symbol": "GLOBEX", **row}), ()))
    lab.desk.portfolio.fill("GLOBEX", Side.SELL, 9, 100)
    client_id = lab.desk.submit(Side.BUY, "ACME", 1, 100)
    order = lab.desk.blotter.order(client_id)
    assert order is not None
    assert order.reason.startswith("gross exposure: expected at most 1000 ticks × lots, was ")
