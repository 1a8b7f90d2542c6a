"""Origins that are added and removed while an ingest runs: the table of origins, and its changes at a cut."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pyarrow as pa

from runtime.engine.ingest.origin import Origin
from runtime.engine.ingest.upstream import SharedOrigins, Upstream, UpstreamInlet
from runtime.epochs import Cut

__all__ = ["AtCut", "OnSealed", "OriginTable", "Turnover"]

AtCut = Callable[[], Mapping[str, pa.RecordBatch]]
"""Function that is called once, on the worker that cuts, when every origin may be cut and no commit is in progress.
The epoch that closes there is the one after the writer's newest. The function may change the object space,
and returns deltas; both belong to that epoch."""
OnSealed = Callable[[int | None], None]
"""Function that is called once, on any thread, with the number of the epoch that has the sealed content, or with None
if the ingest has ended without such an epoch."""


class Turnover(msgspec.Struct, frozen=True, eq=False):
    """Change of origins at a barrier."""

    at_cut: AtCut
    """Function that saves the change at the cut."""
    begins: Callable[[], Origin] | None = None
    """Function that creates a new origin, which is in this cut and later ones, and is opened once the epoch is
    committed; None if no origin is added."""
    ends: str = ""
    """Name of an origin that is removed: this cut and later ones lack it, and its pending input is dropped."""


class OriginTable:
    """Origins of an ingest, by their numbers.

    The applying step changes the table, and any thread may read it, because each change replaces the mappings.
    """

    def __init__(
        self,
        origins: Mapping[int, Origin],
        upstreams: Mapping[int, tuple[Upstream, UpstreamInlet]] | None = None,
        shared: SharedOrigins | None = None,
    ) -> None:
        self.origins: Mapping[int, Origin] = dict(origins)
        """Origins that each cut includes, by number."""
        self.upstreams: Mapping[int, tuple[Upstream, UpstreamInlet]] = dict(upstreams or {})
        """Upstreams, each with its inlet, by number; unchanged while the ingest runs."""
        self._shared = shared

    def cuts(self) -> dict[str, Cut]:
        """Return the cut of every origin for the epoch that closes now; save the positions of upstreams.

        Raises `EngineError` if an upstream reads the runtime's own feed, too.
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
