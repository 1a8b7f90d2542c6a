"""The feed that a runtime is begun with: its source, the gate before it, its adaptor, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from runtime.engine.ingest import EpochWriter, Origin
from runtime.epochs import Cut
from runtime.service.config import LiveConfig
from runtime.service.feeds import columns_read, make_adaptor, make_source
from runtime.service.lag import Lags
from runtime.sources import Gate, Position

__all__ = ["FEED", "FEED_ID", "Feed"]

FEED: Final = "feed"
"""Its name among the origins."""
FEED_ID: Final = 0
"""Its number among them."""


class Feed:
    """Made once; what it has applied belongs to the ingest, the rest to the reactor's thread."""

    def __init__(
        self, reactor: Any, config: LiveConfig, address: tuple[str, int], writer: EpochWriter, lags: Lags
    ) -> None:
        """``address``: host and port of the exchange's feed."""
        cut = writer.recovered.cuts.get(FEED, Cut("", 0, 0)) if writer.recovered else Cut("", 0, 0)
        self._source = make_source(config.protocol, reactor, address, FEED_ID)
        self._adaptor = make_adaptor(config.protocol, writer.space, FEED, config.retention, cut)
        self.gate = Gate(self._source, lambda raw: lags.arrived(raw.offset, reactor.seconds()))
        """Lets its bytes in, or not."""
        self.origin = Origin(
            FEED_ID,
            FEED,
            self.gate,
            self._adaptor,
            Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples),
            pushdown=columns_read(self._adaptor),
            defer=reactor.callFromThread,
        )

    @property
    def is_connected(self) -> bool:
        """Whether the exchange is heard."""
        return self._source.is_connected

    def counters(self) -> Mapping[str, int]:
        """What its adaptor has counted."""
        return self._adaptor.counters()
