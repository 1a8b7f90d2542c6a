"""Ports of NASDAQ's protocols where clients only listen."""

from __future__ import annotations

from abc import abstractmethod

from deltabook.wire.soupbin import LoginRequest
from exchange_server.logins import Gate, User
from exchange_server.nasdaq.soup import SoupConnection, SoupLimits, SoupServer
from exchange_server.readers import Timers

__all__ = ["ListeningServer"]


class ListeningServer(SoupServer):
    """Admits the users of the gate, and without a gate every client that reaches the port."""

    def __init__(self, clock: Timers, limits: SoupLimits, gate: Gate | None) -> None:
        super().__init__(clock, limits)
        self._gate = gate

    def log_in(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Look at name and password; a thread may have to."""

        def checked(user: User | None, why_not: str) -> None:
            if user is None:
                connection.reject("A", why_not)
            else:
                self.admit(connection, login)

        if self._gate is None:
            self.admit(connection, login)
        else:
            self._gate.check(login.username, login.password, connection.peer.rpartition(":")[0], checked)

    @abstractmethod
    def admit(self, connection: SoupConnection, login: LoginRequest) -> None:
        """Decide about an authenticated login: `follow` or `reject`."""
