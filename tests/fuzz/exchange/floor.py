"""An exchange with all its ports in memory: clients that send anything, and clients that must not notice."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from twisted.internet.task import Clock
from twisted.logger import Logger

from deltabook.wire.mold import HEADER_BYTES, PAYLOAD_LIMIT_BYTES
from deltabook.wire.soupbin import UNSEQUENCED, LoginRequest, encode_login, encode_packet
from deltabook.wire.symbols import Instrument
from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.logins import PasswordHash, User, UserProtocol
from exchange_server.matching.inputs import MarketRules
from exchange_server.matching.order import AccountLimits, SelfTrade
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.glimpse import GlimpseLimits, GlimpseServer
from exchange_server.nasdaq.itch import ItchEncoder, ItchServer
from exchange_server.nasdaq.mold import MoldRequestServer, RequestLimits
from exchange_server.nasdaq.ouch import Ouch5, Ouch42, OuchLimits, OuchServer
from exchange_server.nasdaq.soup import SoupLimits
from exchange_server.text import TextEncoder, TextLimits, TextProtocol, TextServer
from tests.fuzz.exchange import corpus
from tests.fuzz.exchange.mutation import mutated, pieces

__all__ = ["TARGETS", "FuzzFloor"]

RULES = MarketRules((Instrument("ACME"), Instrument("GLOBEX", "0.0025", "100")), max_live_orders=2_000)

_SILENT: Any = Logger(observer=cast(Any, lambda event: None))
_BEAT = encode_packet(b"R")
_NAMES = ("A1", "B1", "WELL", "a1", "C1", "", "NOBODY")
_SELF_TRADES: Final[tuple[SelfTrade, ...]] = ("allow", "allow", "newest", "decrement")
_PROTOCOLS: Final[dict[str, UserProtocol]] = {"A": "ouch5", "B": "ouch42", "C": "itch", "W": "ouch5"}


class _Users:
    """A gate that lets in any name with a letter for its protocol, and whose passwords cost nothing to compare."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.users: dict[str, User] = {}
        self._secret = PasswordHash.of_nobody()

    def check(self, name: str, password: str, host: str, then: Callable[[User | None, str], None]) -> None:
        """At once."""
        name = name.upper()
        protocol = _PROTOCOLS.get(name[:1])
        if protocol is None or password.upper() != "SECRET":
            then(None, "expected a user and its password")
            return
        if name not in self.users:
            self.users[name] = User(
                name=name,
                secret=self._secret,
                broker_id=len(self.users) % 9,
                protocol=protocol,
                limits=AccountLimits(open_orders=500),
                self_trade=self._chance.choice(_SELF_TRADES),
                cancel_on_disconnect=name != "WELL" and self._chance.random() < 0.3,
            )
        then(self.users[name], "")


