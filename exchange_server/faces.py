"""The servers of an exchange: their ports, their connections, and how they open and close."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from twisted.internet.error import CannotListenError

from deltabook.wire.access import PortSecurity
from exchange_server.config import ExchangeConfig
from exchange_server.errors import ExchangeConfigurationError, ListenError
from exchange_server.exchange import Exchange
from exchange_server.logins import LoginGate, UsersWatch
from exchange_server.nasdaq.glimpse import GlimpseServer
from exchange_server.nasdaq.itch import ItchEncoder, ItchServer
from exchange_server.nasdaq.mold import MoldRequestServer, MoldSender
from exchange_server.nasdaq.ouch import OuchServer
from exchange_server.nasdaq.soup import SoupServer
from exchange_server.text import TextServer

__all__ = ["Faces"]

_SENDER: Final = "mold"
"""Purpose of the port from which datagrams are sent; it receives nothing."""


class Faces:
    """Servers that a configuration requests, for one exchange and on one reactor."""

    def __init__(
        self,
        config: ExchangeConfig,
        exchange: Exchange,
        itch: ItchEncoder | None,
        reactor: Any,
        stop: Callable[[str], None],
    ) -> None:
        """Create the servers.

        ``itch`` is the encoder of the ITCH feed, or None without that feed; ``stop`` ends the exchange with a reason.
        """
        self._config = config
        self._reactor = reactor
        self._ports: dict[str, Any] = {}
        self._ouch: OuchServer | None = None
        self._sender: MoldSender | None = None
        self._requests: MoldRequestServer | None = None
        self.tcp: dict[str, tuple[int, Any]] = {}
        """Requested port and server, by purpose."""
        self._users = UsersWatch(Path(config.users_file), reactor) if config.users_file else None
        gate = self._users.gate if self._users is not None else None
        if config.port is not None:
            self.tcp["text"] = config.port, TextServer(exchange, reactor, config.limits.text, stop)
        if itch is not None:
            self._make_itch(exchange, itch, gate)
        if config.ouch_port is not None and gate is not None:
            self._ouch = OuchServer(exchange, gate, reactor, config.limits.ouch, stop)
            self.tcp["ouch"] = config.ouch_port, self._ouch

    def _make_itch(self, exchange: Exchange, itch: ItchEncoder, gate: LoginGate | None) -> None:
        config, reactor = self._config, self._reactor
        if config.itch_port is not None:
            self.tcp["itch"] = config.itch_port, ItchServer(exchange, itch, reactor, config.limits.itch, gate)
        if config.glimpse_port is not None:
            self.tcp["glimpse"] = (
                config.glimpse_port,
                GlimpseServer(exchange, itch, reactor, config.limits.glimpse, gate),
            )
        if config.mold_to:
            stream = exchange.feeds["itch"]
            self._sender = MoldSender(
                stream,
                exchange.session,
                reactor,
                _destination(config.mold_to),
                is_over=lambda: itch.is_over,
                interface=config.interface,
            )
            if config.mold_port is not None:
                self._requests = MoldRequestServer(stream.records, exchange.session, reactor, config.limits.mold)

    @property
    def servers(self) -> dict[str, Any]:
        """Servers with connections, by purpose."""
        return {purpose: server for purpose, (_, server) in self.tcp.items()}

    def open(self) -> dict[str, int]:
        """Open the ports; return them by purpose.

        Raise `ListenError` if a port cannot be opened; ports already open stay open.
        """
        if self._ouch is not None:
            self._ouch.start()
        if self._users is not None:
            self._users.start(self._users_changed)
        for purpose, (port, server) in self.tcp.items():
            self.listen(purpose, port, server, self._config.interface)
        where, reactor = self._config.interface, self._reactor
        if self._requests is not None:
            self._listen("mold-requests", self._config.mold_port or 0, where, reactor.listenUDP, self._requests)
        if self._sender is not None:
            # Only a multicast port allows a choice of the sending address; such a port can send to any address.
            self._listen(_SENDER, 0, where, reactor.listenMulticast, self._sender)
        return self.ports

    def _users_changed(self, gone: Collection[str]) -> None:
        """Adopt a changed users file: end the sessions of users in ``gone`` and apply new settings of accounts."""
        for _, server in self.tcp.values():
            if isinstance(server, SoupServer):
                server.end_sessions(gone)
        if self._ouch is not None:
            self._ouch.apply_user_settings()

    def listen(
        self, purpose: str, port: int, server: Any, interface: str, security: PortSecurity | None = None
    ) -> None:
        """Open one more TCP port, with TLS if its security requires it."""

        def secured(number: int, factory: Any, interface: str) -> Any:
            assert security is not None
            return security.listen(self._reactor, number, factory, interface)

        self._listen(purpose, port, interface, secured if security else self._reactor.listenTCP, server)

    def _listen(self, purpose: str, port: int, interface: str, listen: Callable[..., Any], server: Any) -> None:
        try:
            self._ports[purpose] = listen(port, server, interface=interface)
        except CannotListenError as error:
            raise ListenError(f"expected a free port, was {interface}:{port}: {error.socketError}") from error

    @property
    def ports(self) -> dict[str, int]:
        """Ports that clients may connect or send to, by purpose."""
        return {purpose: port.getHost().port for purpose, port in self._ports.items() if purpose != _SENDER}

    @property
    def listeners(self) -> int:
        """Number of connections that receive the feed, as text or as ITCH over SoupBinTCP."""
        return sum(self.tcp[name][1].listeners for name in ("text", "itch") if name in self.tcp)

    @property
    def itch_listeners(self) -> int:
        """Number of listeners of the ITCH feed over SoupBinTCP."""
        return int(self.tcp["itch"][1].listeners) if "itch" in self.tcp else 0

    @property
    def clients(self) -> int:
        """Number of connections that may send orders."""
        return sum(self.tcp[name][1].clients for name in ("text", "ouch") if name in self.tcp)

    @property
    def farthest_behind_bytes(self) -> int:
        """Number of bytes by which the slowest reader is behind; on the text port, only listeners of the feed are
        counted.
        """
        return max((server.farthest_behind_bytes for _, server in self.tcp.values()), default=0)

    def close(self, *, send: bool) -> None:
        """Close the ports.

        With ``send``, also execute the pending requests, send all messages and close every connection.
        """
        if self._users is not None:
            self._users.stop()
        for purpose, port in self._ports.items():
            if purpose in self.tcp:
                port.stopListening()
        if send:
            for _, server in self.tcp.values():
                server.close()
            if self._sender is not None:
                self._sender.close()
        for purpose, port in self._ports.items():
            if purpose not in self.tcp:
                port.stopListening()


def _destination(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    numbers = host.split(".")
    if not (
        len(numbers) == 4
        and all(n.isascii() and n.isdigit() and int(n) < 256 for n in numbers)
        and port.isascii()
        and port.isdigit()
        and 0 < int(port) < 65536
    ):
        raise ExchangeConfigurationError(f"expected an IPv4 address and a port (HOST:PORT) for datagrams, was {text!r}")
    return host, int(port)
