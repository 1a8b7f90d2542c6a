"""Figures as a page shows them are exact, whatever the scale."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.dashboard.errors import DashboardError
from deltabook.dashboard.scales import Scales, parse_scales
from deltabook.wire.symbols import Instrument

SIZES = st.sampled_from(["1", "0.01", "0.05", "0.25", "0.00000001", "100", "2.5"])
WHOLE = st.integers(-(2**100), 2**100)


@given(SIZES, SIZES, WHOLE)
def test_every_figure_is_the_product_and_nothing_is_rounded(tick: str, lot: str, amount: int) -> None:
    scales = Scales({"A": Instrument("A", tick, lot)})
    assert Fraction(scales.price("A", amount) or "") == amount * Fraction(tick)
    assert Fraction(scales.quantity("A", amount) or "") == amount * Fraction(lot)
    money = scales.money("A", amount) or ""
    assert Fraction(money.replace(",", "")) == amount * Fraction(tick) * Fraction(lot)
    assert len(money.partition(".")[2]) >= 2
    assert "E" not in money


@given(SIZES, st.integers(0, 2**90), st.integers(1, 2**40))
def test_an_average_has_two_digits_more_than_a_price(tick: str, total: int, volume: int) -> None:
    text = Scales({"A": Instrument("A", tick)}).average("A", total, volume)
    assert text is not None
    digits = max(0, -int(Decimal(tick).as_tuple().exponent)) + 2
    assert len(text.partition(".")[2]) == digits
    assert abs(Fraction(text) - Fraction(total, volume) * Fraction(tick)) <= Fraction(1, 2 * 10**digits)


def test_what_is_not_there_is_none_and_zero_is_not() -> None:
    scales = Scales()
    assert (scales.price("A", None), scales.quantity("A", None), scales.average("A", 5, 0)) == (None, None, None)
    assert (scales.price("A", 0), scales.money("A", 0), scales.average("A", 0, 3)) == ("0", "0.00", "0.00")


def test_a_given_scale_wins_over_the_exchange_and_the_star() -> None:
    scales = Scales(parse_scales(["A=0.5,1", "*=0.1,1"]))
    assert (scales.price("A", 3), scales.price("B", 3), scales.knows("B")) == ("1.5", "0.3", True)
    scales.learn(Instrument("A", "0.01"))
    scales.learn(Instrument("B", "0.01"))
    assert (scales.price("A", 3), scales.price("B", 3)) == ("1.5", "0.03")


def test_only_news_of_a_scale_make_what_was_formatted_old() -> None:
    scales = Scales()
    assert not scales.knows("A")
    scales.learn(Instrument("A", "0.01"))
    assert (scales.version, scales.knows("A")) == (1, True)
    scales.learn(Instrument("A", "0.01"))
    assert scales.version == 1


def test_sums_over_symbols_count_each_at_its_own_scale() -> None:
    scales = Scales(parse_scales(["A=0.01,1", "B=0.5,0.001"]))
    assert scales.sum_of_money([("A", 1_234_567), ("B", -1)]) == "12,345.6695"


@pytest.mark.parametrize("option", ["A", "A=1", "A=0,1", "A=1,-1", "=1,1", "A=x,1", "A=NaN,1", "A=1,1,1"])
def test_what_is_no_scale_is_refused_as_it_was_given(option: str) -> None:
    with pytest.raises(DashboardError, match="expected SYMBOL=TICK,LOT") as caught:
        parse_scales([option])
    assert repr(option) in str(caught.value)
