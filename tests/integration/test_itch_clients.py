"""Clients that we did not write listen to the exchange's ITCH feed over real sockets."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import itch.parser
import pytest
from nasdaq_protocols import soup

from deltabook.wire.itch import frame
from deltabook.wire.soupbin import SEQUENCED, LoginRequest, PacketSplitter, encode_login
from tests.generators.itch_book import ItchBook
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


class Listener:
    """NASDAQ's own client; counts what it is told, and so knows where to go on."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self._session: Any = None
        self._news = asyncio.Condition()
        self._is_closed = False

    async def connect(self, port: int, session: str = "") -> None:
        """Log in at the message behind the last one."""
        self._is_closed = False
        self._session = await soup.connect_async(
            ("127.0.0.1", port),
            "joe",
            "secret",
            session,
            len(self.told) + 1,
            on_msg_coro=self._on_message,
            on_close_coro=self._on_close,
            client_heartbeat_interval=1,
            server_heartbeat_interval=3,
        )

    async def _on_message(self, message: Any) -> None:
        if isinstance(message, soup.SequencedData):
            self.told.append(message.data)
            async with self._news:
                self._news.notify_all()

    async def _on_close(self) -> None:
        self._is_closed = True
        async with self._news:
            self._news.notify_all()

    async def _wait(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S), self._news:
            await self._news.wait_for(claim)

    async def hear(self, until: int) -> None:
        """Wait until so many messages have been told."""
        await self._wait(lambda: len(self.told) >= until or self._is_closed)
        assert len(self.told) >= until, "the connection ended before"

    async def cut(self) -> None:
        """Break the connection off, whatever is on its way."""
        self._session._transport.abort()
        await self.closed()

    async def closed(self) -> None:
        """Wait for the end of the connection."""
        await self._wait(lambda: self._is_closed)

    async def close(self) -> None:
        """Log out."""
        self._session.logout()
        await self.closed()


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
        await listener.close()
        return listener.told, await asyncio.to_thread(itch_feed, port, newest)


def test_nasdaqs_client_misses_nothing_over_cuts_kills_and_restarts(tmp_path: Path) -> None:
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
