"""Rows 17 to 19 and 21 to 23 of docs/features/exchange.md: the sequenced feed as text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltabook.wire import text
from exchange_server.matching.inputs import Enter
from tests.generators.text_floor import Floor, sequenced


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    floor = Floor(tmp_path)
    yield floor
    floor.close()


def messages(lines: list[str]) -> list[str]:
    """The numbered lines, as they came."""
    return [line for line in lines if line[0] not in "AJ" and ",H," not in line]


def trade(floor: Floor, chance: random.Random, requests: int) -> None:
    """Random orders of both sides, in turns of a few batches each."""
    while requests > 0:
        for _ in range(chance.randint(1, 3)):
            batch = min(requests, chance.randint(1, 30))
            requests -= batch
            floor.exchange.submit([floor.timed(random_order(chance)) for _ in range(batch)])
        floor.clock.advance(0)


def random_order(chance: random.Random) -> Enter:
    broker, symbol, side = chance.randint(1, 9), chance.choice(("ACME", "GLOBEX")), chance.choice("BS")
    return Enter(0, 0, broker, 0, symbol, side, chance.randint(1, 9), chance.randint(95, 105))


@pytest.mark.parametrize("seed", range(3))
def test_row_17_numbers_have_no_gaps_and_times_never_fall(floor: Floor, seed: int) -> None:
    _, wire = floor.connect("1,,1")
    trade(floor, random.Random(seed), 500)
    found = [text.parse_feed_message(line.encode()) for line in messages(wire.take())]
    assert [m.sequence for m in found] == list(range(1, floor.next_number))
    assert len(found) > 500
    times = [m.time_ns for m in found]
    assert times == sorted(times)
    assert set("BSEF") <= {m.action for m in found}


def test_row_17_a_number_is_one_message_for_all_clients(floor: Floor) -> None:
    _, live = floor.connect("1")
    trade(floor, random.Random(1), 300)
    _, late = floor.connect("1,,1")
    assert messages(live.take()) == messages(late.take())


def test_row_18_a_heartbeat_ends_every_burst(floor: Floor) -> None:
    _, wire = floor.connect("1")
    wire.take()
    for turn in range(1, 4):
        floor.quote(turn)
        lines = wire.take()
        assert sequenced(lines)[-1] + 1 == floor.next_number
        assert [line.split(",")[0] for line in lines if ",H," in line] == [str(floor.next_number)]
        assert ",H," in lines[-1]


def test_row_18_silence_is_broken_every_second(floor: Floor) -> None:
    _, wire = floor.connect("1")
    floor.quote()
    wire.take()
    floor.clock.pump([0.25] * 12)
    beats = [text.parse_feed_message(line.encode()) for line in wire.take()]
    assert [(m.action, m.sequence) for m in beats] == [("H", 2)] * 3
    floor.quote()
    (after,) = (text.parse_feed_message(line.encode()) for line in messages(wire.take()))
    assert [m.time_ns for m in beats] == sorted(m.time_ns for m in beats)
    assert beats[-1].time_ns <= after.time_ns


@pytest.mark.parametrize("seed", range(3))
def test_row_19_a_listener_resumes_at_any_number(floor: Floor, seed: int) -> None:
    chance = random.Random(seed)
    _, whole = floor.connect("1,,1")
    trade(floor, chance, 2_000)
    wires = {}
    for number in (1, 2, floor.next_number - 1, *chance.sample(range(1, floor.next_number), 12), floor.next_number):
        floor.exchange.submit([floor.timed(random_order(chance))])  # which nobody was sent yet
        wires[number] = floor.connect(f"1,SESSION1,{number}")[1]
        trade(floor, chance, 20)
    everything = messages(whole.take())
    for number, wire in wires.items():
        lines = wire.take()
        assert lines[0] == f"A,SESSION1,{number}"
        assert messages(lines) == everything[number - 1 :]


def test_row_19_what_is_not_there_yet_is_refused(floor: Floor) -> None:
    floor.quote(3)
    _, wire = floor.connect("1,SESSION1,5")
    assert wire.take() == ["J,sequence,expected a sequence up to 4 was 5"]
    assert wire.disconnecting


def test_row_21_a_burst_is_encoded_once_and_written_once(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds: list[list[bytes]] = []
    for _ in range(16):
        _, wire = floor.connect("1")
        feeds.append([])
        monkeypatch.setattr(wire, "write", feeds[-1].append)
    for _ in range(2):  # two batches of one turn
        floor.exchange.submit([floor.timed(Enter(0, 0, 4, 0, "ACME", "B", 1, 50)) for _ in range(20)])
    floor.clock.advance(0)
    assert [len(writes) for writes in feeds] == [1] * 16
    assert all(writes[0] is feeds[0][0] for writes in feeds)
    records = floor.exchange.feeds["text"].records
    assert feeds[0][0].rsplit(b"\n", 2)[0] + b"\n" == records.read(0, 1 << 20)


def test_row_22_a_stalled_listener_is_cut_alone(tmp_path: Path) -> None:
    floor = Floor(tmp_path, lag_bytes=5_000)
    slow, stuck = floor.connect("1")
    _, other = floor.connect("1")
    broker, told = floor.connect("0,7")
    slow.pauseProducing()
    stuck.clear()
    for number in range(1, 400):
        broker.dataReceived(b"%d,0,0,7,B,1,90,ACME\n" % number)
        floor.clock.advance(0)
        assert stuck.value() == b"", "nothing is queued for it"
    assert stuck.aborting
    assert sequenced(other.take()) == list(range(1, 400))
    assert sequenced(told.take()) == list(range(1, 400))
    _, again = floor.connect("1,,1")
    assert sequenced(again.take()) == list(range(1, 400))
    floor.close()


def test_row_22_a_slow_listener_is_served_from_disk(floor: Floor) -> None:
    slow, wire = floor.connect("1,,1")
    for _ in range(5):
        slow.pauseProducing()
        wire.writes = 0
        floor.quote(1_000)
        assert wire.writes == 0
        slow.resumeProducing()
    assert sequenced(wire.take()) == list(range(1, floor.next_number))


def test_row_22_who_takes_nothing_at_all_is_cut_after_a_while(tmp_path: Path) -> None:
    floor = Floor(tmp_path, stall_s=30)
    slow, stuck = floor.connect("1")
    _, other = floor.connect("1")
    slow.pauseProducing()
    floor.clock.pump([1.0] * 31)
    assert (stuck.aborting, other.aborting) == (True, False)
    floor.close()


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_row_23_a_restart_continues_with_the_same_bytes(tmp_path: Path, with_snapshot: bool) -> None:
    chance = random.Random(5)
    floor = Floor(tmp_path)
    _, whole = floor.connect("1,,1")
    slow, behind = floor.connect("1,,1")
    trade(floor, chance, 300)
    slow.pauseProducing()
    trade(floor, chance, 300)
    before, seen = messages(whole.take()), messages(behind.take())
    assert len(seen) < len(before)
    if with_snapshot:
        floor.exchange.snapshot()
    trade(floor, chance, 50)
    before += messages(whole.take())
    floor.exchange.close()  # as a kill would: nobody is told

    again = Floor(tmp_path)
    _, late = again.connect("1,SESSION1,1")
    _, continued = again.connect(f"1,SESSION1,{len(seen) + 1}")
    trade(again, chance, 100)
    everything = messages(late.take())
    assert everything[: len(before)] == before
    assert [int(line.split(",")[0]) for line in everything] == list(range(1, again.next_number))
    assert seen + messages(continued.take()) == everything
    again.close()
