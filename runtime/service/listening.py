# mypy: disable-error-code="no-untyped-call"
# twisted.web is typed in part only.
"""Where the results of a runtime are served: the port, from its check to its end."""

from __future__ import annotations

import socket
from typing import Any

from twisted.web.server import Site

from deltabook.wire.errors import AccessError
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError

__all__ = ["ResultsPort"]


class ResultsPort:
    """One port; closed until `open`. On the reactor's thread."""

    def __init__(self, reactor: Any, config: LiveConfig) -> None:
        """Raises `ServiceError` for a port that is taken or open to strangers, before anything is begun.

        Not tried with the reactor, which would give the port back only once it runs.
        """
        self._reactor = reactor
        self._config = config
        self._port: Any = None
        try:
            config.security.check(config.interface)
        except AccessError as error:
            raise ServiceError(str(error)) from None
        if config.http_port:
            where = config.interface
            try:
                family = socket.AF_INET6 if ":" in where else socket.AF_INET
                socket.create_server((where, config.http_port), family=family).close()
            except OSError as error:
                raise ServiceError(f"expected a free port, was {where}:{config.http_port}: {error}") from None

    def open(self, site: Site) -> int:
        """Serve; gives the number of the port."""
        config = self._config
        self._port = config.security.listen(self._reactor, config.http_port, site, config.interface)
        number: int = self._port.getHost().port
        return number

    def close(self) -> None:
        """Take no more connections."""
        if self._port is not None:
            self._port.stopListening()
