# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Questions to a peer over HTTP: its token, its certificate, a time and a size that no answer may pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from deltabook.dashboard.errors import DashboardError, UnreachableError
from deltabook.dashboard.peers import Peer
from deltabook.wire.access import check_way_of_token, read_token

__all__ = ["Asker", "HttpAsker", "Refused"]

_TIMEOUT_S: Final = 5.0
_MOST_BYTES: Final = 16 * 1024 * 1024
_LONGEST_REASON: Final = 300


class Refused(DashboardError):
    """A peer answers, but not with what was asked for."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        """Status of HTTP."""


class Asker(Protocol):
    """What followers ask with."""

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """The body of the answer; raises `Refused`, `OSError` and what the network raises."""

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """Hand an endless answer to a listener; raises as `ask`."""


class HttpAsker:
    """Asks one peer, over connections that are kept."""

    def __init__(self, peer: Peer, reactor: Any) -> None:
        """Raises `AccessError` and `DashboardError` for files that cannot be read."""
        self._reactor = reactor
        self._peer = peer
        self._token = read_token(peer.token_file) if peer.token_file else ""
        self._headers = {"Authorization": [f"Bearer {self._token}"]} if self._token else {}
        pool = HTTPConnectionPool(reactor)
        policy = BrowserLikePolicyForHTTPS(_authority(peer.ca_file)) if peer.ca_file else BrowserLikePolicyForHTTPS()
        self._agent: Any = Agent(reactor, policy, connectTimeout=_TIMEOUT_S, pool=pool)

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """See `Asker`."""
        asked: Deferred[bytes] = Deferred.fromCoroutine(self._ask(path, method, body))
        return await asked.addTimeout(_TIMEOUT_S, self._reactor)

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """See `Asker`."""
        response = await self._request("GET", path, None).addTimeout(_TIMEOUT_S, self._reactor)
        if response.code != 200:
            raise Refused(response.code, _reason(await _body(response)))
        response.deliverBody(listener)

    def _request(self, method: str, path: str, body: bytes | None) -> Deferred[Any]:
        producer = _Bytes(body) if body is not None else None
        headers = {**self._headers, **({"Content-Type": ["application/json"]} if body is not None else {})}
        where = self._peer.where()
        if not where:
            raise UnreachableError(f"expected {self._peer.name} in {self._peer.listed_in}, was not there yet")
        check_way_of_token(self._token, where, is_encrypted=bool(self._peer.ca_file))
        url = f"{'https' if self._peer.ca_file else 'http'}://{where}{path}"
        response: Deferred[Any] = self._agent.request(
            method.encode("ascii"), url.encode("ascii"), Headers(headers), producer
        )
        return response

    async def _ask(self, path: str, method: str, body: bytes | None) -> bytes:
        response = await self._request(method, path, body)
        data = await _body(response)
        if response.code not in (200, 201, 204):
            raise Refused(response.code, _reason(data))
        return data


@implementer(IBodyProducer)
class _Bytes:
    """A small body, sent at once."""

    def __init__(self, data: bytes) -> None:
        self._data, self.length = data, len(data)

    def startProducing(self, consumer: Any) -> Deferred[None]:
        """See `IBodyProducer`."""
        consumer.write(self._data)
        return succeed(None)

    def stopProducing(self) -> None:
        """See `IBodyProducer`."""

    def pauseProducing(self) -> None:
        """See `IBodyProducer`."""

    def resumeProducing(self) -> None:
        """See `IBodyProducer`."""


class _Body(StreamProtocol):
    """Collects an answer up to a size."""

    def __init__(self, done: Deferred[bytes]) -> None:
        self._done, self._data = done, bytearray()

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > _MOST_BYTES and not self._done.called:
            self._done.errback(DashboardError(f"expected at most {_MOST_BYTES} bytes in one answer, was more"))
            transport: Any = self.transport
            transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._done.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self._done.callback(bytes(self._data))
        else:
            self._done.errback(reason)


def _body(response: Any) -> Deferred[bytes]:
    done: Deferred[bytes] = Deferred()
    response.deliverBody(_Body(done))
    return done


def _reason(data: bytes) -> str:
    return " ".join(data.decode("utf-8", "replace").split())[:_LONGEST_REASON]


def _authority(path: str) -> Any:
    from twisted.internet.ssl import Certificate, trustRootFromCertificates

    try:
        return trustRootFromCertificates([Certificate.loadPEM(Path(path).read_bytes())])
    except OSError as error:
        raise DashboardError(f"expected a certificate in {path}, was: {error.strerror}") from None
