"""Profit is exact: nothing is lost to rounding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Holding, Portfolio, ProfitAndLoss

FILLS = st.lists(
    st.tuples(st.sampled_from(Side), st.integers(1, 10**9), st.integers(1, 10**7)), min_size=1, max_size=30
)


def test_a_round_trip_earns_the_difference() -> None:
    holding = Holding().after(Side.BUY, 10, 100).after(Side.SELL, 10, 103)
    assert holding == Holding(0, 0, 30)


def test_a_short_position_earns_when_the_price_falls() -> None:
    portfolio = Portfolio()
    portfolio.fill("ACME", Side.SELL, 10, 100)
    assert portfolio.profit("ACME", 98) == ProfitAndLoss(0, 20)
    portfolio.fill("ACME", Side.BUY, 4, 98)
    assert portfolio.profit("ACME", 98) == ProfitAndLoss(8, 12)


def test_a_fill_that_turns_the_position_opens_the_rest_anew() -> None:
    assert Holding().after(Side.BUY, 3, 100).after(Side.SELL, 5, 110) == Holding(-2, -220, 30)


def test_without_a_mark_nothing_is_unrealised() -> None:
    portfolio = Portfolio({"ACME": Holding(5, 500, 7)})
    assert portfolio.profit("ACME", None) == ProfitAndLoss(7, 0)


@given(FILLS, st.integers(1, 10**7))
def test_profit_is_cash_plus_worth_and_flat_costs_nothing(fills: list[tuple[Side, int, int]], mark: int) -> None:
    portfolio, cash, lots = Portfolio(), 0, 0
    for side, volume, price in fills:
        portfolio.fill("ACME", side, volume, price)
        cash -= side.sign * volume * price
        lots += side.sign * volume
        holding = portfolio.holding("ACME")
        assert holding.position_lots == lots
        assert portfolio.profit("ACME", mark).total == cash + lots * mark
        assert holding.cost * lots >= 0
        if lots == 0:
            assert (holding.cost, holding.realised) == (0, cash)
