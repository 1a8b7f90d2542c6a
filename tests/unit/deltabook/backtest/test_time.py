"""now() in the views of a backtest is the market's time when it last said something."""

from __future__ import annotations

from deltabook.backtest.deltas import DeltaEncoder
from deltabook.backtest.views import BacktestViews
from exchange_server.matching import MarketRules, Now
from runtime.compiler import NamedSelect
from runtime.plan import EPOCH_TIME

RECENT = NamedSelect("recent", "SELECT id FROM bids WHERE t > now() - 10", lane="express")


def bid(t: int, number: int) -> tuple[str, tuple[int | str, ...], int]:
    return "bids", (t, number, 1, 5, 100, "ACME"), 1


def test_rows_leave_as_the_time_of_the_market_passes() -> None:
    views, now = BacktestViews([RECENT]), Now()
    assert views.reads_time
    encoder = DeltaEncoder(MarketRules(()), now)
    encoder.gives_time = views.reads_time
    shown = []
    for time_ns, delta in ((5, bid(5, 1)), (12, bid(12, 2)), (15, bid(15, 3))):
        now.time_ns = time_ns
        encoder.deltas.append(delta)
        encoder.end_epoch()
        views.step(encoder.deltas[:])
        encoder.deltas.clear()
        shown.append(sorted(row[0] for row in views.snapshot("recent")[0]))
    assert shown == [[1], [1, 2], [2, 3]]
    assert (EPOCH_TIME.name, 15) in [(name, row[0]) for name, row, _ in encoder.rows()]
