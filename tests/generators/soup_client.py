"""Independent client of SoupBinTCP: the sessions of `nasdaq-protocols`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from nasdaq_protocols import soup

__all__ = ["SoupClient"]


class SoupClient:
    """Collects messages over all its connections, and so knows where to continue."""

    def __init__(self, name: str, password: str, deadline_s: float) -> None:
        self.told: list[bytes] = []
        """All messages, from the first on."""
        self._login = name, password
        self._deadline_s = deadline_s
        self.session: Any = None
        """Session object of the package for the newest connection."""
        self._news = asyncio.Condition()
        self._is_closed = False

    async def connect(self, port: int, session: str = "") -> None:
        """Log in at the message after the last one."""
        self._is_closed = False
        self.session = await soup.connect_async(
            ("127.0.0.1", port), *self._login, session, len(self.told) + 1,
            on_msg_coro=self._on_message, on_close_coro=self._on_close,
            client_heartbeat_interval=1, server_heartbeat_interval=3,
        )  # fmt: skip

    def take(self, message: bytes) -> None:
        """Add one more message."""
        self.told.append(message)

    async def _on_message(self, packet: Any) -> None:
        if isinstance(packet, soup.SequencedData):
            self.take(packet.data)
            async with self._news:
                self._news.notify_all()

    async def _on_close(self) -> None:
        self._is_closed = True
        async with self._news:
            self._news.notify_all()

    async def _wait(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(self._deadline_s), self._news:
            await self._news.wait_for(claim)

    async def hear_until(self, claim: Callable[[], bool]) -> None:
        """Wait until a claim about the received messages is true."""
        await self._wait(lambda: claim() or self._is_closed)
        assert claim(), "the connection ended before"

    async def cut(self) -> None:
        """Break the connection, and lose bytes on the way."""
        self.session._transport.abort()
        await self.closed()

    async def closed(self) -> None:
        """Wait for the end of the connection."""
        await self._wait(lambda: self._is_closed)

    async def log_out(self) -> None:
        """End the session."""
        self.session.logout()
        await self.closed()