class Line:
    """A transport in memory that keeps what it is sent, up to a limit, and counts it."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.disconnecting = False

    def write(self, data: bytes) -> None:
        """From the server."""
        assert not self.disconnecting, "expected nothing behind the end of a connection"
        self.sent += data

    def loseConnection(self) -> None:
        """Closed in good order."""
        self.disconnecting = True

    abortConnection = loseConnection

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """It is never slow."""

    def unregisterProducer(self) -> None:
        """It is never slow."""

    def pauseProducing(self) -> None:
        """Bytes come when the round says so."""

    resumeProducing = pauseProducing

    def take(self) -> bytes:
        """What was sent since the last call."""
        sent, self.sent = bytes(self.sent), bytearray()
        return sent


class FuzzFloor:
    """One exchange of a round.

    Each episode is one connection that is sent broken messages until it is closed or they are all sent. Asserted are:
    no exception; a connection that is closed was told why; the exchange did not stop; three connections that behave
    are answered as if nothing were.
    """

    def __init__(self, path: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.clock = Clock()
        now = Now()
        encoders = {"text": TextEncoder(RULES, now), "itch": (itch := ItchEncoder(RULES, now))}
        journal = Journal(path, RULES, lambda: "SESSION1", "never")
        protocols = (TextProtocol(RULES), Ouch5(RULES), Ouch42(RULES))
        market_clock = MarketClock(self.clock.seconds, 1_700_000_000 * 10**9)
        self.exchange = Exchange(journal, market_clock, encoders, protocols, now=now)
        self.failures: list[str] = []
        users: Any = _Users(self.chance)
        stop = self.failures.append
        self.servers: dict[str, Any] = {
            "itch": ItchServer(self.exchange, itch, self.clock, SoupLimits()),
            "glimpse": GlimpseServer(self.exchange, itch, self.clock, GlimpseLimits(), users),
            "ouch": OuchServer(self.exchange, users, self.clock, OuchLimits(), stop),
            "text": TextServer(self.exchange, self.clock, TextLimits(account=AccountLimits(open_orders=500)), stop),
        }
        self.servers["ouch"].start()
        self.servers["text"].startFactory()
        for server in self.servers.values():
            server._log = _SILENT
        records = self.exchange.feeds["itch"].records
        self.requests = MoldRequestServer(records, "SESSION1", self.clock, RequestLimits(replies_per_s=50))
        self.replies = Line()
        self.requests.transport = self
        self.messages = 0
        """That were sent so far, whole or in part."""
        self.closed = 0
        """Connections that the exchange closed."""
        self._accounts = 1
        self._well = {
            "itch": self.connect("itch", encode_login(LoginRequest("x", "x"))),
            "ouch": self.connect("ouch", encode_login(LoginRequest("WELL", "secret"))),
            "text": self.connect("text", b"1,,1\n"),
        }
        self._heard = {name: line.take() for name, (_, line) in self._well.items()}
        self._targets: dict[str, Callable[[], None]] = {
            "soup": self._soup,
            "login": self._login,
            "ouch5": lambda: self._ouch("A", corpus.ouch5_message),
            "ouch42": lambda: self._ouch("B", corpus.ouch42_message),
            "text": self._text,
            "mold": self._mold,
        }

    def connect(self, server: str, data: bytes = b"") -> tuple[Any, Line]:
        """A connection that has sent something."""
        connection, line = self.servers[server].buildProtocol(None), Line()
        connection._log = _SILENT
        connection.makeConnection(line)
        if data:
            connection.dataReceived(data)
        return connection, line

    def write(self, datagram: bytes, to: tuple[str, int]) -> None:
        """A reply of the re-request server."""
        assert to[0].startswith("10.")
        assert HEADER_BYTES < len(datagram) <= PAYLOAD_LIMIT_BYTES
        self.replies.write(datagram)

    # -- episodes --------------------------------------------------------------------------------------------------

    def episode(self, target: str) -> None:
        """One connection, or some datagrams."""
        self._targets[target]()
        if self.chance.random() < 0.2:
            self.clock.advance(0.25)
            for name in ("itch", "ouch"):
                self._well[name][0].dataReceived(_BEAT)
        assert not self.failures, self.failures

    def _soup(self) -> None:
        """A listener, whatever it sends."""
        chance = self.chance
        server = chance.choice(("itch", "itch", "glimpse"))
        messages = [corpus.packet(chance, chance.randbytes(chance.randrange(20))) for _ in range(chance.randrange(20))]
        if chance.random() < 0.9:
            messages.insert(0, corpus.any_login(chance, ("A1", "a1", "NOBODY")))
        self._send(*self.connect(server), messages)

    def _login(self) -> None:
        """Logins that are broken, of all ports."""
        chance = self.chance
        server = chance.choice(("itch", "glimpse", "ouch", "ouch", "text"))
        if server == "text":
            messages = [corpus.text_login(chance, 3)]
        else:
            login = corpus.any_login(chance, _NAMES)
            messages = [login if chance.random() < 0.3 else mutated(chance, login)]
        if chance.random() < 0.2:
            messages.insert(0, chance.choice((encode_packet(b"+", b"hello"), chance.randbytes(9))))
        self._send(*self.connect(server), messages)

    def _next_ref(self, prefix: str) -> tuple[int, int]:
        """One of two accounts in use and its next number; others are used when a broken one has left these no more."""
        number = self._accounts + self.chance.randrange(2)
        account = self.exchange.market.account_named(f"{prefix}{number}")
        ref = account.last_ref + 1 if account is not None else 1
        if ref <= 2**31:
            return number, ref
        self._accounts += 2
        return self._accounts, 1

    def _ouch(self, letter: str, message: Callable[[random.Random, int], bytes]) -> None:
        chance = self.chance
        number, ref = self._next_ref(f"ouch:{letter}")
        if letter == "B":
            ref = self.messages  # tokens have no order
        refs = range(ref, ref + chance.randrange(1, 40))
        messages = [encode_login(LoginRequest(f"{letter}{number}", "secret"))]
        messages += [corpus.packet(chance, message(chance, ref)) for ref in refs]
        self._send(*self.connect("ouch"), messages)

    def _text(self) -> None:
        chance = self.chance
        broker, ref = self._next_ref("text:")
        newest = self.exchange.market.next_order_id
        refs = range(ref, ref + chance.randrange(1, 40))
        messages = [corpus.text_login(chance, broker)]
        messages += [corpus.text_line(chance, broker, ref, newest) for ref in refs]
        self._send(*self.connect("text"), messages)

    def _mold(self) -> None:
        for _ in range(50):
            before = len(self.replies.sent)
            request = corpus.mold_request(self.chance)
            self.requests.datagramReceived(request, (f"10.0.0.{self.chance.randrange(256)}", 1))
            assert len(self.replies.sent) - before <= PAYLOAD_LIMIT_BYTES
            self.messages += 1
        self.replies.take()

    def _send(self, connection: Any, line: Line, messages: list[bytes]) -> None:
        """Hand the messages over in pieces until the connection is closed."""
        data = b"".join(messages)
        sent = 0
        for piece in pieces(self.chance, data):
            connection.dataReceived(piece)
            sent += len(piece)
            if line.disconnecting:
                break
        end = 0
        for message in messages:
            if end >= sent:
                break
            end += len(message)
            self.messages += 1
        if line.disconnecting:
            self.closed += 1
            said = line.take()
            assert said, "expected a reason before the end of a connection"
            connection.dataReceived(b"and more")
            assert not line.sent
        if self.chance.random() < 0.97:
            connection.connectionLost()

    # -- those who behave ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """They hear everything; what they ask for is answered."""
        self.clock.advance(0)
        connection, line = self._well["ouch"]
        before = line.take()
        self._heard["ouch"] += before
        connection.dataReceived(encode_packet(UNSEQUENCED, corpus.ouch5_query()))
        answer = line.take()
        assert answer[2:4] == b"SQ", f"expected an answer to a query, was {answer[:40]!r}"
        self._heard["ouch"] += answer
        self.clock.advance(0)  # an order may expire at the query's time, and its end is told in the next turn
        for name, (_, each) in self._well.items():
            assert not each.disconnecting, f"the {name} connection that behaves was closed: {bytes(each.sent[-200:])!r}"
            self._heard[name] += each.take()
        self.exchange.market._check()

    def finish(self) -> None:
        """All that was said was heard; the exchange ends in good order."""
        self.check()
        for name in ("itch", "text"):
            records = self.exchange.feeds[name].records
            feed, heard = records.read(0, records.size_bytes), _sequenced(name, self._heard[name])
            assert heard == feed, f"expected {len(feed)} bytes of the {name} feed, was {len(heard)}"
        for server in self.servers.values():
            server.close()
        self.exchange.close()


def _sequenced(name: str, data: bytes) -> bytes:
    """What is numbered of what was heard."""
    if name == "text":
        lines = data.splitlines(keepends=True)[1:]
        return b"".join(line for line in lines if b",H," not in line)
    found, at = [], 0
    while at < len(data):
        end = at + 2 + (data[at] << 8 | data[at + 1])
        if data[at + 2] == ord("S"):
            found.append(data[at:end])
        at = end
    return b"".join(found)


TARGETS = ("soup", "login", "ouch5", "ouch42", "text", "mold")
"""What can be fuzzed."""
