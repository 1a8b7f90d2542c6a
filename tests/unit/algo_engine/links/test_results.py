"""What the runtime must offer."""

from __future__ import annotations

import pytest

from algo_engine.errors import ViewNotOffered
from algo_engine.links.results import check_offer

OFFER = b'[{"name":"best_quote","class":"ordered","columns":[{"name":"symbol","type":"string"}],"epoch":3}]'


def test_a_view_that_is_offered_passes() -> None:
    check_offer(OFFER, {"best_quote": ("symbol",)})


@pytest.mark.parametrize(
    ("data", "wanted", "message"),
    [
        (OFFER, {"vwap_book": ()}, "expected the runtime to keep the view vwap_book, was best_quote"),
        (b"[]", {"vwap_book": ()}, "was no view"),
        (OFFER, {"best_quote": ("bid_price",)}, "expected the view best_quote to have the columns bid_price"),
        (b"<html>", {}, "expected a list of views from the runtime"),
    ],
)
def test_what_is_missing_is_named(data: bytes, wanted: dict[str, tuple[str, ...]], message: str) -> None:
    with pytest.raises(ViewNotOffered, match=message):
        check_offer(data, wanted)
