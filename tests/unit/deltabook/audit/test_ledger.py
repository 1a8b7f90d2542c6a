"""The plain computation and the portfolio that strategies use come to the same, to the unit."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from algo_engine.desk.order import Side
from algo_engine.desk.portfolio import Portfolio
from algo_engine.desk.trades import Trade
from deltabook.audit import recompute

trades = st.lists(
    st.builds(
        Trade,
        time_ns=st.just(0),
        sequence=st.just(0),
        strategy=st.just("s"),
        broker_id=st.just(1),
        symbol=st.sampled_from(["ACME", "GLOBEX"]),
        side=st.sampled_from("BS"),
        volume_lots=st.integers(1, 10**12),
        price_ticks=st.integers(1, 10**9),
        order_id=st.just(1),
        client_id=st.just(1),
        liquidity=st.just("maker"),
        fee=st.integers(-5, 5),
    ),
    max_size=30,
)


@given(trades, st.integers(1, 10**9))
def test_both_come_to_the_same(made: list[Trade], mark_ticks: int) -> None:
    portfolio = Portfolio()
    for trade in made:
        portfolio.fill(trade.symbol, Side(trade.side), trade.volume_lots, trade.price_ticks, trade.fee)
    accounts = recompute(made)
    assert set(accounts) == set(portfolio.holdings)
    for symbol, account in accounts.items():
        holding = portfolio.holding(symbol)
        assert (account.position_lots, account.realised, account.cost, account.fees) == (
            holding.position_lots, holding.realised, holding.cost, holding.fees
        )  # fmt: skip
        assert portfolio.profit(symbol, mark_ticks).total == account.worth(mark_ticks)


@given(trades)
def test_realised_profit_is_near_the_exact_average_cost(made: list[Trade]) -> None:
    for symbol, account in recompute(made).items():
        held, cost, realised = 0, Fraction(0), Fraction(0)
        for trade in (trade for trade in made if trade.symbol == symbol):
            lots = trade.volume_lots if trade.side == "B" else -trade.volume_lots
            if held * lots >= 0:
                cost += lots * trade.price_ticks
            else:
                closed = min(abs(held), abs(lots)) * (1 if held > 0 else -1)
                part = cost * closed / held
                realised += closed * trade.price_ticks - part
                cost -= part
                cost += (lots + closed) * trade.price_ticks
            held += lots
        assert abs(account.realised - realised) <= len(made)
