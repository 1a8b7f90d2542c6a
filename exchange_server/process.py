"""Settings of an exchange's process for all of Python and Twisted; keeping the reactor awake between close requests."""

from __future__ import annotations

import atexit
import gc
from importlib import import_module
from typing import Any, Final, Literal, Protocol

from twisted.internet.error import ReactorAlreadyInstalledError

from deltabook.wire.process import count_steadily
from exchange_server.errors import ExchangeConfigurationError

__all__ = ["ReactorName", "Wakefulness", "choose_reactor", "settle"]

ReactorName = Literal["default", "epoll", "poll", "select", "asyncio"]

_REACTORS: Final = {
    "epoll": "epollreactor",
    "poll": "pollreactor",
    "select": "selectreactor",
    "asyncio": "asyncioreactor",
}
_THRESHOLDS: Final = (50_000, 20, 100)


def choose_reactor(name: ReactorName) -> Any:
    """The reactor of this name, before any other is; raises `ExchangeConfigurationError` where it cannot be had."""
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


def settle() -> None:
    """Call when everything is there that lives to the process's end.

    Books are large and nearly all of what they hold goes by reference counts: a collection that walks through them
    costs more than it finds, so it comes seldom, and passes over what is there now.
    """
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else extension modules report what they see no end of as leaked
    gc.set_threshold(*_THRESHOLDS)


_LOOK_S: Final = 0.01
"""Between two looks at whether requests come, while the reactor may sleep."""


class Counted(Protocol):
    """Counter of requests, such as an exchange."""

    inputs: int


class Wakefulness:
    """Lets the reactor poll without sleeping for `awake_s` after the newest request, and sleep otherwise.

    To wake a process that sleeps takes the system 30-40 µs, three times what an order takes here; faster answers
    cost a processor that is busy while requests come. Requests behind a pause of more than
    `awake_s` find the reactor asleep, and it stays awake from the next look on.
    """

    def __init__(self, exchange: Counted, reactor: Any, awake_s: float) -> None:
        self._exchange = exchange
        self._reactor = reactor
        self._awake_s = awake_s
        self._inputs = exchange.inputs
        self._until_s = 0.0
        self._call: Any = None

    def start(self) -> None:
        """Begin to look."""
        self._turn()

    def stop(self) -> None:
        """Let it sleep."""
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
        self._call = self._reactor.callLater(0 if self.is_awake else _LOOK_S, self._turn)
