"""Upstreams in an ingest: how their epochs enter the plan, and how each upstream is cut.

```
Follower ──UpstreamEpoch──▶ UpstreamInlet ──▶ Applying        no formatter, no adaptor: the input is deltas already
```

An epoch of this runtime contains all of an upstream's epoch or none of it, so the number of the newest upstream epoch
is the complete position. This number is in the cuts, with the cuts of the upstream's own origins. The transaction that
commits the cuts also stores the number in the object space, with the checksum that the next epoch must follow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from runtime.engine.errors import EngineError
from runtime.engine.plan import Emitter, Source
from runtime.epochs import Cut
from runtime.state import ObjectSpace, PersistedDictionary, PersistedValue, Schema
from runtime.upstreams import Follower, UpstreamEpoch, UpstreamPosition, UpstreamSink

__all__ = ["FEED_ORIGIN", "SharedOrigins", "Upstream", "UpstreamInlet", "kept_names", "kept_position"]

FEED_ORIGIN: Final = "feed"
"""Name, in every runtime, of the origin that reads the exchange's feed."""
_PREFIX: Final = "upstream/"
_SYMBOLS: Final = "upstreams/symbols"
_MOST_SYMBOLS: Final = 1_000_000
"""Greatest number of symbols of all upstreams."""


class KeptUpstream(msgspec.Struct, frozen=True):
    """State of an upstream in the object space."""

    position: UpstreamPosition | None = None
    """Position after the last epoch that was applied; None before the first."""
    cuts: dict[str, Cut] = {}
    """Cuts of the upstream's origins at that position."""


def kept_position(space: ObjectSpace, name: str) -> UpstreamPosition | None:
    """Return the position after the last applied epoch of an upstream; None before the first."""
    return _kept(space, name).value.position


def kept_names(space: ObjectSpace) -> list[str]:
    """Return the names of the upstreams with saved state, even if none of their epochs was applied."""
    return sorted(name.removeprefix(_PREFIX) for name in space if name.startswith(_PREFIX))


def _kept(space: ObjectSpace, name: str) -> PersistedValue[KeptUpstream]:
    return space.get_or_create(
        PersistedValue[KeptUpstream], f"{_PREFIX}{name}", Schema(KeptUpstream), initial=KeptUpstream()
    )


class SharedOrigins:
    """Registry of symbols and of the sessions of feeds; each symbol and each session may come from one origin only.

    It is owned by the worker that applies.
    """

    def __init__(self, space: ObjectSpace) -> None:
        self._owners: PersistedDictionary[str, str] = space.get_or_create(
            PersistedDictionary[str, str], _SYMBOLS, Schema(str, str)
        )
        self._sessions: dict[str, str] = {}

    def take_session(self, origin: str, cut: Cut) -> None:
        """Record that an origin, given as its path, reads the cut's session, if the origin is an exchange's feed.

        Raise `EngineError` if another origin reads the same session.
        """
        if origin.rpartition("/")[2] != FEED_ORIGIN or not cut.session:
            return
        owner = self._sessions.setdefault(cut.session, origin)
        if owner != origin:
            raise EngineError(
                f"expected feeds that differ, was session {cut.session} as both {owner} and {origin}: every message "
                "of it would count twice"
            )

    def take_symbols(self, origin: str, symbols: tuple[str, ...]) -> None:
        """Record that these symbols come from an origin; raise `EngineError` if they also come from another origin."""
        for symbol in symbols:
            owner = self._owners.get(symbol)
            if owner is None:
                if len(self._owners) >= _MOST_SYMBOLS:
                    raise EngineError(f"expected at most {_MOST_SYMBOLS} symbols of upstreams, was one more")
                self._owners[symbol] = origin
            elif owner != origin:
                raise EngineError(
                    f"expected symbols of {owner} and {origin} that differ, was {symbol!r} in both: prefix symbols "
                    "with the names of their upstreams (--upstream-symbols prefixed), or add up their books (shared)"
                )


class Upstream:
    """State of one upstream in the ingest; owned by the worker that applies, except the follower."""

    def __init__(self, follower: Follower, space: ObjectSpace, shared: SharedOrigins) -> None:
        self.follower = follower
        """Follower that reads the upstream's epochs."""
        self.origin_id = follower.log.origin_id
        self.name = follower.log.name
        self._kept = _kept(space, self.name)
        self._shared = shared
        self._position = self._kept.value.position
        self._cuts: Mapping[str, Cut] = self._kept.value.cuts
        for origin, cut in self._cuts.items():
            shared.take_session(origin, cut)

    @property
    def position(self) -> UpstreamPosition | None:
        """Position after the last epoch that was applied."""
        return self._position

    def check(self, epoch: UpstreamEpoch) -> None:
        """Raise `EngineError` if an epoch must not be applied."""
        before = self._position
        if before is not None and epoch.position.epoch != before.epoch + 1:
            raise EngineError(f"expected epoch {before.epoch + 1} of upstream {self.name}, was {epoch.position.epoch}")
        for origin, cut in epoch.cuts.items():
            self._shared.take_session(origin, cut)
        self._shared.take_symbols(self.name, epoch.symbols)

    def applied(self, epoch: UpstreamEpoch) -> None:
        """Note that all of an epoch is in the open epoch."""
        self._position, self._cuts = epoch.position, epoch.cuts

    def cuts(self) -> Mapping[str, Cut]:
        """Return the cuts of the upstream and its own origins if the epoch closes now."""
        return self._cuts

    def at_cut(self) -> None:
        """Save the position and the cuts with the epoch that closes here."""
        if self._position != self._kept.value.position:
            self._kept.value = KeptUpstream(self._position, dict(self._cuts))


class UpstreamInlet(Source, UpstreamSink):
    """Connection of a follower to the engine.

    The follower's thread calls `offer` and `failed`, workers call the other methods.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._follower = upstream.follower
        self._emit: Emitter | None = None

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._follower.log.directory}"

    def open(self, emit: Emitter) -> None:
        """See `Source`."""
        self._emit = emit
        self._follower.open(self)

    def close(self) -> None:
        """See `Source`."""
        self._follower.close()

    def resume(self) -> None:
        """See `Source`."""
        self._follower.resume()

    def offer(self, epoch: UpstreamEpoch) -> bool:
        """See `UpstreamSink`."""
        return self._emit is not None and self._emit.offer(epoch, max(1, epoch.size))

    def failed(self, reason: str) -> None:
        """Fail the query, because later epochs would be wrong; see `UpstreamSink`."""
        if self._emit is not None:
            self._emit.failed(reason)

    def retire(self) -> None:
        """End the source of the engine, as the upstream is no longer needed."""
        if self._emit is not None:
            self._emit.end_of_stream()
