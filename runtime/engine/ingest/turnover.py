"""Origins that come and go while an ingest runs: which there are, and what happens at the cut where that changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa

from runtime.engine.ingest.origin import Origin
from runtime.engine.ingest.upstream import SharedOrigins, Upstream, UpstreamInlet
from runtime.epochs import Cut

__all__ = ["AtCut", "OnSealed", "OriginTable", "Turnover"]

AtCut = Callable[[], Mapping[str, pa.RecordBatch]]
"""Called once on the worker that cuts, when every origin stands where it may be cut and no commit is under way: the
epoch that closes there is the one after the writer's newest. It may change the object space, whose edits are of that
epoch, and gives deltas that are of it as well."""
OnSealed = Callable[[int | None], None]
"""Called once, on any thread, with the epoch that has what was to be sealed; with None if the ingest has ended without
such an epoch."""


class Turnover(msgspec.Struct, frozen=True, eq=False):
    """Change of origins at a barrier: those before it differ from those after it."""

    at_cut: AtCut
    """Saves the change at the cut."""
    begins: Callable[[], Origin] | None = None
    """Makes an origin that is in every cut from this one on; it is opened once the epoch is committed."""
    ends: str = ""
    """Name of an origin that is in no cut from this one on; its pending input is dropped."""


class OriginTable:
    """Origins of an ingest, by their numbers.

    It is changed by the step that applies messages, and read by any thread: each change makes new mappings.
    """

    def __init__(
        self,
        origins: Mapping[int, Origin],
        upstreams: Mapping[int, tuple[Upstream, UpstreamInlet]] | None = None,
        shared: SharedOrigins | None = None,
    ) -> None:
        self.origins: Mapping[int, Origin] = dict(origins)
        """Origins that are cut."""
        self.upstreams: Mapping[int, tuple[Upstream, UpstreamInlet]] = dict(upstreams or {})
        """Upstreams, whose epochs come in whole, with their inlets; the same as long as the ingest runs."""
        self._shared = shared

    def cuts(self) -> dict[str, Cut]:
        """Return the cut of every origin as the epoch closes now; save the positions of upstreams.

        Raises `EngineError` if the runtime's own feed is also that of an upstream.
        """
        cuts = {origin.name: origin.cut() for origin in self.origins.values()}
        if self._shared is not None:
            for name, cut in cuts.items():
                self._shared.take_session(name, cut)
        for upstream, _ in self.upstreams.values():
            upstream.at_cut()
            cuts.update(upstream.cuts())
        return cuts

    def begin(self, origin: Origin) -> None:
        """Add an origin."""
        self.origins = {**self.origins, origin.origin_id: origin}

    def end(self, name: str) -> Origin | None:
        """Remove the origin of this name and return it; None if there is none."""
        for number, origin in self.origins.items():
            if origin.name == name:
                self.origins = {n: each for n, each in self.origins.items() if n != number}
                return origin
        return None
