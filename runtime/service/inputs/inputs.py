"""Inputs of a live runtime: an exchange's feed, other runtimes' logs, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from runtime.engine.ingest import EpochWriter, Origin
from runtime.engine.ingest.upstream import kept_names
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.health.lag import Lags
from runtime.service.inputs.feed import FEED, FEED_ID, ExchangeFeed
from runtime.service.inputs.upstreams import Upstreams, begin_symbols, check_upstreams

__all__ = ["Inputs", "check_inputs"]


def check_inputs(config: LiveConfig, writer: EpochWriter) -> None:
    """Raise `ServiceError` for inputs that are invalid, or that do not fit the run directory."""
    if config.feed is None and not config.upstreams:
        raise ServiceError("expected a feed or an upstream to read, was neither")
    if config.feed is None and writer.recovered and FEED in writer.recovered.cuts:
        raise ServiceError(f"expected --feed again, whose rows are in {config.directory}, was none")
    check_upstreams(config.upstreams, config.directory, kept_names(writer.space))
    if config.upstreams:
        begin_symbols(writer.space, config.upstream_symbols, config.directory)


class Inputs:
    """Feed and upstreams of one runtime, created before the ingest. Belongs to the reactor's thread."""

    def __init__(
        self,
        reactor: Any,
        config: LiveConfig,
        writer: EpochWriter,
        lags: Lags,
        *,
        now_ns: Callable[[], int],
        in_thread: Callable[[Callable[[], Any]], Deferred[Any]],
    ) -> None:
        """Create the inputs; ``config`` must have passed `check_inputs`."""
        self.upstreams = Upstreams(
            reactor,
            config.upstreams,
            config.directory,
            writer,
            symbols=config.upstream_symbols,
            now_ns=now_ns,
            in_thread=in_thread,
        )
        """Other runtimes whose epochs are read."""
        self.feed = ExchangeFeed(reactor, config, config.feed, writer, lags) if config.feed is not None else None
        """Feed of the exchange; None if it is not read here."""
        self.has_ended = False
        """True once the inputs have ended and all of their messages are in epochs; set by the owner."""
        self._is_paused = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all inputs, the feed first."""
        return (*((FEED,) if self.feed else ()), *self.upstreams.names)

    def origins(self) -> dict[int, Origin]:
        """Return number → origin, for the inputs that are read as raw buffers: the feed."""
        return {FEED_ID: self.feed.origin} if self.feed else {}

    @property
    def is_receiving(self) -> bool:
        """True if the feed (if any) is connected and one of the upstreams (if any) is being read, or if all inputs have
        ended.

        Views count as fresh even if some upstreams are late or disconnected; the status shows the state of each.
        """
        if self.has_ended:
            return True
        if self.feed is not None and not self.feed.is_connected:
            return False
        return not self.upstreams.names or len(self.upstreams.silent) < len(self.upstreams.names)

    @property
    def disconnected(self) -> int:
        """Number of inputs that are not connected and have not ended."""
        if self.has_ended:
            return 0
        return int(self.feed is not None and not self.feed.is_connected) + len(self.upstreams.silent)

    @property
    def is_paused(self) -> bool:
        """True while all inputs are paused."""
        return self._is_paused

    def pause(self, is_paused: bool) -> None:
        """Pause or resume all inputs."""
        self._is_paused = is_paused
        if self.feed is not None:
            self.feed.gate.shut() if is_paused else self.feed.gate.let_in()
        self.upstreams.pause(is_paused)

    def counters(self) -> Mapping[str, int]:
        """Return the counters of the feed's adaptor, with the messages of all inputs."""
        own = self.feed.counters() if self.feed else {"messages": 0, "live_orders": 0, "unknown_orders": 0}
        return {**own, "messages": own["messages"] + self.upstreams.messages}
