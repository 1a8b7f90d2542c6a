"""Questions to a peer over HTTP, each with a time that no answer may pass."""

from __future__ import annotations

from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol as StreamProtocol

from deltabook.dashboard.errors import UnreachableError
from deltabook.dashboard.peers import Peer
from deltabook.wire.http.peer import HttpPeer
from deltabook.wire.http.reactor import ReactorPort

__all__ = ["Asker", "HttpAsker", "one_line"]

_TIMEOUT_S: Final = 5.0
_LONGEST_REASON: Final = 300


class Asker(Protocol):
    """What followers ask with."""

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """The body of the answer; raises `ClientError`, `OSError` and what the network raises."""

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """Hand an endless answer to a listener; raises as `ask`."""


class HttpAsker:
    """Asks one peer, over connections that are kept, at the address that it has now."""

    def __init__(self, peer: Peer, reactor: Any) -> None:
        """Raises `AccessError` for files that cannot be used."""
        self._reactor, self._peer = reactor, peer
        asked = HttpPeer.of(peer.name or "the peer", None, token_file=peer.token_file, ca_file=peer.ca_file)
        self._port = ReactorPort(asked, reactor, connect_s=_TIMEOUT_S, is_persistent=True)

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """See `Asker`."""
        self._locate()
        asked: Deferred[bytes] = Deferred.fromCoroutine(self._port.ask(method, path, body))
        return await asked.addTimeout(_TIMEOUT_S, self._reactor)

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """See `Asker`."""
        self._locate()
        response = await self._port.begin("GET", path).addTimeout(_TIMEOUT_S, self._reactor)
        await self._port.listen(response, listener)

    def _locate(self) -> None:
        where = self._peer.where()
        if not where:
            raise UnreachableError(f"expected {self._peer.name} in {self._peer.listed_in}, was not there yet")
        if where != self._port.peer.where:
            self._port.peer = self._port.peer.at(where)


def one_line(reason: object) -> str:
    """Return a reason as a page shows it."""
    return " ".join(str(reason).split())[:_LONGEST_REASON]
