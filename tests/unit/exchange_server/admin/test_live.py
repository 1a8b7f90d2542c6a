"""A frame of the live page says one symbol and the exchange around it, ready to be shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltabook.wire import admin
from deltabook.wire.symbols import Instrument
from exchange_server.matching.inputs import Enter, MarketRules, Phase
from tests.generators.operated import Operated, Playing

RULES = MarketRules(instruments=(Instrument("ACME"), Instrument("BTCUSD", "0.00000001", "0.0001")))


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    operated = Operated(tmp_path, rules=RULES)
    yield operated
    operated.close()


def frame(operated: Operated, symbol: str = "ACME", after: int = 0) -> admin.Live:
    return operated.report(f"{admin.LIVE_PATH}{symbol}?after={after}", admin.Live)


def order(side: str, volume: int, price: int, symbol: str = "ACME") -> Enter:
    return Enter(0, 0, 4, 0, symbol, side, volume, price)


def test_a_frame_has_the_best_levels_of_each_side_in_decimals(operated: Operated) -> None:
    operated.submit(*(order("B", 1 + place, 9_990 - place) for place in range(12)))
    operated.submit(order("B", 4, 9_990), order("S", 7, 10_005))
    found = frame(operated)
    assert found.bids[:2] == (admin.LiveLevel("99.90", "5", 2), admin.LiveLevel("99.89", "2", 1))
    assert (len(found.bids), found.asks) == (admin.LIVE_DEPTH, (admin.LiveLevel("100.05", "7", 1),))
    assert (found.symbol, found.phase, found.last, found.spread) == ("ACME", "continuous", None, "0.15")


def test_prices_and_quantities_are_exact_where_a_float_is_not(operated: Operated) -> None:
    ticks = 2**53 + 1
    operated.submit(order("S", 2**53 + 1, ticks, "BTCUSD"), order("B", 1, ticks, "BTCUSD"))
    found = frame(operated, "BTCUSD")
    assert found.asks == (admin.LiveLevel("90071992.54740993", "900719925474.0992", 1),)
    assert [(trade.price, trade.quantity) for trade in found.trades] == [("90071992.54740993", "0.0001")]
    assert (found.last, found.spread) == ("90071992.54740993", None)


def test_a_frame_goes_on_behind_the_one_before(operated: Operated) -> None:
    operated.submit(order("B", 5, 100), order("S", 2, 100))
    first = frame(operated)
    assert [trade.quantity for trade in first.trades] == ["2"]
    assert frame(operated, after=first.next_after).trades == ()
    operated.submit(order("S", 3, 100))
    assert [trade.quantity for trade in frame(operated, after=first.next_after).trades] == ["3"]


def test_figures_are_those_of_the_exchange(operated: Operated) -> None:
    operated.connect("1,,1")
    operated.connect()
    connection, _ = operated.connect("0,7,,1")
    connection.dataReceived(b"1,0,0,7,B,5,100,ACME\n2,0,0,7,S,2,100,ACME\n3,0,0,7,S,2,100,NONE\n")
    operated.clock.advance(2)
    found = frame(operated)
    market = operated.exchange.market
    assert found.figures == admin.LiveFigures(
        inputs=market.inputs, messages=2, orders=2, trades=1, live_orders=1, sessions=3, listeners=2, refused=1
    )
    assert (found.session, found.up_s, found.replay) == ("SESSION1", 2.0, None)
    assert found.day_ns == operated.exchange.heartbeat_time_ns()


def test_a_frame_says_the_phase_and_what_is_played(tmp_path: Path) -> None:
    operated = Operated(tmp_path, playing=Playing())
    operated.submit(Phase(0, "ACME", "halted", "NEWS"))
    found = frame(operated)
    assert (found.phase, frame(operated, "GLOBEX").phase) == ("halted", "continuous")
    assert found.replay is not None
    assert (found.replay.file, found.replay.position) == ("day.csv", 12)
    operated.close()


def test_whoever_looks_changes_nothing(operated: Operated) -> None:
    operated.submit(order("B", 5, 100), order("S", 2, 100))
    before = operated.exchange.market.state_hash()
    frames = {msgspec.json.encode(frame(operated)) for _ in range(3)}
    assert (len(frames), operated.exchange.market.state_hash()) == (1, before)
