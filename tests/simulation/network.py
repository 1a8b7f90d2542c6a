"""Network between the feed's server and the process: real bytes, in pieces and at times that the world chooses."""

from __future__ import annotations

import random
from typing import Any

from twisted.internet import error
from twisted.python.failure import Failure

from deltabook.wire.text import Accepted, PassiveLogin, Refused, encode_login_reply, parse_login
from tests.simulation.market import SESSION, Market
from tests.simulation.trace import Trace

__all__ = ["Attempt", "FeedServer", "Link", "Network"]


class Attempt:
    """Connection that is about to be made; the connector of the client."""

    def __init__(self, network: Network, factory: Any) -> None:
        self.factory = factory
        self.is_given_up = False
        self._network = network

    def disconnect(self) -> None:
        """Cancel the attempt for the client."""
        self.is_given_up = True
        self._network.attempts.remove(self)
        self.factory.clientConnectionFailed(self, _failure(error.ConnectionDone))


class Link:
    """Connection; the transport of the client. The world moves its bytes."""

    def __init__(self, server: FeedServer, protocol: Any) -> None:
        self._server = server
        self.protocol = protocol
        self.from_client = b""
        self.to_client = bytearray()
        self.is_logged_in = False
        self.is_paused = False
        self.closing: type[Exception] | None = None
        """Reason that the client receives once the bytes on the way have arrived; None while the connection is open."""
        self.is_aborted = False
        self.is_silent = False
        """True if nothing arrives any more, without notification."""

    # -- the client

    def write(self, data: bytes) -> None:
        """Send bytes to the server."""
        self.from_client += data
        self._server.received(self)

    def pauseProducing(self) -> None:
        """Pause reading by the client."""
        self.is_paused = True

    def resumeProducing(self) -> None:
        """Resume reading by the client."""
        self.is_paused = False

    def abortConnection(self) -> None:
        """End the connection at once; the client is notified later."""
        self.is_aborted = True
        self.to_client.clear()
        self.closing = self.closing or error.ConnectionDone

    loseConnection = abortConnection

    # -- the world

    @property
    def can_move(self) -> bool:
        """True if the world can deliver bytes or the end."""
        if self.is_aborted:
            return True
        return not self.is_paused and not self.is_silent and bool(self.to_client or self.closing)

    def move(self, most: int) -> int:
        """Deliver some bytes, or the end after the last one; return their number."""
        if self.to_client:
            data = bytes(self.to_client[:most])
            del self.to_client[:most]
            self.protocol.dataReceived(data)
            return len(data)
        assert self.closing is not None
        self._server.links.remove(self)
        self.protocol.connectionLost(_failure(self.closing))
        return 0

    def cut(self, keep: int) -> None:
        """Break the connection: only ``keep`` of the bytes on the way arrive."""
        del self.to_client[keep:]
        self.is_logged_in = False
        self.closing = self.closing or error.ConnectionLost


class FeedServer:
    """The exchange's end: logs listeners in at a position and sends every message from there, once and in order."""

    def __init__(self, market: Market, trace: Trace) -> None:
        self._market = market
        self._trace = trace
        self.links: list[Link] = []
        self.session = SESSION
        """Name of the session; after a change, logins for the old one are refused."""

    def received(self, link: Link) -> None:
        """Process data from a client; only its login matters."""
        if b"\n" not in link.from_client or link.is_logged_in or link.closing:
            return
        login = parse_login(link.from_client.partition(b"\n")[0])
        assert isinstance(login, PassiveLogin)
        self._trace.say("login at {} {}", login.session or "any session", login.sequence)
        if login.session != self.session and (login.session or self.session != SESSION):
            self._refuse(link, Refused("session", f"the session is {self.session} not {login.session}"))
        elif login.sequence > self._market.count + 1:
            raise AssertionError(
                f"expected a login at {self._market.count + 1} at most, was {login.sequence}: nobody has seen that"
            )
        else:
            first = login.sequence or self._market.count + 1
            link.to_client += encode_login_reply(Accepted(self.session, first))
            link.to_client += b"".join(self._market.lines[first - 1 :])
            link.is_logged_in = True

    def _refuse(self, link: Link, reply: Refused) -> None:
        link.to_client += encode_login_reply(reply)
        link.closing = error.ConnectionDone

    def send(self, data: bytes) -> None:
        """Send data to every listener."""
        for link in self.links:
            if link.is_logged_in and not link.closing:
                link.to_client += data


class Network:
    """Attempts to connect, and the open connections."""

    def __init__(self, chance: random.Random, server: FeedServer, trace: Trace) -> None:
        self._chance = chance
        self._trace = trace
        self.server = server
        self.attempts: list[Attempt] = []
        self.is_down = False
        """True if attempts are refused."""

    def attempt(self, factory: Any) -> Attempt:
        """Add an attempt to connect."""
        attempt = Attempt(self, factory)
        self.attempts.append(attempt)
        return attempt

    def settle(self) -> None:
        """Let the oldest attempt succeed or fail."""
        attempt = self.attempts.pop(0)
        if self.is_down:
            self._trace.say("connection refused")
            attempt.factory.clientConnectionFailed(attempt, _failure(error.ConnectionRefusedError))
            return
        protocol = attempt.factory.buildProtocol(None)
        link = Link(self.server, protocol)
        self.server.links.append(link)
        protocol.makeConnection(link)

    def movable(self) -> list[Link]:
        """Return the connections on which something can arrive."""
        return [link for link in self.server.links if link.can_move]

    def move(self, link: Link) -> None:
        """Deliver bytes on a connection."""
        waiting = len(link.to_client)
        most = self._chance.choice((1, 7, 60, 200, 1000, 1 << 30))
        self._trace.say("{} of {} bytes arrive", link.move(most), waiting)

    def forget(self) -> None:
        """Drop all connections of an ended process."""
        self.server.links.clear()
        self.attempts.clear()


def _failure(kind: type[Exception]) -> Any:
    return Failure(kind())  # type: ignore[no-untyped-call]  # Twisted's own annotations end here
