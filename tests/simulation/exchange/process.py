"""One process of the exchange: everything from the journal to the ports, on a simulated disk and clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from twisted.internet import defer
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock

from exchange_server.day import MarketClock
from exchange_server.exchange import Exchange
from exchange_server.journal import Journal
from exchange_server.logins import LoginGate, User
from exchange_server.matching.inputs import AnyInput
from exchange_server.matching.outputs import Now
from exchange_server.nasdaq.itch import ItchEncoder, ItchServer
from exchange_server.nasdaq.ouch import Ouch5, Ouch42, OuchLimits, OuchServer
from exchange_server.nasdaq.soup import SoupLimits
from exchange_server.text.protocol import TextEncoder, TextProtocol
from exchange_server.text.server import TextLimits, TextServer
from tests.simulation.exchange.disk import SimulatedDisk
from tests.simulation.exchange.shape import Shape

__all__ = ["DIRECTORY", "Process"]

DIRECTORY: Final = Path("/exchange")
SESSION: Final = "SIM0000001"


class _Exchange(Exchange):
    """Reports which inputs are about to be journalled, and that they were applied."""

    before: Callable[[Sequence[AnyInput]], None]
    after: Callable[[], None]

    def submit(self, batch: Sequence[AnyInput]) -> list[int | str]:
        if batch:
            self.before(batch)
        results = super().submit(batch)
        if batch:
            self.after()
        return results


class Process:
    """Process of the exchange from a start to a crash or a stop.

    Raises the errors of the exchange's start. ``anchor_ns`` is its wall clock at the start.
    """

    def __init__(
        self,
        disk: SimulatedDisk,
        shape: Shape,
        users: dict[str, User],
        now_s: float,
        anchor_ns: int,
        before: Callable[[Sequence[AnyInput]], None],
        after: Callable[[], None],
        recovered: Callable[[Process], None],
    ) -> None:
        self.clock = Clock()
        self.clock.rightNow = now_s
        self.failure = ""
        """Reason why it stopped by itself, empty if it did not."""
        now, rules = Now(), shape.rules
        self.itch = ItchEncoder(rules, now)
        encoders = {"text": TextEncoder(rules, now), "itch": self.itch}
        protocols = [TextProtocol(rules), Ouch5(rules), Ouch42(rules)]
        journal = Journal(DIRECTORY, rules, lambda: SESSION, shape.fsync, keep=shape.keep, disk=disk)
        try:
            market_clock = MarketClock(self.clock.seconds, anchor_ns)
            self.exchange = _Exchange(journal, market_clock, encoders, protocols, now)
        except BaseException:
            journal.close()
            raise
        self.exchange.before, self.exchange.after = before, after
        recovered(self)
        gate = LoginGate(users, self.clock, in_thread=lambda call: defer.succeed(call()))
        timers: Any = self.clock
        text = TextServer(
            self.exchange,
            timers,
            shape.limits(TextLimits, account=shape.account_limits, self_trade=shape.self_trade),
            self.fail,
        )
        ouch = OuchServer(self.exchange, gate, timers, shape.limits(OuchLimits), self.fail)
        itch = ItchServer(self.exchange, self.itch, timers, shape.limits(SoupLimits))
        self.faces: dict[str, Any] = {"text": text, "itch": itch, "ouch": ouch}
        text.startFactory()
        ouch.start()

    def connect(self, face: str, port: int) -> Any:
        """Return the exchange's end of a new connection."""
        return self.faces[face].buildProtocol(IPv4Address("TCP", "127.0.0.1", port))

    def fail(self, reason: str) -> None:
        """Note that the journal cannot be written: the process must end."""
        self.failure = self.failure or reason

    def stop(self) -> None:
        """Stop in order."""
        for face in self.faces.values():
            face.close()
        self.exchange.close()
