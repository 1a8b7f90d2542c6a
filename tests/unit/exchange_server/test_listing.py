"""Which instruments NASDAQ's messages can carry."""

from __future__ import annotations

import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.nasdaq.listing import list_instruments


@pytest.mark.parametrize(
    ("instrument", "words"),
    [
        (Instrument("BTCUSD", "0.01", "0.00000001"), "expected a lot of whole shares, was 0.00000001"),
        (Instrument("TINY", "0.00005", "1"), "expected a tick of whole ten-thousandths, was 0.00005"),
        (Instrument("HUGE", "1000000", "1"), "expected a tick of whole ten-thousandths"),
        (Instrument("NINE_LONG", "0.01", "1"), "expected a symbol of at most 8 characters, was 9"),
    ],
)
def test_what_does_not_fit_is_not_listed_and_said_so(instrument: Instrument, words: str) -> None:
    listed, unlisted = list_instruments([Instrument("ACME"), instrument, Instrument("GLOBEX")])
    assert {symbol: listing.locate for symbol, listing in listed.items()} == {"ACME": 1, "GLOBEX": 3}
    assert words in unlisted[instrument.symbol]


def test_only_so_many_locates_have_room() -> None:
    listed, unlisted = list_instruments(Instrument(f"S{number}") for number in range(2**16))
    assert len(listed) == 2**16 - 1
    assert unlisted == {"S65535": "expected a place among the first 65535, was 65536"}
