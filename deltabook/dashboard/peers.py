# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Peers that the dashboard follows: where each is and how it is, and how it is asked over HTTP, round by round."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.client import Agent, BrowserLikePolicyForHTTPS, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer

from deltabook.dashboard.errors import DashboardError, UnreachableError
from deltabook.wire.access import check_way_of_token, read_token

__all__ = ["Asker", "HttpAsker", "Link", "LinkLine", "LinkState", "Peer", "Refused", "Rounds"]

_MOST_ADDRESS_BYTES = 64 * 1024


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where something is asked."""

    address: str = ""
    """HOST:PORT."""
    token_file: str = ""
    """File with the token that it asks for; empty for none."""
    ca_file: str = ""
    """PEM file of the authority that signed its certificate; empty: it is asked without TLS."""
    listed_in: str = ""
    """In place of an address: a JSON file of name → HOST:PORT. It is read whenever the peer is asked: it need not be
    there before the peer is, and one that comes back at another port is found again."""
    name: str = ""
    """The peer's in that file."""

    def where(self) -> str:
        """HOST:PORT as it is now; empty while the file does not say.

        Raises `DashboardError` for another file.
        """
        return self._read().get(self.name, "") if self.listed_in else self.address

    def news(self) -> str:
        """Return why the peer is not there, if its file says so under ``NAME.news``, else nothing.

        Raises `DashboardError` for another file.
        """
        return self._read().get(f"{self.name}.news", "") if self.listed_in else ""

    def _read(self) -> dict[str, str]:
        try:
            with Path(self.listed_in).open("rb") as file:
                data = file.read(_MOST_ADDRESS_BYTES)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise DashboardError(f"expected addresses in {self.listed_in}, was {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=dict[str, str])
        except msgspec.DecodeError as error:
            raise DashboardError(f"expected name: HOST:PORT as JSON in {self.listed_in}, was {error}") from None


LinkState = Literal["off", "connecting", "live", "stale", "lost"]
"""off: there is none; connecting: it has never answered; stale: it answers, but what it says is old."""
_DELAY_MS: Final = 10_000
"""An answer that took so long would make its process look younger."""


class LinkLine(msgspec.Struct, frozen=True):
    """One peer, for the page."""

    state: LinkState
    words: str
    """Why it is not live; empty where it is."""
    address: str
    """HOST:PORT; empty for none, and while it is not known."""
    since_ms: int
    """Since when it is in this state, milliseconds since the UTC epoch."""
    restarts: int = 0
    """How often it was found to be another process than before."""
    restarted_ms: int | None = None
    """When the newest of these processes began."""


class Link:
    """The state of one peer."""

    def __init__(self, peer: Peer | None, now_ms: Callable[[], int]) -> None:
        """None: there is none, and never will be."""
        self._peer, self._now_ms = peer, now_ms
        self._line = LinkLine("connecting" if peer else "off", "", peer.address if peer else "", now_ms())
        self._up_s: float | None = None
        self._begun_ms = 0.0

    @property
    def line(self) -> LinkLine:
        """For the page."""
        return self._line

    @property
    def state(self) -> LinkState:
        """As the line says it."""
        return self._line.state

    def live(self) -> None:
        """It answers."""
        self._become("live", "")

    def up(self, up_s: float) -> None:
        """Its process says that it has been up for so long: less than before is another process."""
        begun_ms = self._now_ms() - 1000 * up_s
        is_known = self._up_s is not None
        is_another = is_known and (up_s < (self._up_s or 0) or begun_ms > self._begun_ms + _DELAY_MS)
        if is_another:
            restarts = self._line.restarts + 1
            self._line = msgspec.structs.replace(self._line, restarts=restarts, restarted_ms=int(begun_ms))
        if is_another or not is_known or begun_ms < self._begun_ms:
            self._begun_ms = begun_ms
        self._up_s = up_s

    def stale(self, words: str) -> None:
        """It answers, but what it says is old."""
        self._become("stale", words)

    def lost(self, words: str) -> None:
        """It does not answer; one that never has is still being connected."""
        never = self._line.state == "connecting"
        self._become("connecting" if never else "lost", words)

    def _become(self, state: LinkState, words: str) -> None:
        line = self._line
        since_ms = line.since_ms if line.state == state else self._now_ms()
        try:
            address = self._peer.where() if self._peer else ""
            words = (self._peer.news() if self._peer and words else "") or words
        except DashboardError as error:
            address, words = line.address, words or str(error)
        self._line = msgspec.structs.replace(line, state=state, words=words, address=address, since_ms=since_ms)


_TIMEOUT_S: Final = 5.0
_MOST_ANSWER_BYTES: Final = 16 * 1024 * 1024
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
        if len(self._data) > _MOST_ANSWER_BYTES and not self._done.called:
            self._done.errback(DashboardError(f"expected at most {_MOST_ANSWER_BYTES} bytes in one answer, was more"))
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


class Rounds:
    """Calls an asynchronous function, and again some time after it has ended."""

    _log = Logger()

    def __init__(
        self, clock: Any, every_s: float, act: Callable[[], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        """``failed`` is told in one line why a round has not come to its end."""
        self._clock, self._every_s, self._act, self._failed = clock, every_s, act, failed
        self._call: Any = None
        self._round: Deferred[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin the first round."""
        self._call = None
        if not self._is_stopped:
            self._round = Deferred.fromCoroutine(_awaited(self._act()))
            self._round.addErrback(self._tell).addBoth(lambda _: self._again())

    def stop(self) -> None:
        """No further round."""
        self._is_stopped = True
        if self._call is not None:
            self._call.cancel()
        elif self._round is not None:
            self._round.cancel()

    def _again(self) -> None:
        if not self._is_stopped:
            self._call = self._clock.callLater(self._every_s, self.start)

    def _tell(self, failure: Failure) -> None:
        if self._is_stopped:
            return
        if not isinstance(failure.value, OSError | ValueError) and "twisted" not in type(failure.value).__module__:
            self._log.failure("a peer's answer", failure=failure)
        self._failed(" ".join(str(failure.getErrorMessage()).split())[:300])


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
