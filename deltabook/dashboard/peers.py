"""Peers that the dashboard follows: their addresses, the state of their connections, and HTTP requests round by
round.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.protocol import Protocol as StreamProtocol
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.dashboard.errors import DashboardError, UnreachableError
from deltabook.wire.http.peer import ClientError, HttpPeer
from deltabook.wire.http.reactor import ReactorPort
from deltabook.wire.strict_json import decode_strictly

__all__ = ["HttpAsker", "Link", "LinkLine", "LinkState", "Peer", "PeerRequests", "Rounds", "one_line"]

_MOST_ADDRESS_BYTES = 64 * 1024
"""Greatest number of bytes that are read from a file of addresses."""


class Peer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Address and credentials of a peer."""

    address: str = ""
    """Address as HOST:PORT."""
    token_file: str = ""
    """File with the token that the peer requires; empty for none."""
    ca_file: str = ""
    """PEM file of the authority that signed the peer's certificate; empty: requests go without TLS."""
    listed_in: str = ""
    """JSON file with the address HOST:PORT of each peer by name, instead of `address`. The file is read at each
    request, so it need not exist before the peer does, and a peer that returns at another port is found again.
    """
    name: str = ""
    """Name of the peer in that file."""

    def where(self) -> str:
        """Return the present address as HOST:PORT; empty if the file does not have it.

        Raise `DashboardError` for an invalid file.
        """
        return self._read().get(self.name, "") if self.listed_in else self.address

    def news(self) -> str:
        """Return the reason why the peer is not available, which the file has under ``NAME.news``; empty if there is
        none.

        Raise `DashboardError` for an invalid file.
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
            addresses: dict[str, str] = decode_strictly(data, dict[str, str])
            return addresses
        except msgspec.DecodeError as error:
            raise DashboardError(f"expected name: HOST:PORT as JSON in {self.listed_in}, was {error}") from None


LinkState = Literal["off", "connecting", "live", "stale", "lost"]
"""State of a connection. off: there is no peer; connecting: the peer has never answered; live: the peer answers; stale:
the peer answers with old data; lost: the peer does not answer any more.
"""
_DELAY_MS: Final = 10_000
"""Largest error in milliseconds of the computed start of a process; a start that is later by more means a restart."""


class LinkLine(msgspec.Struct, frozen=True):
    """State of one peer, as the page shows it."""

    state: LinkState
    """State of the connection."""
    words: str
    """Reason why the connection is not live; empty if it is live."""
    address: str
    """Address as HOST:PORT; empty for none, and while it is unknown."""
    since_ms: int
    """Time since which the peer is in this state, in milliseconds since the UTC epoch."""
    restarts: int = 0
    """Number of times that the peer was found to be a new process."""
    restarted_ms: int | None = None
    """Start of the newest of these processes, in milliseconds since the UTC epoch."""


class Link:
    """The state of one peer."""

    def __init__(self, peer: Peer | None, now_ms: Callable[[], int]) -> None:
        """Make a link; ``peer`` None: there is no peer, and never will be."""
        self._peer, self._now_ms = peer, now_ms
        self._line = LinkLine("connecting" if peer else "off", "", peer.address if peer else "", now_ms())
        self._up_s: float | None = None
        self._begun_ms = 0.0

    @property
    def line(self) -> LinkLine:
        """State for the page."""
        return self._line

    @property
    def state(self) -> LinkState:
        """State of the connection."""
        return self._line.state

    def live(self) -> None:
        """Note that the peer answers."""
        self._become("live", "")

    def up(self, up_s: float) -> None:
        """Note the age of the peer's process in seconds: an age below the last one means a new process."""
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
        """Note that the peer answers with old data."""
        self._become("stale", words)

    def lost(self, words: str) -> None:
        """Note that the peer does not answer; a peer that never has answered stays in the state ``connecting``."""
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
"""Time limit of a request, in seconds."""
_LONGEST_REASON: Final = 300
"""Longest reason on a page in characters; a longer one is cut."""


class PeerRequests(Protocol):
    """Sends the requests with which a follower (see `followers`) polls its peer."""

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """Return the body of the answer; raise `ClientError`, `OSError` and network errors."""

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """Pass an endless answer to a listener; raise the errors of `ask`."""


class HttpAsker:
    """Sends requests to one peer over persistent connections, at its present address."""

    def __init__(self, peer: Peer, reactor: Any) -> None:
        """Make an asker; raise `AccessError` for files that cannot be used."""
        self._reactor, self._peer = reactor, peer
        http_peer = HttpPeer.of(peer.name or "the peer", None, token_file=peer.token_file, ca_file=peer.ca_file)
        self._port = ReactorPort(http_peer, reactor, connect_s=_TIMEOUT_S, is_persistent=True)

    async def ask(self, path: str, *, method: str = "GET", body: bytes | None = None) -> bytes:
        """See `PeerRequests`."""
        self._locate()
        answer: Deferred[bytes] = Deferred.fromCoroutine(self._port.ask(method, path, body))
        return await answer.addTimeout(_TIMEOUT_S, self._reactor)

    async def listen(self, path: str, listener: StreamProtocol) -> None:
        """See `PeerRequests`."""
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
    """Return a reason as one line for a page."""
    return " ".join(str(reason).split())[:_LONGEST_REASON]


class Rounds:
    """Calls an asynchronous function repeatedly, each time some seconds after the last call has ended."""

    _log = Logger()

    def __init__(
        self, clock: Any, every_s: float, act: Callable[[], Awaitable[None]], failed: Callable[[str], None]
    ) -> None:
        """Make the rounds; ``failed`` receives the error of a failed round as one line."""
        self._clock, self._every_s, self._act, self._failed = clock, every_s, act, failed
        self._call: Any = None
        self._round: Deferred[None] | None = None
        self._is_stopped = False

    def start(self) -> None:
        """Begin the first round."""
        self._call = None
        if not self._is_stopped:
            self._round = Deferred.fromCoroutine(_awaited(self._act()))
            self._round.addErrback(self._report).addBoth(lambda _: self._again())

    def stop(self) -> None:
        """Stop the rounds."""
        self._is_stopped = True
        if self._call is not None:
            self._call.cancel()
        elif self._round is not None:
            self._round.cancel()

    def _again(self) -> None:
        if not self._is_stopped:
            self._call = self._clock.callLater(self._every_s, self.start)

    def _report(self, failure: Failure) -> None:
        if self._is_stopped:
            return
        is_expected = isinstance(failure.value, OSError | ValueError | ClientError)
        if not is_expected and "twisted" not in type(failure.value).__module__:
            self._log.failure("a peer's answer was not processed", failure=failure)
        self._failed(one_line(failure.getErrorMessage()))


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
