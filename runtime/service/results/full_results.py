"""Full results: a version of every view in one segment, from which a restart goes on.

It is made as a restart would make it, of the full result before it and the results since, and holds what a hub knows:
the catalogue, the rows, which views have failed and why, and since when each is there.
"""

from __future__ import annotations

import time
from typing import Final

import msgspec

from runtime.epochs import Footer, ResultLog
from runtime.plan import Lane, Program, encode_program, lane_program
from runtime.service.results.hub import Hub

__all__ = ["put_full", "restore"]

_KEPT: Final = "hub"


class _Kept(msgspec.Struct, frozen=True):
    """What a hub knows beside the views' rows; an attribute of the footer."""

    since: dict[str, int]
    """View → its first epoch."""
    updates: int
    """Changes of views until then."""


def restore(hub: Hub, results: ResultLog) -> None:
    """Bring a new hub to the newest version of a result log; raises `EpochLogError`."""
    for segment in results.read_all():
        hub.restore(segment)
        if (kept := segment.footer.attributes.get(_KEPT)) is not None:
            known = msgspec.json.decode(kept, type=_Kept)
            hub.since.update({name: epoch for name, epoch in known.since.items() if name in hub.since})
            hub.updates = known.updates


def _record(program: Program, lane: Lane) -> Program:
    """What Spark has published: the views that subscribers read from the express lane are among it."""
    part = lane_program(program, lane)
    views = tuple(msgspec.structs.replace(view, lane=lane) for view in part.views)
    return msgspec.structs.replace(part, views=views)


def put_full(results: ResultLog, begun_with: Program) -> None:
    """Put a full result of the newest version into the log; ``begun_with`` is the first program."""
    hub = Hub(begun_with, time.time_ns, shown=_record)
    restore(hub, results)
    failed = {f"failed/{view}": reason for view, reason in hub.failed.items()}
    kept = msgspec.json.encode(_Kept(hub.since, hub.updates)).decode()
    tables = {view.name: hub.result(view.name).rows().to_batches() for view in hub.views if view.name not in hub.failed}
    footer = Footer(
        0,
        hub.version,
        cuts=hub.cuts,
        time_ns=time.time_ns(),
        control=encode_program(hub.program),
        attributes={**failed, _KEPT: kept},
    )
    results.put_full(tables, footer)
