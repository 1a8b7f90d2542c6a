"""Replays: determined by clock and file, continued after a restart, and changed while they run."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire.symbols import Instrument
from exchange_server.day import LATEST_NS
from exchange_server.errors import JournalError, OperationError
from exchange_server.matching.inputs import Enter, MarketRules
from exchange_server.replay import DbtoasterLoader, Loader
from tests.generators.flow_run import FlowRun

SECOND_NS = 10**9


def rules() -> MarketRules:
    return MarketRules(
        instruments=(Instrument("PAST"), Instrument("ACME")), replay_symbols=("PAST",), replay_mode="as-recorded",
        first_order_id=10**17,
    )  # fmt: skip


def trace(path: Path, count: int) -> Loader:
    """An order a second from the first on."""
    file = path / "trace.csv"
    file.write_text("".join(f"{1000 * n},{n},B,5,{100 + n}\n" for n in range(1, count + 1)))
    return DbtoasterLoader(file, "PAST")


def life(path: Path, *, running: bool = False, speed: float = 1.0) -> FlowRun:
    return FlowRun(path / "journal", rules(), speed=speed, running=running)


def times(feed: bytes) -> list[int]:
    return [int(line.split(b",")[1]) for line in feed.splitlines()]


def test_a_paced_replay_follows_the_market_clock(tmp_path: Path) -> None:
    run = life(tmp_path, speed=10.0)
    run.play(trace(tmp_path, 30), 10.0)
    run.clock.pump([0.0, *[0.1] * 10])
    assert run.market.orders in {10, 11}
    run.clock.pump([0.1] * 20)
    assert run.market.orders == 30
    assert times(run.close()) == [n * SECOND_NS for n in range(1, 31)]


def test_a_replay_goes_on_behind_its_last_journalled_record(tmp_path: Path) -> None:
    loader = trace(tmp_path, 2000)
    run = life(tmp_path)
    run.behind_bytes = 10**9
    player = run.play(loader)
    while player.position < 700:
        run.clock.advance(0.02)
    player.stop()
    run.close()
    again = life(tmp_path)
    player = again.player(loader, None)
    assert 700 <= player.position < 2000
    player.start()
    again.clock.pump([0.0] * 50)
    assert player.finished
    assert again.market.replay_counts == {}, "records were played twice"
    ids = [int(line.split(b",")[2]) for line in again.close().splitlines()]
    assert ids == list(range(1, 2001))


def test_a_full_speed_replay_waits_for_lagging_listeners(tmp_path: Path) -> None:
    run = life(tmp_path)
    run.behind_bytes = 10**9
    player = run.play(trace(tmp_path, 2000))
    run.clock.advance(0)
    assert run.batches == [500]
    run.behind_bytes = 0
    run.clock.pump([0.02] * 5)
    assert player.finished
    run.close()


def test_an_unreadable_file_stops_the_exchange_with_a_reason(tmp_path: Path) -> None:
    run = life(tmp_path)
    file = tmp_path / "trace.csv.gz"
    file.write_bytes(b"\x1f\x8b and nothing that can be decompressed")
    run.play(DbtoasterLoader(file, "PAST"))
    run.clock.pump([0.0] * 5)
    assert len(run.failed) == 1
    assert "trace.csv.gz" in run.failed[0]
    run.close()


def test_a_pause_stops_the_clock_and_not_live_orders(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 30), 1.0)
    run.clock.pump([0.0, *[0.5] * 10])
    player.pause()
    stood_ns, orders = run.market_clock.now_ns(), run.market.orders
    run.clock.pump([0.5] * 100)
    assert (run.market_clock.now_ns(), run.market.orders) == (stood_ns, orders)
    assert run.exchange.submit([Enter(run.exchange.next_time_ns(), 0, 1, 0, "ACME", "B", 1, 100)]) != [0]
    player.resume()
    run.clock.pump([0.0, *[0.5] * 4])
    assert run.market.orders == orders + 1 + 2
    assert run.market_clock.now_ns() == stood_ns + 2 * SECOND_NS
    run.close()


def test_a_player_that_is_paused_before_it_starts_plays_nothing(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.player(trace(tmp_path, 5), 1.0)
    player.pause()
    run.market_clock.start()
    player.start()
    run.clock.pump([1.0] * 10)
    assert run.market.orders == 0
    player.resume()
    run.clock.pump([1.0] * 10)
    assert run.market.orders == 5
    run.close()


def test_the_speed_changes_while_it_plays(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 1000), 1.0)
    run.clock.pump([0.0, *[1.0] * 9])
    assert run.market.orders == 10
    player.set_speed(20.0)
    run.clock.pump([0.0, *[0.5] * 10])
    assert run.market.orders == 110
    player.set_speed(0.5)
    run.clock.pump([0.0, *[1.0] * 10])
    assert run.market.orders == 115
    player.set_speed(None)
    run.clock.pump([0.0] * 5)
    assert player.finished
    run.close()


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf")])
def test_a_speed_that_is_none_is_refused(tmp_path: Path, speed: float) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 3), 1.0)
    with pytest.raises(OperationError, match="expected a replay speed above 0"):
        player.set_speed(speed)
    assert player.speed == 1.0
    run.close()


def test_a_seek_plays_earlier_records_at_once_then_by_speed(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 3000), 1.0)
    run.clock.pump([0.0, 1.0])
    player.seek(2001)
    assert player.is_seeking
    run.clock.pump([0.0] * 10)
    assert (player.position, run.market.orders, player.is_seeking) == (2000, 2000, False)
    run.clock.pump([1.0] * 3)
    assert player.position == 2003
    run.close()


def test_a_seek_to_a_time_sets_the_clock_to_it(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 3000), 1.0)
    run.clock.advance(0)
    target_ns = 1500 * SECOND_NS + 500_000_000
    player.seek_time(target_ns)
    run.clock.pump([0.0] * 10)
    assert player.position == 1500
    assert run.market_clock.now_ns() == target_ns
    player.seek_time(1600 * SECOND_NS)
    run.clock.pump([0.0] * 3)
    assert player.position in {1599, 1600}, "a record of that very time is the next, and due"
    run.close()


def test_a_paused_replay_seeks_and_stays_paused(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 3000), 1.0)
    run.clock.advance(0)
    player.pause()
    player.seek(1001)
    run.clock.pump([1.0] * 20)
    assert player.position == 1000
    assert player.is_paused
    assert run.market_clock.now_ns() == 1000 * SECOND_NS
    run.close()


def test_a_seek_beyond_the_end_plays_all_of_it(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 700), 1.0)
    run.clock.advance(0)
    player.seek(10**6)
    run.clock.pump([0.0] * 10)
    assert player.finished
    assert player.position == 700
    run.close()


def test_a_seek_to_the_end_of_time_leaves_times_for_requests(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 700), 1.0)
    run.clock.advance(0)
    player.seek_time(2**63 - 1)
    run.clock.pump([0.0] * 10)
    assert player.position == 700
    assert run.market_clock.now_ns() == LATEST_NS
    run.close()


def test_a_seek_backwards_is_refused_with_both_places(tmp_path: Path) -> None:
    run = life(tmp_path)
    player = run.play(trace(tmp_path, 30), 1.0)
    run.clock.pump([0.0, *[1.0] * 9])
    with pytest.raises(OperationError, match="expected a record after 10, was 10: a replay only goes forward"):
        player.seek(10)
    with pytest.raises(OperationError, match="expected a time after"):
        player.seek_time(9 * SECOND_NS)
    assert not player.is_seeking
    run.close()


def test_a_journal_that_cannot_be_written_stops_the_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = life(tmp_path)
    player = run.player(trace(tmp_path, 30), None)

    def fail(batch: object) -> list[int | str]:
        raise JournalError("expected room on the disk, was none")

    monkeypatch.setattr(run.exchange, "submit", fail)
    player.start()
    run.clock.pump([0.0] * 5)
    assert run.failed == ["expected room on the disk, was none"]
    run.exchange.close()
