"""Market time runs as told and never goes back."""

from __future__ import annotations

from twisted.internet.task import Clock

from exchange_server.clock import MarketClock


def test_a_replays_clock_stands_until_it_starts() -> None:
    real = Clock()
    market = MarketClock(real.seconds, 500, speed=10.0, running=False)
    real.advance(5)
    assert market.now_ns() == 500
    market.start()
    real.advance(2)
    assert market.now_ns() == 500 + 20_000_000_000
    assert market.seconds_until(500 + 30_000_000_000) == 1.0


def test_advancing_moves_forward_only() -> None:
    real = Clock()
    market = MarketClock(real.seconds, 1_000)
    market.advance_to(5_000)
    market.advance_to(2_000)
    assert market.now_ns() == 5_000
    real.advance(1)
    assert market.now_ns() == 1_000_005_000
