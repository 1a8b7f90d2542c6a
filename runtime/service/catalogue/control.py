"""Changes of the catalogue that wait for their publication."""

from __future__ import annotations

from twisted.logger import Logger

from deltabook.wire.catalogue import AddViews, Changed, ChangedView
from runtime.compiler import NamedSelect, StreamClauses, StreamSelect
from runtime.plan import Program, View, stream_views
from runtime.service.catalogue.catalogue import Catalogue
from runtime.service.errors import CatalogueError
from runtime.service.results.hub import Hub

__all__ = ["Control"]

_DONE, _LATER = 200, 202


class Control:
    """Changes the catalogue and returns the outcome, with the HTTP status.

    A change continues if its caller stops waiting. A change raises `SqlError` for SQL that cannot be compiled, and
    `ServiceError` if it is refused otherwise.
    """

    _log = Logger()

    def __init__(self, hub: Hub, catalogue: Catalogue) -> None:
        self._hub, self._catalogue = hub, catalogue

    async def add(self, wanted: AddViews) -> tuple[int, Changed]:
        """Add views and derived streams together; raise `CatalogueError` for none, and if a view has failed."""
        if not (wanted.views or wanted.streams):
            raise CatalogueError("expected a view or a stream to be added, was none")
        names = [*[stream.name for stream in wanted.streams], *[view.name for view in wanted.views]]
        streams = [
            StreamSelect(
                NamedSelect(stream.name, stream.sql, stream.line, stream.column, stream.file),
                StreamClauses(stream.retain_rows, stream.retain_ns, stream.lateness_ns),
            )
            for stream in wanted.streams
        ]
        selects = [
            NamedSelect(
                view.name,
                view.sql,
                view.line,
                view.column,
                view.file,
                view.lane or "spark",
                any_lane=not view.lane,
                readers=view.readers,
            )
            for view in wanted.views
        ]
        epoch = await self._catalogue.add(selects, streams)
        self._log.info("{names} are kept from epoch {epoch} on", names=", ".join(names), epoch=epoch)
        views = [view for view in _all_views(self._catalogue.program) if view.name in names]
        in_time = await self._is_published(epoch, wanted.timeout_s, views)
        failed = {name: self._hub.failed[name] for name in names if name in self._hub.failed}
        if failed:
            raise CatalogueError(
                "; ".join(
                    f"view {name} failed: {reason} (it stays in the catalogue: `deltabook query drop {name}` drops it)"
                    for name, reason in failed.items()
                )
            )
        return self._changed(epoch, views, in_time=in_time)

    async def drop(self, name: str, timeout_s: float) -> tuple[int, Changed]:
        """Drop a view or a derived stream."""
        views = [view for view in _all_views(self._catalogue.program) if view.name == name]
        epoch = await self._catalogue.drop(name)
        self._log.info("{name} is dropped from epoch {epoch} on", name=name, epoch=epoch)
        return self._changed(epoch, views, in_time=await self._is_published(epoch, timeout_s, views))

    async def _is_published(self, epoch: int, timeout_s: float, views: list[View]) -> bool:
        """Return True if the lanes of these views have published the epoch within the timeout."""
        waiting = [self._catalogue.when_published(epoch, timeout_s, lane) for lane in {view.lane for view in views}]
        return all([await published for published in waiting])

    def _changed(self, epoch: int, views: list[View], *, in_time: bool) -> tuple[int, Changed]:
        changed = tuple(ChangedView(view.name, view.view_class, view.reason, view.lane) for view in views)
        version = min((self._hub.epoch(view.lane) for view in views), default=0)
        return _DONE if in_time else _LATER, Changed(epoch, version, changed)


def _all_views(program: Program) -> tuple[View, ...]:
    """Return the derived streams as views, followed by the views."""
    return (*stream_views(program).views, *program.views)
