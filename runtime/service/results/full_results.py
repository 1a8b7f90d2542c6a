"""Full results: a version of all views on Spark in one segment of the result log, from which a restart resumes.

A full result is built as a restart would restore a hub, from the previous full result and the results since then. A
full result has the state of such a hub: the catalogue, the rows, the reasons of failed views, and the first epoch of
each view.
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
"""Attribute of the footer that has the `_Kept` record."""


class _Kept(msgspec.Struct, frozen=True):
    """State of a hub without the views' rows, stored as an attribute of the footer."""

    since: dict[str, int]
    """View → its first epoch."""
    updates: int
    """Number of changes of views so far."""


def restore(hub: Hub, results: ResultLog) -> None:
    """Bring a new hub to the newest version of a result log; raises `EpochLogError` if the log is damaged."""
    for segment in results.read_all():
        hub.restore(segment)
        if (kept := segment.footer.attributes.get(_KEPT)) is not None:
            known = msgspec.json.decode(kept, type=_Kept)
            hub.since.update({name: epoch for name, epoch in known.since.items() if name in hub.since})
            hub.updates = known.updates


def _record(program: Program, lane: Lane) -> Program:
    """Return a program with the views that Spark maintains, even if subscribers read them from the express lane."""
    part = lane_program(program, lane)
    views = tuple(msgspec.structs.replace(view, lane=lane) for view in part.views)
    return msgspec.structs.replace(part, views=views)


def put_full(results: ResultLog, begun_with: Program) -> None:
    """Append a full result of the newest version to the log; ``begun_with`` is the first program."""
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
