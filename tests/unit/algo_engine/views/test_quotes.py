"""Quotes follow the view best_quote."""

from __future__ import annotations

from algo_engine.views.contents import ViewChange
from algo_engine.views.quotes import Quotes
from tests.generators.order_lab import quote_change


def test_a_quote_knows_its_middle_and_marks() -> None:
    quotes = Quotes()
    quotes.apply(quote_change(bid=99, ask=102))
    quote = quotes.get("ACME")
    assert quote is not None
    assert (quote.double_mid_ticks, quote.mark_ticks(5), quote.mark_ticks(-5)) == (201, 99, 102)
    assert quote.is_two_sided


def test_a_one_sided_book_is_marked_at_its_only_price() -> None:
    quotes = Quotes()
    row = {"symbol": "ACME", "bid_price": None, "bid_volume": None, "ask_price": 102, "ask_volume": 5}
    quotes.apply(ViewChange("best_quote", True, 0, 1, (row,), ()))
    quote = quotes.get("ACME")
    assert quote is not None
    assert (quote.double_mid_ticks, quote.mark_ticks(5), quote.is_two_sided) == (204, 102, False)


def test_a_symbol_that_has_gone_keeps_its_prices_without_sizes() -> None:
    quotes = Quotes()
    change = quote_change()
    quotes.apply(change)
    quotes.apply(ViewChange("best_quote", False, 1, 2, (), change.added))
    quote = quotes.get("ACME")
    assert quote is not None
    assert (quote.bid_price_ticks, quote.bid_volume_lots) == (99, 0)
    assert quote.mark_ticks(5) == 99
    assert not quote.is_two_sided


def test_the_typical_size_approaches_a_constant_from_both_sides() -> None:
    quotes = Quotes()
    quotes.apply(quote_change(lots=1000))
    for lots in (37, 100_000_000):
        for _ in range(600):
            quotes.apply(quote_change(lots=lots))
        quote = quotes.get("ACME")
        assert quote is not None
        assert quote.typical_lots == lots
