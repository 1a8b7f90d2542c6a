"""Rows 18 to 23 of docs/features/exchange.md over NASDAQ's protocols: ITCH over SoupBinTCP and UDP, snapshots."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deltabook.wire.itch import parse_snapshot_end
from deltabook.wire.mold import encode_request
from deltabook.wire.soupbin import LoginRequest
from exchange_server.matching.inputs import Cancel, Enter
from exchange_server.nasdaq.mold import MoldRequestServer, MoldSender, RequestLimits
from exchange_server.readers import CHUNK_BYTES
from tests.generators.itch_book import ItchBook
from tests.generators.mold_receiver import MoldReceiver
from tests.generators.soup_lab import SoupFloor, messages, reasons, types


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[SoupFloor]:
    floor = SoupFloor(tmp_path)
    yield floor
    floor.close()


def trade(floor: SoupFloor, chance: random.Random, requests: int) -> None:
    """Orders that meet each other and are cancelled, in turns of the reactor of a few batches each."""
    while requests > 0:
        for _ in range(chance.randint(1, 3)):
            count = chance.randint(1, 30)
            requests -= count
            first = floor.exchange.next_time_ns(count=count)
            newest = floor.exchange.market.next_order_id
            floor.submit(*(request(chance, first + n, newest) for n in range(count)))
        floor.clock.advance(0)


def request(chance: random.Random, time_ns: int, newest: int) -> Enter | Cancel:
    broker = chance.randint(1, 9)
    if chance.random() < 0.3 and newest > 1:
        return Cancel(time_ns, 0, broker, 0, chance.randrange(1, newest))
    symbol, side = chance.choice(("ACME", "GLOBEX")), chance.choice("BS")
    return Enter(time_ns, 0, broker, 0, symbol, side, chance.randint(1, 9), chance.randint(95, 105))


def test_row_18_heartbeats_follow_silence_and_bursts(floor: SoupFloor) -> None:
    connection, wire = floor.connect(LoginRequest(sequence=0))
    wire.take()
    floor.quote(3)
    assert types(wire.take()).endswith("SSSH")
    floor.pass_time(0.75, connection)
    assert wire.take() == []
    floor.pass_time(0.25, connection)
    assert types(wire.take()) == "H"
    floor.pass_time(20, connection)
    assert 18 <= len(wire.take()) <= 20


def test_row_18_datagrams_have_heartbeats_with_the_next_number(floor: SoupFloor) -> None:
    floor.quote(3)
    network = Network(floor)
    network.sender.startProtocol()
    for _ in range(8):
        floor.clock.advance(0.5)
    receiver = MoldReceiver()
    assert len(network.sent) == 5
    for datagram in network.sent:
        receiver.take(datagram)
    wanted = receiver.wanted()
    assert wanted is not None
    assert (wanted.sequence, wanted.count) == (1, floor.feed.next_number - 1)


@pytest.mark.parametrize("seed", range(3))
def test_row_19_a_reconnect_misses_and_repeats_nothing(floor: SoupFloor, seed: int) -> None:
    chance = random.Random(seed)
    heard: list[bytes] = []
    while len(heard) < 3_000:
        connection, wire = floor.connect(LoginRequest("joe", "secret", "SESSION1", len(heard) + 1))
        for _ in range(chance.randint(0, 4)):
            trade(floor, chance, 100)
        wire.writes = wire.writes[: chance.randint(0, len(wire.writes))]  # the rest was lost on its way
        heard += messages(wire.take())
        connection.connectionLost()
    assert heard == floor.whole_feed()[: len(heard)]


def test_row_19_a_gap_is_filled_while_the_market_trades(floor: SoupFloor) -> None:
    chance = random.Random(5)
    trade(floor, chance, 3_000)
    last = floor.feed.next_number
    wires = {first: floor.connect(LoginRequest(sequence=first))[1] for first in (1, 2, last // 2, last - 1, last)}
    trade(floor, chance, 1_000)
    feed = floor.whole_feed()
    for first, wire in wires.items():
        assert messages(wire.take()) == feed[first - 1 :]


@pytest.mark.parametrize("seed", range(2))
def test_row_19_what_datagrams_lose_is_asked_for_again(floor: SoupFloor, seed: int) -> None:
    chance, network, receiver = random.Random(seed), Network(floor), MoldReceiver()
    network.sender.startProtocol()
    for turn in range(200):
        if turn < 100:
            trade(floor, chance, 30)
        floor.clock.advance(0.25)
        for datagram in network.take():
            if chance.random() < (0.6 if turn < 100 else 1):
                receiver.take(datagram)
        wanted = receiver.wanted()
        if wanted is not None:
            network.requests.datagramReceived(encode_request(wanted), ("127.0.0.1", 1))
    assert receiver.messages == floor.whole_feed()
    assert receiver.wanted() is None
    assert network.requests.replies > 20


@pytest.mark.parametrize("seed", range(4))
def test_row_20_snapshot_plus_feed_is_the_whole_feed(floor: SoupFloor, seed: int) -> None:
    """Whenever it is taken, and however much is traded while it is written and sent."""
    chance = random.Random(seed)
    trade(floor, chance, chance.choice((1, 50, 2_000)))
    connection, wire = floor.connect(LoginRequest(), floor.glimpse)
    if chance.random() < 0.5:
        connection.pauseProducing()
    trade(floor, chance, 300)
    connection.resumeProducing()
    *snapshot, end = messages(wire.take())
    _, joined = floor.connect(LoginRequest(sequence=parse_snapshot_end(end)))
    trade(floor, chance, 300)
    book = ItchBook().take(snapshot)
    book.take(messages(joined.take()))
    whole = ItchBook().take(floor.whole_feed())
    assert book.orders == whole.orders
    assert book.queues() == whole.queues(), "each price in the order of time"
    assert parse_snapshot_end(end) > 1


def test_row_20_orders_of_a_price_come_in_their_priority(floor: SoupFloor) -> None:
    trade(floor, random.Random(9), 2_000)
    _, wire = floor.connect(LoginRequest(), floor.glimpse)
    floor.clock.advance(0)
    *snapshot, _ = messages(wire.take())
    numbers = list(ItchBook().take(snapshot).orders)
    books = [floor.exchange.market.books[symbol] for symbol in ("ACME", "GLOBEX")]
    sides = [levels for book in books for levels in (book.bids, book.asks)]
    assert numbers == [order.feed_id for levels in sides for order in levels.in_priority()]
    assert len(numbers) > 50


def test_row_21_a_burst_is_one_write_per_listener(floor: SoupFloor) -> None:
    floor.quote()
    wires = [floor.connect(LoginRequest())[1] for _ in range(16)]
    for wire in wires:
        wire.take()
    for _ in range(5):
        floor.quote(7, turn=False)
    floor.clock.advance(0)
    assert [len(wire.writes) for wire in wires] == [1] * 16
    assert all(wire.writes[0] is wires[0].writes[0] for wire in wires)


def test_row_22_a_stalled_listener_costs_no_memory(floor: SoupFloor) -> None:
    slow, wire = floor.connect(LoginRequest())
    _, quick = floor.connect(LoginRequest())
    slow.pauseProducing()
    wire.take()
    trade(floor, random.Random(1), 5_000)
    assert wire.writes == []
    assert messages(quick.take()) == floor.whole_feed()
    slow.resumeProducing()
    assert max(map(len, wire.writes)) <= CHUNK_BYTES + 3
    assert floor.whole_feed()[-1] in messages(wire.take())


@pytest.mark.parametrize("limit", [{"lag_bytes": 4_000}, {"stall_s": 3.0}])
def test_row_22_a_slow_listener_is_cut_with_a_reason(tmp_path: Path, limit: dict[str, Any]) -> None:
    floor = SoupFloor(tmp_path, **limit)
    slow, wire = floor.connect(LoginRequest())
    other, quick = floor.connect(LoginRequest())
    slow.pauseProducing()
    trade(floor, random.Random(2), 500)
    floor.pass_time(3, slow, other)
    assert wire.aborting
    assert messages(quick.take()) == floor.whole_feed()
    assert not quick.disconnecting
    assert floor.server.listeners == 1
    floor.close()


def test_row_23_a_restart_sends_the_same_messages(tmp_path: Path) -> None:
    floor = SoupFloor(tmp_path)
    trade(floor, random.Random(3), 500)
    floor.exchange.snapshot()
    trade(floor, random.Random(3), 500)
    before, session = floor.whole_feed(), floor.exchange.session
    _, wire = floor.connect(LoginRequest())
    heard = messages(wire.take())
    floor.close()
    again = SoupFloor(tmp_path)
    assert again.whole_feed() == before == heard
    _, wire = again.connect(LoginRequest(session=session, sequence=len(heard) + 1))
    _, looking = again.connect(LoginRequest(), again.glimpse)
    trade(again, random.Random(4), 1_000)
    heard += messages(wire.take())
    assert heard == again.whole_feed()
    *snapshot, end = messages(looking.take())
    assert ItchBook().take(snapshot).orders == ItchBook().take(heard[: parse_snapshot_end(end) - 1]).orders
    assert reasons(wire.take()) == ""
    again.close()


class Network:
    """A sender of datagrams and a re-request server over an exchange's feed, and what both sent."""

    def __init__(self, floor: SoupFloor) -> None:
        self.sent: list[bytes] = []
        stream = floor.exchange.feeds["itch"]
        self.sender = MoldSender(stream, "SESSION1", floor.clock, ("127.0.0.1", 30_001))
        self.requests = MoldRequestServer(stream.records, "SESSION1", floor.clock, RequestLimits())
        self.sender.transport = self.requests.transport = self

    def write(self, datagram: bytes, to: tuple[str, int]) -> None:
        """On its way."""
        del to
        self.sent.append(datagram)

    def take(self) -> list[bytes]:
        """What was sent since the last call."""
        sent, self.sent = self.sent, []
        return sent
