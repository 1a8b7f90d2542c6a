"""Settings of an exchange's process for all of Python and Twisted."""

from __future__ import annotations

import atexit
import gc
from importlib import import_module
from typing import Any, Final, Literal

from twisted.internet.error import ReactorAlreadyInstalledError

from deltabook.wire.process import count_steadily
from exchange_server.errors import ExchangeConfigurationError

__all__ = ["ReactorName", "choose_reactor", "settle"]

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
