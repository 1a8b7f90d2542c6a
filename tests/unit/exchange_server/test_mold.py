"""MoldUDP64: the stream in datagrams, and again what was lost."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from deltabook.wire.mold import (
    PAYLOAD_LIMIT_BYTES,
    MoldPacket,
    MoldRequest,
    encode_head,
    encode_packet,
    encode_request,
    parse_packet,
)
from deltabook.wire.soupbin import SEQUENCED
from deltabook.wire.soupbin import encode_packet as soup_packet
from exchange_server.journal import MessageStream, PacketFile
from exchange_server.nasdaq.mold import MoldRequestServer, MoldSender, RequestLimits, datagrams
from tests.generators.mold_receiver import MoldReceiver

GROUP = ("239.192.0.1", 30001)


class Datagrams:
    """The network: remembers what was sent to whom, and how."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, tuple[str, int]]] = []
        self.options: dict[str, Any] = {}
        self.error: OSError | None = None

    def write(self, datagram: bytes, to: tuple[str, int]) -> None:
        if self.error:
            raise self.error
        self.sent.append((datagram, to))

    def setOutgoingInterface(self, address: str) -> None:
        self.options["interface"] = address

    def setTTL(self, ttl: int) -> None:
        self.options["ttl"] = ttl

    def setLoopbackMode(self, mode: bool) -> None:
        self.options["loopback"] = mode

    def take(self) -> list[bytes]:
        sent, self.sent = self.sent, []
        return [datagram for datagram, _ in sent]


class Lab:
    """A stream with a sender and a re-request server."""

    def __init__(self, path: Path, to: tuple[str, int] = GROUP, **limits: Any) -> None:
        self.clock = Clock()
        self.records = PacketFile(path / "feed.itch")
        self.stream = MessageStream(self.records)
        self.messages: list[bytes] = []
        self.is_over = False
        self.network: Any = Datagrams()
        self.sender = MoldSender(self.stream, "S1", self.clock, to, is_over=lambda: self.is_over)
        self.sender.transport = self.network
        self.replies: Any = Datagrams()
        self.server = MoldRequestServer(self.records, "S1", self.clock, RequestLimits(**limits))
        self.server.transport = self.replies

    def say(self, *messages: bytes) -> None:
        self.messages += messages
        self.stream.append(b"".join(soup_packet(SEQUENCED, message) for message in messages), len(messages))

    def ask(self, sequence: int, count: int, host: str = "127.0.0.1", session: str = "S1") -> MoldPacket | None:
        request = encode_request(MoldRequest(session, sequence, count))
        self.server.datagramReceived(request, (host, 4711))
        answers = self.replies.take()
        return parse_packet(answers[0]) if answers else None


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def some(count: int, seed: int = 0) -> list[bytes]:
    chance = random.Random(seed)
    return [chance.randbytes(chance.randint(1, 50)) for _ in range(count)]


# -- packing -------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1500), max_size=60), st.integers(0, 70))
def test_datagrams_are_as_full_as_they_may_be(sizes: list[int], most: int) -> None:
    messages = [bytes([size % 251]) * size for size in sizes]
    packets = b"".join(soup_packet(SEQUENCED, message) for message in messages)
    number, at = 5, 0
    told: list[bytes] = []
    packed = list(datagrams(packets, "S1", 5, most))
    for datagram, count, size in packed:
        packet = parse_packet(datagram)
        assert (packet.sequence, len(packet.messages)) == (number, count)
        assert len(datagram) <= PAYLOAD_LIMIT_BYTES or count == 1
        told += packet.messages
        number, at = number + count, at + size
    assert told == messages[: most or None]
    assert at == sum(len(message) + 3 for message in told)
    for (one, _, _), (other, _, _) in pairwise(packed):
        assert len(one) + 2 + len(parse_packet(other).messages[0]) > PAYLOAD_LIMIT_BYTES


# -- the sender ----------------------------------------------------------------------------------------------------


