"""GLIMPSE: the books of one moment, and where to join the feed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from deltabook.wire.itch import decode_message, parse_snapshot_end
from deltabook.wire.soupbin import LoginAccepted, LoginRejected, LoginRequest, PacketSplitter, parse_login_reply
from exchange_server.matching.inputs import Cancel, Enter, OpenAccount, Phase, Reduce
from exchange_server.matching.order import HIDDEN, ICEBERG
from exchange_server.nasdaq.glimpse import Snapshot
from tests.generators.soup_lab import BEGINNING, SoupFloor, messages, reasons, types


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[SoupFloor]:
    floor = SoupFloor(tmp_path)
    yield floor
    floor.close()


def enter(floor: SoupFloor, side: str, volume: int, price: int, **more: Any) -> int:
    symbol = more.pop("symbol", "ACME")
    (order_id,) = floor.submit(Enter(floor.exchange.next_time_ns(), 0, 4, 0, symbol, side, volume, price, **more))
    assert isinstance(order_id, int)
    return order_id


def look(floor: SoupFloor, login: LoginRequest | None = None) -> tuple[list[bytes], Any, Any]:
    """The messages of a snapshot, and the connection's ends."""
    connection, wire = floor.connect(login or LoginRequest(), floor.glimpse)
    floor.clock.advance(0)
    reply, *rest = wire.take()
    assert parse_login_reply(reply) == LoginAccepted("SESSION1", 1)
    assert types(rest)[-2:] == "SZ"
    return messages(rest), connection, wire


def adds(found: list[bytes]) -> list[tuple[Any, ...]]:
    fields = [decode_message(message).fields for message in found if message[:1] in b"AF"]
    names = ("order_reference_number", "stock", "buy_sell_indicator", "shares", "price", "attribution")
    return [tuple(f.get(name) for name in names) for f in fields]


def test_a_snapshot_is_directory_states_orders_and_join_point(floor: SoupFloor) -> None:
    first = enter(floor, "B", 5, 98)
    best = enter(floor, "B", 6, 99)
    second = enter(floor, "B", 7, 98)
    enter(floor, "B", 50, 100, flags=HIDDEN)
    berg = enter(floor, "S", 9, 102, flags=ICEBERG, display=4)
    behind = enter(floor, "S", 3, 102)
    other = enter(floor, "S", 3, 10_000, symbol="GLOBEX")
    enter(floor, "B", 4, 102)
    floor.submit(Reduce(floor.exchange.next_time_ns(), 0, 4, 0, second, 2))
    floor.submit(Phase(floor.exchange.next_time_ns(), "GLOBEX", "halted", "T1"))
    found, _, _ = look(floor)
    assert b"".join(message[:1] for message in found) == b"RHRH" + b"F" * 6 + b"G"
    states = [decode_message(message).fields["trading_state"] for message in found if message[:1] == b"H"]
    assert states == ["T", "H"]
    newest = int(floor.exchange.market.next_order_id) - 1
    assert berg < newest, "the iceberg's next part has a number of its own"
    assert adds(found) == [
        (best, "ACME", "B", 6, 9900, "4"),
        (first, "ACME", "B", 5, 9800, "4"),
        (second, "ACME", "B", 5, 9800, "4"),
        (behind, "ACME", "S", 3, 10200, "4"),
        (newest, "ACME", "S", 4, 10200, "4"),
        (other, "GLOBEX", "S", 300, 250_000, "4"),
    ]
    assert parse_snapshot_end(found[-1]) == floor.feed.next_number


def test_a_snapshot_of_nothing_joins_at_the_first_message(floor: SoupFloor) -> None:
    found, _, _ = look(floor)
    assert list(map(parse_snapshot_end, found)) == [1]
    floor.submit(OpenAccount(floor.exchange.next_time_ns(), "text:1", "text", 1))
    found, _, _ = look(floor)
    assert list(map(parse_snapshot_end, found)) == [1], "it is still fresh"
    floor.clock.advance(2)
    found, _, _ = look(floor)
    assert [message[:1] for message in found] == [b"R", b"H", b"R", b"H", b"G"]
    assert parse_snapshot_end(found[-1]) == BEGINNING + 1


def test_the_session_of_a_snapshot_ends_with_it(floor: SoupFloor) -> None:
    floor.quote()
    _, connection, wire = look(floor)
    assert not wire.disconnecting, "what was sent must arrive"
    floor.pass_time(5, connection)
    assert not wire.disconnecting, "the client may close it by itself"
    floor.pass_time(0.5, connection)
    assert wire.disconnecting
    assert not wire.aborting
    assert types(wire.take()) == "", "nothing follows the end of a session"


