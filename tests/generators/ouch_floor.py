"""Exchange with its OUCH port on a simulated clock, and clients on transports in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from deltabook.wire import ouch5, ouch42
from deltabook.wire._messages import DecodedMessage
from deltabook.wire.soupbin import (
    CLIENT_HEARTBEAT,
    UNSEQUENCED,
    LoginAccepted,
    LoginRejected,
    LoginRequest,
    Packet,
    encode_login,
    encode_packet,
    parse_login_reply,
)
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.logins import LoginGate, PasswordHash, User, hash_password
from exchange_server.matching.inputs import AnyInput, Enter, MarketRules
from exchange_server.matching.order import AccountLimits
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder
from exchange_server.nasdaq.ouch import Ouch5, Ouch42, OuchLimits, OuchServer
from tests.generators.ouch_desk import RULES, START_NS
from tests.generators.soup_lab import SoupWire, messages, reasons, types

__all__ = ["PASSWORD", "Client", "OuchFloor", "user"]

PASSWORD = "secret"
_SECRET = PasswordHash.parse(hash_password(PASSWORD))


def user(name: str, broker_id: int = 7, **values: Any) -> User:
    """Return a user with the password `PASSWORD`."""
    settings: dict[str, Any] = {
        "protocol": "ouch5",
        "limits": AccountLimits(),
        "self_trade": "allow",
        "cancel_on_disconnect": False,
    }
    return User(name=name, secret=_SECRET, broker_id=broker_id, **(settings | values))


class Client:
    """One connection, from its client's end."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.wire: Any = SoupWire()
        connection.makeConnection(self.wire)

    def send(self, *messages_: bytes) -> None:
        """Send requests in one piece."""
        self.connection.dataReceived(b"".join(encode_packet(UNSEQUENCED, message) for message in messages_))

    def beat(self) -> None:
        """Send a heartbeat."""
        self.connection.dataReceived(encode_packet(CLIENT_HEARTBEAT))

    def take(self) -> list[Packet]:
        """Return the packets since the last call."""
        return list(self.wire.take())

    def told(self) -> list[DecodedMessage]:
        """Return the sequenced messages since the last call, decoded as 5.0."""
        return [ouch5.decode_reply(message) for message in messages(self.take())]

    def told_42(self) -> list[DecodedMessage]:
        """Return the sequenced messages since the last call, decoded as 4.2."""
        return [ouch42.decode_reply(message) for message in messages(self.take())]

    def letters(self) -> str:
        """Return the types of the sequenced messages since the last call."""
        return "".join(message[:1].decode() for message in messages(self.take()))

    def reply(self) -> LoginAccepted | LoginRejected:
        """Return the answer to the login; leave later packets in `rest`."""
        first, *self.rest = self.take()
        return parse_login_reply(first)

    def end(self) -> str:
        """Return why the server closed the connection, empty if it did not."""
        said = reasons(self.take())
        return said if self.wire.disconnecting else ""

    def lose(self) -> None:
        """Break the connection."""
        self.connection.connectionLost()

    @staticmethod
    def types(packets: Iterable[Packet]) -> str:
        """Return the letters of packets."""
        return types(packets)


class OuchFloor:
    """Exchange whose journal can be opened again, its OUCH port, and clients."""

    def __init__(
        self,
        path: Path,
        *users: User,
        fsync: Literal["always", "interval", "never"] = "never",
        rules: MarketRules = RULES,
        **limits: Any,
    ) -> None:
        self._path, self._fsync, self._rules, self._limits = path, fsync, rules, limits
        self.users = {each.name: each for each in users or (user("ALPHA"), user("BRAVO", 8))}
        self.clock = Clock()
        self.failures: list[str] = []
        self.slow_gate: list[tuple[Callable[[], bool], Deferred[bool]]] | None = None
        """Pending comparisons of passwords; None: passwords are compared at once."""
        self.open()

    def open(self) -> None:
        """Open the exchange on the journal."""
        now = Now()
        journal = Journal(self._path, self._rules, lambda: "SESSION1", self._fsync)
        market_clock = MarketClock(self.clock.seconds, START_NS)
        protocols = (Ouch5(self._rules), Ouch42(self._rules))
        self.encoder = ItchEncoder(self._rules, now)
        self.exchange = Exchange(journal, market_clock, {"itch": self.encoder}, protocols, now=now)
        gate = LoginGate(self.users, self.clock, in_thread=self._compare)
        limits = OuchLimits(**self._limits)
        self.server = OuchServer(self.exchange, gate, self.clock, limits, self.failures.append)
        self.server.start()

    def _compare(self, compare: Callable[[], bool]) -> Deferred[bool]:
        if self.slow_gate is None:
            return succeed(compare())
        self.slow_gate.append((compare, Deferred()))
        return self.slow_gate[-1][1]

    def finish_comparisons(self) -> None:
        """Carry out the pending comparisons of passwords."""
        waiting, self.slow_gate = self.slow_gate or [], None
        for compare, deferred in waiting:
            deferred.callback(compare())

    def knock(self, name: str = "ALPHA", password: str = PASSWORD, session: str = "", sequence: int = 1) -> Client:
        """Return a connection whose login is not answered yet."""
        client = Client(self.server.buildProtocol(None))
        client.connection.dataReceived(encode_login(LoginRequest(name, password, session, sequence)))
        return client

    def connect(self, name: str = "ALPHA", sequence: int = 0) -> Client:
        """Return a client that is logged in, by default at the stream's end, and has read the answer."""
        client = self.knock(name, sequence=sequence)
        assert isinstance(client.reply(), LoginAccepted)
        return client

    def turn(self) -> None:
        """Make a turn of the reactor."""
        self.clock.advance(0)

    def submit(self, *batch: AnyInput) -> None:
        """Submit inputs of other participants."""
        self.exchange.submit(batch)

    def rest(self, side: str, lots: int, ticks: int) -> None:
        """Enter another participant's limit order for ACME."""
        self.submit(Enter(self.exchange.next_time_ns(), 0, 99, 0, "ACME", side, lots, ticks))
        self.turn()

    @property
    def live(self) -> int:
        """Number of live orders of the market."""
        return self.exchange.market.live_orders

    def close(self) -> None:
        """Stop the exchange in order."""
        self.server.close()
        self.exchange.close()

    def restart(self) -> None:
        """Restart the exchange on its journal."""
        self.close()
        self.open()