def test_a_receiver_hears_everything_in_order(lab: Lab) -> None:
    lab.sender.startProtocol()
    receiver = MoldReceiver()
    for burst in (1, 5, 300, 20_000):
        lab.say(*some(burst, burst))
        for _ in range(10):
            lab.clock.advance(0)
    assert {to for _, to in lab.network.sent} == {GROUP}
    for datagram in lab.network.take():
        assert len(datagram) <= PAYLOAD_LIMIT_BYTES
        receiver.take(datagram)
    assert receiver.messages == lab.messages
    assert lab.sender.lost == 0


def test_a_reactor_turn_sends_a_bounded_count(lab: Lab) -> None:
    lab.sender.startProtocol()
    lab.say(*some(20_000))
    meanwhile: list[int] = []
    lab.clock.callLater(0, lambda: meanwhile.append(sum(len(datagram) for datagram, _ in lab.network.sent)))
    lab.clock.advance(0)
    assert 100_000 < meanwhile[0] < 140_000
    assert sum(map(len, lab.network.take())) > 500_000


def test_a_sender_begins_where_the_stream_is(lab: Lab) -> None:
    lab.say(*some(50))
    lab.sender.startProtocol()
    (heartbeat,) = lab.network.take()
    assert parse_packet(heartbeat) == MoldPacket("S1", 51)
    lab.say(b"new")
    lab.clock.advance(0)
    assert parse_packet(lab.network.take()[0]) == MoldPacket("S1", 51, (b"new",))


def test_heartbeats_follow_silence_until_the_session_is_over(lab: Lab) -> None:
    lab.sender.startProtocol()
    lab.network.take()
    lab.say(b"one")
    for _ in range(12):
        lab.clock.advance(0.25)
    assert [parse_packet(d) for d in lab.network.take()] == [
        MoldPacket("S1", 1, (b"one",)),
        MoldPacket("S1", 2),
        MoldPacket("S1", 2),
    ]
    lab.is_over = True
    lab.clock.advance(1)
    assert [parse_packet(d) for d in lab.network.take()] == [MoldPacket("S1", 2, (), is_end=True)]


def test_a_group_is_told_how_far_and_from_where(lab: Lab) -> None:
    lab.sender.startProtocol()
    assert lab.network.options == {"interface": "127.0.0.1", "ttl": 1, "loopback": True}


def test_an_address_alone_is_told_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path, ("127.0.0.1", 30001))
    lab.sender.startProtocol()
    assert lab.network.options == {}
    assert lab.network.sent[0][1] == ("127.0.0.1", 30001)


def test_what_the_network_does_not_take_is_lost_and_counted(lab: Lab) -> None:
    lab.sender.startProtocol()
    lab.network.error = OSError("full")
    lab.say(b"one")
    lab.clock.advance(0)
    lab.network.error = None
    lab.say(b"two")
    lab.clock.advance(0)
    assert (lab.sender.lost, lab.sender.datagrams) == (1, 2)
    receiver = MoldReceiver()
    for datagram in lab.network.take():
        receiver.take(datagram)
    assert receiver.wanted() == MoldRequest("S1", 1, 1)


def test_a_closed_sender_has_sent_everything(lab: Lab) -> None:
    lab.sender.startProtocol()
    lab.say(*some(20_000))
    lab.sender.close()
    lab.sender.stopProtocol()
    receiver = MoldReceiver()
    for datagram in lab.network.take():
        receiver.take(datagram)
    assert receiver.messages == lab.messages
    lab.say(b"late")
    lab.clock.advance(5)
    assert lab.network.take() == []
    assert lab.clock.getDelayedCalls() == []


def test_damaged_messages_are_skipped(lab: Lab) -> None:
    """Receivers notice the gap by the number of the next heartbeat."""
    lab.sender.startProtocol()
    lab.say(*some(20))
    data = lab.records.path.read_bytes()
    lab.records.path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    lab.clock.advance(0)
    lab.network.take()
    lab.clock.advance(2)
    assert parse_packet(lab.network.take()[-1]).next_sequence == 21
    lab.say(b"more")
    lab.sender.close()
    lab.sender.stopProtocol()
    assert lab.clock.getDelayedCalls() == []


# -- the re-request server -----------------------------------------------------------------------------------------


