"""Clients that we did not write listen to the exchange's ITCH feed over real sockets; and receivers of datagrams."""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import itch.parser
import pytest

from deltabook.wire.itch import frame, parse_snapshot_end
from deltabook.wire.mold import encode_request
from deltabook.wire.soupbin import SEQUENCED, LoginRequest, PacketSplitter, encode_login, encode_packet
from tests.generators.itch_book import ItchBook
from tests.generators.itch_peers import PeerBook
from tests.generators.mold_receiver import MoldReceiver
from tests.generators.soup_client import SoupClient
from tests.integration._processes import DEADLINE_S, Running, exchange

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]

FLOW = ["--itch-port", "0", "--rate", "1500", "--seed", "7"]
TAILED = re.compile(r"\d+ : (b.*)")


def itch_feed(port: int, until: int) -> list[bytes]:
    """What a listener reads that asks for everything up to a message, with nothing but a socket."""
    told: list[bytes] = []
    splitter = PacketSplitter()
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(encode_login(LoginRequest()))
        while len(told) < until and (data := connection.recv(1 << 16)):
            told += [packet.payload for packet in splitter.split(data) if packet.type == SEQUENCED]
    return told


class Listener(SoupClient):
    """NASDAQ's own client, told the feed."""

    def __init__(self) -> None:
        super().__init__("joe", "secret", DEADLINE_S)

    async def hear(self, until: int) -> None:
        """Wait until so many messages have been told."""
        await self.hear_until(lambda: len(self.told) >= until)


async def listen_through_everything(directory: Path) -> tuple[list[bytes], list[bytes]]:
    """What the client is told over its own loss of connection, the exchange's death, and a clean stop; and the feed."""
    listener = Listener()
    with exchange(directory, *FLOW) as market:
        port, session = market.ready().ports["itch"], str(market.figures()["session"])
        await listener.connect(port)
        await listener.hear(600)
        await listener.cut()
        with pytest.raises(ConnectionRefusedError):
            await listener.connect(port, "OTHER")
        await listener.connect(port, session)
        await listener.hear(1500)
        await asyncio.to_thread(market.kill)
        await listener.closed()
    again = [*FLOW[2:], "--itch-port", str(port)]
    with exchange(directory, *again) as market:
        market.ready()
        await listener.connect(port, session)
        await listener.hear(3000)
        await asyncio.to_thread(market.stop)
        await listener.closed()
    with exchange(directory, *again, "--agents", "none") as market:
        market.ready()
        newest = int(market.figures()["itch_sequence"])
        await listener.connect(port, session)
        await listener.hear(newest)
        await listener.log_out()
        return listener.told, await asyncio.to_thread(itch_feed, port, newest)


def test_nasdaqs_client_misses_nothing_over_kills(tmp_path: Path) -> None:
    told, feed = asyncio.run(listen_through_everything(tmp_path))
    assert len(told) >= 3000
    assert told == feed
    book = ItchBook().take(feed)
    assert sorted(book.stocks.values()) == ["ACME", "GLOBEX", "INITECH"]
    assert book.events == ["O", "S", "Q"]
    assert book.trades
    # And a parser that is not ours reads every message of it.
    decoded = list(itch.parser.MessageParser().parse_stream(b"".join(map(frame, feed))))
    assert [message.to_bytes() for message in decoded] == feed


