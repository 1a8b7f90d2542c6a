"""Feed of the exchange as an input, with its source, its adaptor and its position."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from deltabook.wire.directories import this_process
from runtime.engine.ingest import EpochWriter, Origin
from runtime.epochs import Cut
from runtime.formats import RawBuffer
from runtime.service.config import LiveConfig
from runtime.service.health.lag import Lags
from runtime.service.inputs.protocols import make_adaptor, make_source
from runtime.sources import Backoff, Position
from runtime.upstreams import SessionClaim, SessionClaims, UpstreamError

__all__ = ["FEED", "FEED_ID", "ExchangeFeed"]

_NO_LIMIT: Final = 1 << 30
"""Number of attempts to connect that is never reached."""

FEED: Final = "feed"
"""Name of the feed's origin."""
FEED_ID: Final = 0
"""Number of the feed's origin."""


class ExchangeFeed:
    """Feed of the exchange. The adaptor's state belongs to the ingest, everything else to the reactor's thread."""

    def __init__(
        self, reactor: Any, config: LiveConfig, address: tuple[str, int], writer: EpochWriter, lags: Lags
    ) -> None:
        """Create the feed's origin; ``address`` is the host and port of the exchange's feed."""
        self._reactor = reactor
        self._lags = lags
        self._claim = config.system and SessionClaims(config.system)
        self._holder = this_process(run=config.run_id)
        self._log = writer.log
        self.on_refused: Callable[[str], None] = lambda _: None
        """Called with the reason if the feed may not be read, because another runtime reads its session."""
        cut = writer.recovered.cuts.get(FEED, Cut("", 0, 0)) if writer.recovered else Cut("", 0, 0)
        backoff = Backoff(attempts=config.feed_attempts or _NO_LIMIT)
        self._source = make_source(config.protocol, reactor, address, FEED_ID, backoff)
        self._adaptor = make_adaptor(config.protocol, writer.space, FEED, config.retention, cut)
        self.origin = Origin(
            FEED_ID,
            FEED,
            self._source,
            self._adaptor,
            Position(cut.session, cut.sequence + 1, cut.offset, cut.tuples),
            defer=reactor.callFromThread,
        )
        self.gate = self.origin.inlet
        """Inlet that admits the feed's bytes or holds them back."""
        self.gate.on_let_in = self._admit

    def _admit(self, raw: RawBuffer) -> None:
        claims, self._claim = self._claim, None
        if claims:  # called with the first bytes, when the session is known
            self._take_session(claims)
        self._lags.arrived(raw.offset, self._reactor.seconds())

    def _take_session(self, claims: SessionClaims) -> None:
        directory = str(self._log.directory.parent.resolve())
        claim = SessionClaim(self._source.session, self._log.identity(), directory, self._holder)
        try:
            claims.take(claim)
        except (UpstreamError, OSError) as error:
            self.gate.shut()
            self.on_refused(str(error))

    @property
    def is_connected(self) -> bool:
        """True while the exchange is connected."""
        return self._source.is_connected

    def counters(self) -> Mapping[str, int]:
        """Return the counters of the adaptor."""
        return self._adaptor.counters()
