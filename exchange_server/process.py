"""Settings of the exchange's process: its reactor, its garbage collection, and the reactor's sleep between requests."""

from __future__ import annotations

import atexit
import gc
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from twisted.internet.error import ReactorAlreadyInstalledError

from deltabook.wire.process import count_steadily
from exchange_server.errors import ExchangeConfigurationError

__all__ = ["ReactorName", "Wakefulness", "choose_reactor", "freeze_objects"]

ReactorName = Literal["default", "epoll", "poll", "select", "asyncio"]

_REACTORS: Final = {
    "epoll": "epollreactor",
    "poll": "pollreactor",
    "select": "selectreactor",
    "asyncio": "asyncioreactor",
}
_THRESHOLDS: Final = (50_000, 20, 100)


def choose_reactor(name: ReactorName) -> Any:
    """Install and return the reactor of this name, before any other is installed.

    Raise `ExchangeConfigurationError` if the reactor is not available.
    """
    if name != "default":
        try:
            import_module(f"twisted.internet.{_REACTORS[name]}").install()
        except (ImportError, AttributeError) as error:
            raise ExchangeConfigurationError(f"expected a reactor of this machine, was {name}: {error}") from error
        except ReactorAlreadyInstalledError as error:
            raise ExchangeConfigurationError(f"expected to choose a reactor first, was {name} after another") from error
    from twisted.internet import reactor

    count_steadily(reactor)
    return reactor


def freeze_objects() -> None:
    """Freeze existing objects and make garbage collection rare; call when all long-lived objects exist.

    Books are large, and nearly all of their objects are freed by reference counts, so that a collection that visits all
    of these objects costs time and frees little.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else extension modules report frozen objects as leaks
    gc.set_threshold(*_THRESHOLDS)


_CHECK_S: Final = 0.01
"""Time between two checks for new requests, in seconds, while the reactor may sleep."""


class Counted(Protocol):
    """Object with a number of requests, such as an exchange."""

    inputs: int


class Wakefulness:
    """Lets the reactor poll without sleeping for `awake_s` after the latest request, and sleep otherwise.

    The system takes 30-40 µs to wake a sleeping process, three times as long as an order takes here. Polling avoids
    this delay, and keeps a processor busy while requests come. After a pause of more than `awake_s` the reactor sleeps
    between events again, until a check finds new requests.
    """

    def __init__(self, exchange: Counted, reactor: Any, awake_s: float) -> None:
        self._exchange = exchange
        self._reactor = reactor
        self._awake_s = awake_s
        self._inputs = exchange.inputs
        self._until_s = 0.0
        self._call: Any = None

    def start(self) -> None:
        """Start to check for requests."""
        self._turn()

    def stop(self) -> None:
        """Stop checking, and let the reactor sleep."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    @property
    def is_awake(self) -> bool:
        """True if the reactor polls without sleeping."""
        return bool(self._reactor.seconds() < self._until_s)

    def _turn(self) -> None:
        inputs = self._exchange.inputs
        if inputs != self._inputs:
            self._inputs = inputs
            self._until_s = self._reactor.seconds() + self._awake_s
        self._call = self._reactor.callLater(0 if self.is_awake else _CHECK_S, self._turn)