def tail(market: Running, *options: str) -> subprocess.Popen[str]:
    """NASDAQ's command that prints a feed."""
    code = "from nasdaq_protocols.soup.tools_soup_tail import command; command()"
    where = ["-h", "127.0.0.1", "-p", str(market.ready().ports["itch"]), "-U", "joe", "-P", "secret"]
    return subprocess.Popen(
        [sys.executable, "-u", "-c", code, *where, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )


def test_nasdaqs_tail_prints_the_feed_from_a_number_on(tmp_path: Path) -> None:
    with exchange(tmp_path, *FLOW) as market, tail(market, "-s", "5") as tailing:
        assert tailing.stdout is not None
        printed: list[str] = []
        while len(printed) < 100:
            line = tailing.stdout.readline()
            assert line, "it ended"
            if found := TAILED.match(line):
                printed.append(found[1])
        tailing.kill()
        feed = itch_feed(market.ready().ports["itch"], 200)
        # The number that it prints is that of the newest message it has received, so it does not count.
        assert printed == [repr(message) for message in feed[4:104]]


async def look(port: int) -> list[bytes]:
    """A snapshot of the books, as NASDAQ's own client reads it: it ends by itself."""
    listener = Listener()
    await listener.connect(port)
    await listener.closed()
    return listener.told


def test_a_snapshot_is_the_feed_up_to_where_it_is_joined(tmp_path: Path) -> None:
    with exchange(tmp_path, *FLOW, "--glimpse-port", "0") as market:
        market.wait_for("itch_sequence", 2000)
        *snapshot, end = asyncio.run(look(market.ready().ports["glimpse"]))
        feed = itch_feed(market.ready().ports["itch"], parse_snapshot_end(end) - 1)
    feed = feed[: parse_snapshot_end(end) - 1]
    found, whole = ItchBook().take(snapshot), ItchBook().take(feed)
    assert found.orders == whole.orders
    assert found.queues() == whole.queues()
    assert found.states == whole.states
    assert len(found.orders) > 20
    assert len(feed) >= 2000


def test_itch_book_builds_our_books_from_the_live_feed(tmp_path: Path) -> None:
    ours, theirs = ItchBook(), PeerBook()
    splitter, told = PacketSplitter(), 0
    with (
        exchange(tmp_path, *FLOW) as market,
        socket.create_connection(("127.0.0.1", market.ready().ports["itch"]), timeout=DEADLINE_S) as connection,
    ):
        connection.sendall(encode_login(LoginRequest()))
        while told < 3000:
            # One message at a time, and the touch of both is compared after each.
            for packet in splitter.split(connection.recv(1 << 16)):
                if packet.type == SEQUENCED:
                    told += 1
                    ours.take([packet.payload])
                    theirs.take(encode_packet(SEQUENCED, packet.payload))
                    for locate, stock in ours.stocks.items():
                        touch = theirs.touch(locate)
                        assert (touch[0] or None, touch[3] or None) == ours.touch(stock)
    assert theirs.flaws() == {}
    assert theirs.figures["live_orders"] == len(ours.orders)
    assert [trade[3] for trade in theirs.trades] == [match for match, *_ in ours.trades]
    assert len(theirs.trades) > 50


GROUP = "239.192.77.1"


@contextmanager
def datagram_socket(group: str = "") -> Iterator[socket.socket]:
    """A socket on loopback, in a group if one is named."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiving:
        receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        receiving.bind((group or "127.0.0.1", 0))
        if group:
            member = socket.inet_aton(group) + socket.inet_aton("127.0.0.1")
            receiving.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
        receiving.settimeout(1)
        yield receiving


def has_groups() -> bool:
    """Whether this machine's loopback carries datagrams to a group."""
    try:
        with datagram_socket(GROUP) as receiving, datagram_socket() as sending:
            sending.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            sending.sendto(b"here", receiving.getsockname())
            return receiving.recv(100) == b"here"
    except OSError:
        return False


@pytest.mark.parametrize("group", ["", *([GROUP] if has_groups() else [])], ids=lambda group: group or "one address")
def test_a_lossy_datagram_receiver_has_the_whole_feed(tmp_path: Path, group: str) -> None:
    chance, receiver = random.Random(1), MoldReceiver()
    with datagram_socket(group) as receiving, datagram_socket() as asking:
        host, port = receiving.getsockname()
        options = ["--mold-to", f"{host}:{port}", "--mold-port", "0", "--start-on", "1"]
        with exchange(tmp_path, *FLOW, *options) as market:
            ports = market.ready().ports
            with socket.create_connection(("127.0.0.1", ports["itch"]), timeout=DEADLINE_S) as starting:
                starting.sendall(encode_login(LoginRequest(sequence=0)))
                for _ in range(100_000):
                    if receiver.next_number > 3000:
                        break
                    datagram = receiving.recv(2000)
                    if chance.random() < 0.7:
                        receiver.take(datagram)
                    wanted = receiver.wanted()
                    if wanted is not None:
                        asking.sendto(encode_request(wanted), ("127.0.0.1", ports["mold-requests"]))
                        receiver.take(asking.recv(2000))
                feed = itch_feed(ports["itch"], 3000)
    assert receiver.messages[:3000] == feed[:3000]
    assert receiver.session