def test_a_reply_is_one_datagram_of_as_many_messages_as_fit(lab: Lab) -> None:
    lab.say(*some(300))
    reply = lab.ask(17, 300)
    assert reply is not None
    assert reply.sequence == 17
    assert reply.messages == tuple(lab.messages[16 : 16 + len(reply.messages)])
    assert 1400 - 52 <= len(encode_packet("S1", 17, reply.messages)) <= 1400
    assert lab.ask(300, 5) == MoldPacket("S1", 300, (lab.messages[-1],))
    assert lab.ask(17, 2) == MoldPacket("S1", 17, tuple(lab.messages[16:18]))
    assert (lab.server.replies, lab.server.unanswered) == (3, 0)


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        bytes(20),
        encode_request(MoldRequest("OTHER", 1, 1)),
        encode_request(MoldRequest("S1", 31, 1)),
        encode_request(MoldRequest("S1", 2**64 - 1, 65_535)),
        encode_head("S1", 0, 1),
    ],
)
def test_what_is_no_request_for_what_there_is_gets_no_answer(lab: Lab, datagram: bytes) -> None:
    lab.say(*some(30))
    lab.server.datagramReceived(datagram, ("127.0.0.1", 4711))
    assert lab.replies.take() == []
    assert lab.server.unanswered == 1


def test_nobody_can_make_the_server_send_more_than_so_much(tmp_path: Path) -> None:
    """Whoever forges the address of somebody else has him sent no more than the limit."""
    lab = Lab(tmp_path, replies_per_s=10, all_replies_per_s=25, hosts=8)
    lab.say(*some(100))

    def answered(asks: int, host: str) -> int:
        return sum(lab.ask(1, 1, host) is not None for _ in range(asks))

    assert answered(50, "10.0.0.1") == 10
    assert answered(50, "10.0.0.2") == 10
    assert answered(50, "10.0.0.3") == 5, "of all together"
    lab.clock.advance(0.5)
    assert answered(50, "10.0.0.1") == 5
    lab.clock.advance(100)
    assert answered(50, "10.0.0.1") == 10, "no more than a second's at once"
    for n in range(100):
        lab.ask(1, 1, f"10.0.1.{n}")
    assert len(lab.server._hosts) == 8


def test_an_answer_that_cannot_be_sent_harms_nobody(lab: Lab) -> None:
    lab.say(b"one")
    lab.replies.error = OSError("no route")
    assert lab.ask(1, 1) is None
    lab.replies.error = None
    assert lab.ask(1, 1) == MoldPacket("S1", 1, (b"one",))
    assert (lab.server.replies, lab.server.unanswered) == (1, 1)


@pytest.mark.parametrize("seed", range(5))
def test_a_receiver_rebuilds_the_stream_over_a_faulty_network(tmp_path: Path, seed: int) -> None:
    lab, chance, receiver = Lab(tmp_path), random.Random(seed), MoldReceiver()
    lab.sender.startProtocol()
    flying: list[bytes] = []
    for turn in range(400):
        if turn < 200:
            lab.say(*some(chance.randint(0, 200), seed + turn))
        lab.is_over = turn >= 200
        lab.clock.advance(0.25)
        for datagram in lab.network.take() + lab.replies.take():
            flying += [datagram] * chance.choice([0, 1, 1, 1, 2])
        chance.shuffle(flying)
        for _ in range(len(flying) // 2 + (turn > 300)):
            if flying:
                receiver.take(flying.pop())
        request = receiver.wanted()
        if request is not None and chance.random() < 0.8:
            lab.server.datagramReceived(encode_request(request), ("127.0.0.1", 1))
    while not receiver.is_over:
        lab.clock.advance(1)
        for datagram in lab.network.take() + lab.replies.take():
            receiver.take(datagram)
        request = receiver.wanted()
        if request is not None:
            lab.server.datagramReceived(encode_request(request), ("127.0.0.1", 1))
    assert receiver.messages == lab.messages


def test_damaged_messages_are_not_sent_again(lab: Lab) -> None:
    lab.say(*some(20))
    assert lab.ask(1, 3) is not None
    data = lab.records.path.read_bytes()
    lab.records.path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert lab.ask(1, 3) is None
    assert lab.server.unanswered == 1