def test_orders_changed_during_a_snapshot_are_as_they_were(floor: SoupFloor) -> None:
    ids = [enter(floor, "S", 9, 102, flags=ICEBERG, display=4) for _ in range(3_000)]
    snapshot = Snapshot(floor.exchange.market, floor.encoder, floor.feed.next_number)
    slices = 0
    while snapshot.fill():
        slices += 1
        enter(floor, "B", 5, 102)
        floor.submit(Cancel(floor.exchange.next_time_ns(), 0, 4, 0, ids[-slices]))
    assert slices >= 2
    found: list[bytes] = []
    while snapshot.size_bytes > (offset := sum(len(message) + 3 for message in found)):
        found += messages(PacketSplitter().split(snapshot.read(offset, 1 << 17)))
    assert [number for number, *_ in adds(found)] == ids
    assert {shares for _, _, _, shares, *_ in adds(found)} == {4}


def test_a_large_snapshot_yields_the_reactor_between_slices(floor: SoupFloor) -> None:
    floor.quote(10_000)
    _, wire = floor.connect(LoginRequest(), floor.glimpse)
    turns = 0

    def turn(clock: Clock) -> None:
        nonlocal turns
        turns += 1
        clock.callLater(0, turn, clock) if types(wire.splitter.split(b"".join(wire.writes)))[-1:] != "Z" else None

    floor.clock.callLater(0, turn, floor.clock)
    floor.clock.advance(0)
    assert turns >= 10
    assert len(wire.writes) >= 10
    assert max(map(len, wire.writes)) < 64 * 1024


def test_clients_that_come_together_share_a_snapshot(floor: SoupFloor) -> None:
    floor.quote()
    _, one = floor.connect(LoginRequest(), floor.glimpse)
    floor.quote(5)
    _, other = floor.connect(LoginRequest(), floor.glimpse)
    floor.clock.advance(0)
    ours, theirs = messages(one.take()), messages(other.take())
    assert ours == theirs
    assert parse_snapshot_end(theirs[-1]) == BEGINNING + 2
    floor.clock.advance(1)
    late, _, _ = look(floor)
    assert parse_snapshot_end(late[-1]) == BEGINNING + 7


def test_snapshots_for_slow_clients_are_bounded(floor: SoupFloor) -> None:
    floor.quote()
    ends = []
    for _ in range(6):
        connection, wire = floor.connect(server=floor.glimpse)
        connection.dataReceived(b"\0\x2fL" + b" " * 46)
        connection.pauseProducing()
        floor.quote()
        floor.clock.advance(1.5)
        ends.append((connection, wire))
    assert len(floor.glimpse.followed) == 4
    for connection, wire in ends:
        connection.resumeProducing()
        assert types(wire.take())[-2:] == "SZ"


def test_a_snapshot_cannot_be_read_from_its_middle(floor: SoupFloor) -> None:
    for login, words in (
        (LoginRequest(sequence=2), "expected sequence 1, was 2"),
        (LoginRequest(session="OTHER"), "expected session SESSION1, was OTHER"),
    ):
        _, wire = floor.connect(login, floor.glimpse)
        reply, *rest = wire.take()
        assert parse_login_reply(reply) == LoginRejected("S")
        assert words in reasons(rest)


def test_a_server_that_closes_leaves_nothing_to_do(floor: SoupFloor) -> None:
    floor.quote(5_000)
    connection, wire = floor.connect(LoginRequest(), floor.glimpse)
    floor.glimpse.close()
    floor.server.close()
    connection.connectionLost()
    assert wire.disconnecting
    assert floor.clock.getDelayedCalls() == []


def test_no_snapshot_is_made_for_nobody(floor: SoupFloor, monkeypatch: pytest.MonkeyPatch) -> None:
    slices = 0
    fill = Snapshot.fill

    def counted(snapshot: Snapshot) -> bool:
        nonlocal slices
        slices += 1
        return fill(snapshot)

    monkeypatch.setattr(Snapshot, "fill", counted)
    floor.quote(10_000)
    for _ in range(3):
        connection, _ = floor.connect(LoginRequest(), floor.glimpse)
        connection.connectionLost()
        floor.clock.advance(1.5)
    assert slices == 0
    found, _, _ = look(floor)
    assert len(adds(found)) == 10_000


def test_clients_share_an_incomplete_snapshot_of_any_age(floor: SoupFloor) -> None:
    floor.quote(10_000)
    floor.connect(LoginRequest(), floor.glimpse)
    wires = []

    def come_late() -> None:
        wires.append(floor.connect(LoginRequest(), floor.glimpse)[1])
        assert len(floor.glimpse.followed) == 1

    floor.clock.callLater(1.0, come_late)
    floor.clock.advance(1.0)
    assert types(wires[0].take())[-2:] == "SZ"
    look(floor)
    assert len(floor.glimpse.followed) == 2


def test_orders_that_fit_no_message_are_left_out_after_the_feed(floor: SoupFloor) -> None:
    """An order that is entered after event C has ended the feed is unknown to the encoder."""
    small = enter(floor, "B", 5, 98)
    floor.clock.advance(80 * 3_600)
    large = enter(floor, "B", 2**40, 97)
    assert floor.encoder.is_over
    assert large not in floor.encoder.undisplayed_ids
    found, _, _ = look(floor)
    assert [order_id for order_id, *_ in adds(found)] == [small]
    assert parse_snapshot_end(found[-1]) == floor.feed.next_number
