# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Requests on Twisted's reactor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from deltabook.wire.errors import AccessError
from deltabook.wire.http.peer import HttpPeer, ProtocolError

__all__ = ["ReactorPort"]

_MOST_BYTES: Final = 16 * 1024 * 1024
"""Greatest size of one answer in bytes."""
_CERTIFICATE: Final = b"-----BEGIN CERTIFICATE-----"


class ReactorPort:
    """Client of one port on a reactor."""

    def __init__(
        self, peer: HttpPeer, reactor: Any, *, connect_s: float, is_persistent: bool = False, agent: Any = None
    ) -> None:
        """Make a client; ``is_persistent`` keeps connections for later requests. ``agent`` replaces Twisted's own.

        Raises `AccessError` for a file without certificates.
        """
        self.peer = peer
        """Peer of the next request. It may be replaced by the same peer at another address (`HttpPeer.at`)."""
        policy: dict[str, Any] = {"contextFactory": _policy(peer.ca_file)} if peer.is_secure else {}
        pool = HTTPConnectionPool(reactor, persistent=is_persistent)
        self._agent: Any = agent or Agent(reactor, connectTimeout=connect_s, pool=pool, **policy)

    def begin(self, method: str, path: str, body: bytes | None = None) -> Deferred[Any]:
        """Send a request; the result is the response, with any status, before its body is read."""
        headers = {name: [value] for name, value in self.peer.headers(has_body=body is not None).items()}
        producer = None if body is None else _Bytes(body)
        url = f"{self.peer.url}{path}".encode("ascii")
        response: Deferred[Any] = self._agent.request(method.encode("ascii"), url, Headers(headers), producer)
        return response

    def read(self, response: Any) -> Deferred[bytes]:
        """Return the body of a response; fail with `ProtocolError` if it is too long.

        Cancelling the result closes the connection.
        """
        body = _Body()
        response.deliverBody(body)
        return body.done

    async def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Return the body of an answer, without a limit on its time; raise `ClientError` and network errors."""
        response = await self.begin(method, path, body)
        data = await self.read(response)
        if response.code >= 300:
            raise self.peer.refusal(response.code, data)
        return data

    async def listen(self, response: Any, listener: Protocol) -> None:
        """Pass the endless body of a response to a listener; raise `ClientError` for a refusal."""
        if response.code >= 300:
            raise self.peer.refusal(response.code, await self.read(response))
        response.deliverBody(listener)


@implementer(IBodyProducer)
class _Bytes:
    """A body that is sent in one piece."""

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


class _Body(Protocol):
    """Collects an answer up to a size limit."""

    def __init__(self) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._abort())
        self._data = bytearray()

    def dataReceived(self, data: bytes) -> None:
        if self.done.called:
            return
        self._data += data
        if len(self._data) > _MOST_BYTES:
            self.done.errback(ProtocolError(f"expected at most {_MOST_BYTES} bytes in one answer, was more"))
            self._abort()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.done.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self.done.callback(bytes(self._data))
        else:
            self.done.errback(reason)

    def _abort(self) -> None:
        # The response's transport is a proxy whose interface lacks this method; Twisted's readBody looks for it in the
        # same way.
        abort = getattr(self.transport, "abortConnection", None)
        if abort is not None:
            abort()


def _policy(ca_file: str) -> Any:
    # Without TLS, OpenSSL is not loaded.
    from twisted.internet.ssl import Certificate, trustRootFromCertificates
    from twisted.web.client import BrowserLikePolicyForHTTPS

    if not ca_file:
        return BrowserLikePolicyForHTTPS()
    try:
        parts = Path(ca_file).read_bytes().split(_CERTIFICATE)[1:]
        certificates = [Certificate.loadPEM(_CERTIFICATE + part) for part in parts]
    except OSError as error:
        raise AccessError(f"expected certificates in PEM in {ca_file}, was: {error.strerror}") from None
    except Exception as error:
        raise AccessError(f"expected certificates in PEM in {ca_file}, was: {type(error).__name__}") from error
    if not certificates:
        raise AccessError(f"expected certificates in PEM in {ca_file}, was: none")
    return BrowserLikePolicyForHTTPS(trustRootFromCertificates(certificates))
