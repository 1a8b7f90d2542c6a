"""What a live runtime was started to read: an exchange's feed, other runtimes' logs, or both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred

from runtime.engine.ingest import EpochWriter, Origin
from runtime.engine.ingest.upstream import kept_names
from runtime.service.config import LiveConfig
from runtime.service.errors import ServiceError
from runtime.service.health.lag import Lags
from runtime.service.inputs.feed import FEED, FEED_ID, Feed
from runtime.service.inputs.upstreams import Upstreams, begin_symbols, check_upstreams

__all__ = ["Inputs", "check_inputs"]


def check_inputs(config: LiveConfig, writer: EpochWriter) -> None:
    """Raise `ServiceError` for inputs that cannot be, or that do not fit what the run directory was begun with."""
    if config.feed is None and not config.upstreams:
        raise ServiceError("expected a feed or an upstream to read, was neither")
    if config.feed is None and writer.recovered and FEED in writer.recovered.cuts:
        raise ServiceError(f"expected --feed again, whose rows are in {config.directory}, was none")
    check_upstreams(config.upstreams, config.directory, kept_names(writer.space))
    if config.upstreams:
        begin_symbols(writer.space, config.upstream_symbols, config.directory)


class Inputs:
    """Made once, before the ingest; on the reactor's thread."""

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
        """Of a configuration that `check_inputs` has let through."""
        self.upstreams = Upstreams(
            reactor,
            config.upstreams,
            config.directory,
            writer,
            symbols=config.upstream_symbols,
            now_ns=now_ns,
            in_thread=in_thread,
        )
        """Other runtimes."""
        self.feed = Feed(reactor, config, config.feed, writer, lags) if config.feed is not None else None
        """The exchange, if it is read here."""
        self._is_paused = False

    @property
    def names(self) -> tuple[str, ...]:
        """Of all of them, the feed first."""
        return (*((FEED,) if self.feed else ()), *self.upstreams.names)

    def origins(self) -> dict[int, Origin]:
        """Those that bring bytes, by number."""
        return {FEED_ID: self.feed.origin} if self.feed else {}

    @property
    def is_heard(self) -> bool:
        """Whether the views say anything about the market: the feed is heard, and of several upstreams any.

        An upstream that is late or gone does not silence what the others say; its state is told.
        """
        if self.feed is not None and not self.feed.is_connected:
            return False
        return not self.upstreams.names or len(self.upstreams.silent) < len(self.upstreams.names)

    @property
    def disconnected(self) -> int:
        """How many of them are not heard."""
        return int(self.feed is not None and not self.feed.is_connected) + len(self.upstreams.silent)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is let in."""
        return self._is_paused

    def pause(self, is_paused: bool) -> None:
        """Let nothing in, or go on."""
        self._is_paused = is_paused
        if self.feed is not None:
            self.feed.gate.shut() if is_paused else self.feed.gate.let_in()
        self.upstreams.pause(is_paused)

    def counters(self) -> Mapping[str, int]:
        """What the feed's adaptor has counted, and the messages of all."""
        own = self.feed.counters() if self.feed else {"messages": 0, "live_orders": 0, "unknown_orders": 0}
        return {**own, "messages": own["messages"] + self.upstreams.messages}
