# mypy: disable-error-code="no-untyped-call"
# Twisted is typed in part only.
"""Port of a runtime: its check, opening and closing."""

from __future__ import annotations

import socket
from typing import Any

from deltabook.wire.errors import AccessError
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError

__all__ = ["ServicePort"]


class ServicePort:
    """Port on the runtime's interface, closed until `open`. Belongs to the reactor's thread."""

    def __init__(self, reactor: Any, config: LiveConfig, number: int) -> None:
        """Check the port; ``number`` is 0 for any free port.

        Raises `ServiceError`, before any part is started, for a port that is taken or lacks access control. The check
        opens the port without the reactor, because the reactor can close a port only while it runs.
        """
        self._reactor = reactor
        self._config = config
        self._number = number
        self._port: Any = None
        try:
            config.security.check(config.interface)
        except AccessError as error:
            raise ServiceError(str(error)) from None
        if number:
            where = config.interface
            try:
                family = socket.AF_INET6 if ":" in where else socket.AF_INET
                socket.create_server((where, number), family=family).close()
            except OSError as error:
                raise ServiceError(f"expected a free port, was {where}:{number}: {error}") from None

    def open(self, factory: Any, *, begins_plain: bool = False) -> int:
        """Start to listen, and return the number of the port.

        If a key is configured, connections are encrypted from their first byte on, except with ``begins_plain``: then
        the protocol starts TLS itself.
        """
        config = self._config
        if begins_plain:
            self._port = self._reactor.listenTCP(self._number, factory, interface=config.interface)
        else:
            self._port = config.security.listen(self._reactor, self._number, factory, config.interface)
        number: int = self._port.getHost().port
        return number

    def close(self) -> None:
        """Accept no more connections."""
        if self._port is not None:
            self._port.stopListening()
