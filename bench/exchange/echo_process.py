"""``python -m bench.exchange.echo_process``: answers every message with as many bytes as an acknowledgement has.

This is the least work of a server on the same reactor: the rest of an order's time is spent by the exchange.
"""

from __future__ import annotations

import sys
from typing import Any

from twisted.internet import reactor as _reactor
from twisted.internet.protocol import Factory, Protocol

from bench.exchange.crowd import ACCEPTED_BYTES

__all__ = ["main"]


class _Echo(Protocol):
    transport: Any

    def connectionMade(self) -> None:
        """Send without delay."""
        self.transport.setTcpNoDelay(True)

    def dataReceived(self, data: bytes) -> None:
        """Send the answer."""
        del data
        self.transport.write(bytes(ACCEPTED_BYTES))


def main() -> None:
    """Print the port, then serve until killed."""
    reactor: Any = _reactor
    factory = Factory.forProtocol(_Echo)
    factory.noisy = False
    port = reactor.listenTCP(0, factory, interface="127.0.0.1")
    sys.stdout.write(f"{port.getHost().port}\n")
    sys.stdout.flush()
    reactor.run()


if __name__ == "__main__":
    main()
