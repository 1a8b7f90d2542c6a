"""What time brings about: expiries, imbalances, and the phases of a day; market time never goes back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from twisted.internet.task import Clock

from exchange_server.day import LATEST_NS, Day, DaySchedule, MarketClock
from exchange_server.errors import JournalError
from exchange_server.matching.inputs import Enter, Phase, Tick
from exchange_server.matching.order import EXPIRES
from tests.generators.text_floor import RULES, Floor


def test_a_replays_clock_stands_until_it_starts() -> None:
    real = Clock()
    market = MarketClock(real.seconds, 500, speed=10.0, running=False)
    real.advance(5)
    assert market.now_ns() == 500
    market.start()
    real.advance(2)
    assert market.now_ns() == 500 + 20_000_000_000
    assert market.seconds_until(500 + 30_000_000_000) == 1.0


@pytest.mark.parametrize("speed", [1e12, 1e300])
def test_the_clock_stops_before_times_exceed_an_int64(speed: float) -> None:
    real = Clock()
    market = MarketClock(real.seconds, 500, speed=speed)
    real.advance(10.0**9)
    assert market.now_ns() == LATEST_NS
    market.advance_to(LATEST_NS + 5)
    real.advance(1.0)
    assert market.now_ns() == LATEST_NS + 5


def test_advancing_moves_forward_only() -> None:
    real = Clock()
    market = MarketClock(real.seconds, 1_000)
    market.advance_to(5_000)
    market.advance_to(2_000)
    assert market.now_ns() == 5_000
    real.advance(1)
    assert market.now_ns() == 1_000_005_000


SECOND = 10**9
AUCTION_RULES = msgspec.structs.replace(RULES, opens_with_auction=True)
WHOLE = DaySchedule(opening_s=10, trading_s=60, closing_s=5)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.close()


@pytest.fixture
def auctioned(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path, rules=AUCTION_RULES)
    yield floor
    floor.close()


def begun(floor: Floor, schedule: DaySchedule) -> Day:
    day = Day(floor.exchange, floor.clock, schedule, floor.failures.append)
    day.start()
    day.begin()
    return day


def pass_time(floor: Floor, seconds: float) -> None:
    floor.clock.pump([0.05] * round(seconds / 0.05))


def phases(floor: Floor) -> list[str]:
    return [book.phase for book in floor.exchange.market.books.values()]


def journalled(floor: Floor, after: int = 0) -> list[Any]:
    return [item for _, batch in floor.exchange.journal.reader.batches(after) for item in batch]


def test_an_order_expires_at_its_time_without_requests(floor: Floor) -> None:
    begun(floor, DaySchedule())
    expire_ns = floor.exchange.clock.now_ns() + 2 * SECOND
    floor.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 98, EXPIRES, expire_ns=expire_ns))
    pass_time(floor, 1.9)
    assert floor.exchange.market.live_orders == 1
    pass_time(floor, 0.2)
    assert floor.exchange.market.live_orders == 0
    assert [type(item) for item in journalled(floor)] == [Enter, Tick]


def test_orders_end_before_the_day_has_begun_too(floor: Floor) -> None:
    Day(floor.exchange, floor.clock, DaySchedule(trading_s=1), floor.failures.append).start()
    expire_ns = floor.exchange.clock.now_ns() + 2 * SECOND
    floor.submit(Enter(0, 0, 4, 0, "ACME", "B", 5, 98, EXPIRES, expire_ns=expire_ns))
    pass_time(floor, 2.1)
    assert (floor.exchange.market.live_orders, phases(floor)) == (0, ["continuous"] * 2)


def test_nothing_is_asked_for_while_nothing_is_due(floor: Floor) -> None:
    begun(floor, DaySchedule())
    pass_time(floor, 30)
    assert floor.exchange.inputs == 0


def test_an_auction_says_its_imbalance_each_second(auctioned: Floor) -> None:
    begun(auctioned, DaySchedule(opening_s=1000))
    pass_time(auctioned, 10)
    ticks = journalled(auctioned)
    assert {type(item) for item in ticks} == {Tick}
    assert 9 <= len(ticks) <= 11


def test_a_day_goes_through_its_phases(auctioned: Floor) -> None:
    begun(auctioned, WHOLE)
    assert phases(auctioned) == ["auction-open"] * 2
    pass_time(auctioned, 10.1)
    assert phases(auctioned) == ["continuous"] * 2
    pass_time(auctioned, 59)
    assert phases(auctioned) == ["continuous"] * 2
    pass_time(auctioned, 1.1)
    assert phases(auctioned) == ["auction-close"] * 2
    pass_time(auctioned, 5.1)
    assert phases(auctioned) == ["closed"] * 2
    inputs = auctioned.exchange.inputs
    pass_time(auctioned, 100)
    assert (auctioned.exchange.inputs, auctioned.failures) == (inputs, [])


def test_a_day_without_auctions_ends_all_the_same(floor: Floor) -> None:
    begun(floor, DaySchedule(trading_s=3))
    pass_time(floor, 3.1)
    assert phases(floor) == ["closed"] * 2


def test_what_an_operator_did_with_a_symbol_stays_until_the_end(auctioned: Floor) -> None:
    begun(auctioned, WHOLE)
    auctioned.submit(Phase(0, "ACME", "halted"))
    pass_time(auctioned, 70.2)
    assert phases(auctioned) == ["halted", "auction-close"]
    pass_time(auctioned, 5.1)
    assert phases(auctioned) == ["closed", "closed"]


def test_a_restart_goes_on_with_the_phase_that_it_finds(auctioned: Floor) -> None:
    day = begun(auctioned, WHOLE)
    pass_time(auctioned, 40)
    day.stop()
    inputs = auctioned.exchange.inputs
    pass_time(auctioned, 100)
    assert auctioned.exchange.inputs == inputs
    begun(auctioned, WHOLE)
    pass_time(auctioned, 59.9)
    assert phases(auctioned) == ["continuous"] * 2
    pass_time(auctioned, 0.2)
    assert phases(auctioned) == ["auction-close"] * 2


def test_a_journal_that_cannot_be_written_ends_the_exchange(auctioned: Floor) -> None:
    def submit(batch: object) -> None:
        raise JournalError("expected to write, was a full disk")

    auctioned.exchange.submit = submit  # type: ignore[method-assign,assignment]
    begun(auctioned, WHOLE)
    pass_time(auctioned, 1.2)
    assert auctioned.failures[0] == "expected to write, was a full disk"
