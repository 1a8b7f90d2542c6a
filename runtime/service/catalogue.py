"""Catalogue of a running runtime, in which views and derived streams are added and dropped.

`Catalogue` makes one change at a time, each at an epoch of its own. `Control` makes the changes that ports request, and
waits until they are published. `with_readers` and `needed_by` relate views to the readers that they need.

A change is compiled against the newest program and sealed into the log as a control record. From then on it is durable,
even if its caller no longer waits. The change is published with the first version that covers its epoch. On Spark the
result log also has the program of that version, so that a restart finds the catalogue of each version in the result
log. Maps that no view of the new program reads are removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

import msgspec
from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from deltabook.wire.advice import did_you_mean
from deltabook.wire.catalogue import AddViews, Changed, ChangedView
from runtime.compiler import NamedSelect, StreamClauses, StreamSelect, compile_program, extend_program
from runtime.compiler.script import is_column_name, is_view_name
from runtime.engine.ingest import EpochWriter, OnSealed, Sections
from runtime.engine.streams import with_streams
from runtime.plan import (
    DerivedInput,
    Lane,
    Program,
    Relation,
    View,
    decode_program,
    encode_program,
    readers_of,
    readers_of_stream,
    stream_views,
    view_of,
    with_record,
    without_stream,
    without_view,
)
from runtime.service.errors import CatalogueError, ServiceError, UnknownViewError
from runtime.service.results.hub import Hub
from runtime.service.waiting import epoch_of
from runtime.views.shard import Inputs, ShardState

__all__ = ["Catalogue", "Control", "begin_catalogue", "begun_program", "needed_by"]


_MOST_NAMES: Final = 8
"""Greatest number of names in an error message."""


def _relations_read(program: Program, view: View) -> frozenset[str]:
    """Return the relations that a view of the program reads."""
    return frozenset(program.maps[number].relation for number in view.body.maps())


def with_readers(
    program: Program, selects: Sequence[NamedSelect], relations_of: Mapping[str, frozenset[str]]
) -> Program:
    """Return the program with the readers that these views name.

    Raises `CatalogueError` for an unknown reader, and for a view that uses relations of other readers. ``relations_of``
    maps each reader to the relations that it fills.
    """
    named = {select.name: tuple(dict.fromkeys(select.readers)) for select in selects if select.readers}
    for name, readers in named.items():
        unknown = [reader for reader in readers if reader not in relations_of]
        if unknown:
            raise CatalogueError(
                f"expected readers of {_listed(sorted(relations_of))} for view {name}, was {_listed(unknown)}"
            )
        allowed = frozenset[str]().union(*[relations_of[reader] for reader in readers])
        others = _relations_read(program, view_of(program, name)) - allowed
        if others:
            raise CatalogueError(
                f"expected view {name} to use relations of {_listed(readers)} alone ({_listed(sorted(allowed))}), "
                f"was {_listed(sorted(others))} as well"
            )
    if not named:
        return program
    views = tuple(
        msgspec.structs.replace(view, readers=named[view.name]) if view.name in named else view
        for view in program.views
    )
    return msgspec.structs.replace(program, views=views)


def needed_by(program: Program, reader: str, own: frozenset[str]) -> tuple[str, ...]:
    """Return the derived streams and views that name ``reader``, or that read one of the relations ``own``.

    ``own`` are the relations that no other reader fills.
    """
    return (
        *(stream.name for stream in program.streams if not own.isdisjoint(stream.reads)),
        *(
            view.name
            for view in program.views
            if reader in view.readers or not own.isdisjoint(_relations_read(program, view))
        ),
    )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "") or "none"


InThread = Callable[[Callable[[], Program]], "Deferred[Program]"]
T = TypeVar("T")
Seal = Callable[[bytes, OnSealed], None]


def begin_catalogue(
    writer: EpochWriter,
    selects: Sequence[NamedSelect],
    relations: Sequence[Relation],
    *,
    mode: Literal["sql", "dbtoaster"],
    most_views: int,
    where: str,
    first: Callable[[Program], Sections] | None = None,
    streams: Sequence[StreamSelect] = (),
    inputs: Sequence[DerivedInput] = (),
    missing: Mapping[str, str] | None = None,
    placed: Callable[[Program], Program] = lambda program: program,
) -> Program:
    """Return the program with which a run directory was begun; begin a new directory with these SELECTs and streams.

    In a new directory the program is put into epoch 0, and epoch 1, without deltas, is sealed as the first version of
    every view. The program has no views in a runtime that is only read as an upstream. In an existing directory the log
    has the catalogue; the SELECTs and streams must be those with which it was begun, or none. Raises `ServiceError` for
    other SELECTs or streams, and for too many of them.

    ``inputs`` are the relations that the streams may read; ``missing`` maps each relation that never gets rows to the
    reason. ``first`` returns the first results of the express lane's views; ``placed`` returns the program with a mark
    on the express views that Spark also maintains. ``where`` names the directory in errors.
    """
    if writer.epoch < 0:
        if (count := len(selects) + len(streams)) > most_views:
            raise ServiceError(f"expected at most {most_views} views and streams (--most-views), was {count}")
        program = placed(begun_program(selects, relations, streams, inputs, mode, missing=missing))
        _check_columns(program.views)
        writer.seal({}, control=encode_program(program))
    first_program = _read_first_program(writer, where)
    begun_with = [(view.name, view.sql, view.lane) for view in first_program.views]
    given = [(select.name, select.sql, select.lane) for select in selects]
    given_streams = [(each.name, each.select.sql, *_clauses(each)) for each in streams]
    begun_streams = [(s.name, s.sql, s.retain_rows, s.retain_ns, s.lateness_ns) for s in first_program.streams]
    is_other = given != begun_with or given_streams != begun_streams or first_program.mode != mode
    if (selects or streams) and is_other:
        raise ServiceError(
            f"expected the views that {where} was begun with, was another catalogue; choose a new --dir, or leave "
            "--views and --express out and change the catalogue with `query add` and `query drop`"
        )
    if writer.epoch < 1:
        if first is not None:
            writer.add_sections(first(first_program))
        writer.seal({})
    return first_program


def begun_program(
    selects: Sequence[NamedSelect],
    relations: Sequence[Relation],
    streams: Sequence[StreamSelect],
    inputs: Sequence[DerivedInput],
    mode: Literal["sql", "dbtoaster"],
    *,
    standing: Sequence[View] = (),
    missing: Mapping[str, str] | None = None,
) -> Program:
    """Return the program of these streams and views.

    The views may read the relations, the streams, each other and the ``standing`` views.

    Raises `SqlError` for a stream or a view that cannot be compiled. ``missing`` maps each input that never gets rows
    to the reason.
    """
    names = [relation.name for relation in relations]
    derived = with_streams(Program((), (), (), mode=mode), streams, inputs, taken=names, missing=missing).streams
    known = (*relations, *(stream.relation for stream in derived))
    return msgspec.structs.replace(compile_program(selects, known, mode=mode, standing=standing), streams=derived)


def _clauses(stream: StreamSelect) -> tuple[int, int, int]:
    clauses = stream.clauses
    return clauses.retain_rows, clauses.retain_ns, clauses.lateness_ns


def _read_first_program(writer: EpochWriter, where: str) -> Program:
    control = writer.log.control(0)
    if not control:
        raise ServiceError(f"expected the control record of epoch 0 in {where}, which is never removed, was none")
    try:
        return decode_program(control)
    except ValueError as error:
        raise ServiceError(f"expected a run directory that this version can read at {where}: {error}") from None


def _check_columns(views: Iterable[View]) -> None:
    """Raise `CatalogueError` for the first view with a column whose name changes of views use themselves."""
    for view in views:
        for column in view.columns:
            if not is_column_name(column.name):
                raise CatalogueError(
                    f"expected another name than {column.name!r} for a column of {view.name}, as the changes of a view "
                    "have a column of this name: rename it with AS"
                )


def _check_built(program: Program, names: Collection[str]) -> None:
    """Raise `CatalogueError` for the first of these views whose state and kernels cannot be built.

    This is checked before the views are added: a view that is already in the catalogue could only be marked as failed.
    """
    added = msgspec.structs.replace(program, views=tuple(view for view in program.views if view.name in names))
    kinds: tuple[Inputs, ...] = ("relations", "payloads")
    for inputs in kinds:
        for name, reason in ShardState(added, inputs=inputs).failed.items():
            raise CatalogueError(f"expected a view that can be built, was {name}: {reason}")


def _nothing(old: Program, new: Program) -> None:
    del old, new


class Catalogue:
    """Newest program of a runtime, changed by one caller at a time. Belongs to the reactor's thread."""

    def __init__(
        self,
        reactor: Any,
        program: Program,
        relations: Sequence[Relation],
        *,
        seal: Seal,
        in_thread: InThread,
        most_views: int,
        lanes: Collection[Lane] = ("spark", "express"),
        prepare: Callable[[Program, Program], None] = _nothing,
        missing: Mapping[str, str] | None = None,
    ) -> None:
        """Create the catalogue with its newest program.

        ``seal`` puts a control record into the log, see `Ingest.seal_control`. ``in_thread`` runs slow calls on another
        thread. ``prepare`` is a slow call that gets the current and the next program, before the next program is
        sealed. ``lanes`` are the lanes that run. ``missing`` maps each relation that no derived stream can read to the
        reason.
        """
        self._reactor = reactor
        self.relations = tuple(relations)
        """Relations that views may use; changed within `exclusively`."""
        self.inputs: tuple[DerivedInput, ...] = ()
        """Relations that derived streams may read, in addition to each other; changed within `exclusively`."""
        self._missing = missing
        self.relations_of: Mapping[str, frozenset[str]] = {}
        """Reader → the relations that it fills; changed within `exclusively`."""
        self._seal = seal
        self._in_thread = in_thread
        self._most_views = most_views
        self._lanes = tuple(lanes)
        self._prepare = prepare
        self._lock = DeferredLock()
        self._versions: dict[Lane, int] = dict.fromkeys((*self._lanes, "stream"), 0)
        self._waiting: list[tuple[int, Lane, Deferred[bool]]] = []
        self.program = program
        """The newest sealed program; it may not be published yet."""

    def add(self, selects: Sequence[NamedSelect], streams: Sequence[StreamSelect] = ()) -> Deferred[int]:
        """Add views and streams; the Deferred fires with the first epoch in which they exist.

        The Deferred fails with `SqlError` or `CatalogueError`. A view without a lane is placed on a lane that runs.
        Errors in SQL take precedence over a wrong lane.
        """

        def extended(program: Program) -> Program:
            count = len(program.views) + len(program.streams) + len(selects) + len(streams)
            if count > self._most_views:
                raise CatalogueError(
                    f"expected at most {self._most_views} views and streams (--most-views), was {count}"
                )
            placed = [self._placed(select) for select in selects]
            taken = [relation.name for relation in self.relations]
            base = with_streams(program, streams, self.inputs, taken=taken, missing=self._missing)
            known = (*self.relations, *(stream.relation for stream in base.streams))
            longer = with_readers(extend_program(base, placed, known), placed, self.relations_of)
            for select in placed:
                if select.lane not in self._lanes:
                    raise CatalogueError(
                        f"expected a view of the lane {' or '.join(self._lanes)}, as this runtime was started without "
                        f"Spark (--spark starts it), was {select.name!r} of the lane {select.lane}"
                    )
            added = {select.name for select in placed}
            _check_columns(view for view in longer.views if view.name in added)
            _check_built(longer, added)
            return with_record(longer, on_spark="spark" in self._lanes)

        named = [*(("stream", stream.select) for stream in streams), *(("view", select) for select in selects)]
        for what, select in named:
            if not is_view_name(select.name):
                raise CatalogueError(f"expected the name of a {what} in lower case without blanks, was {select.name!r}")
        return Deferred.fromCoroutine(self._change(extended))

    def drop(self, name: str) -> Deferred[int]:
        """Drop a view or a derived stream; the Deferred fires with the first epoch without it.

        The Deferred fails with `UnknownViewError`, or with `CatalogueError` if other views or streams read this one.
        """

        def shortened(program: Program) -> Program:
            if any(stream.name == name for stream in program.streams):
                if readers := readers_of_stream(program, name):
                    raise CatalogueError(
                        f"expected a stream that nothing reads, was {name}, which {', '.join(readers)} "
                        f"read{'s' * (len(readers) == 1)}: drop {'it' if len(readers) == 1 else 'them'} first"
                    )
                return without_stream(program, name)
            if all(view.name != name for view in program.views):
                names = [*(stream.name for stream in program.streams), *(view.name for view in program.views)]
                expected = f"one of the views {', '.join(names)}" if names else "no name, as there is no view"
                raise UnknownViewError(f"expected {expected}, was {name!r}{did_you_mean(name, names)}")
            if readers := readers_of(program.views, name):
                raise CatalogueError(
                    f"expected a view that no other view reads, was {name!r}, which {', '.join(readers)} "
                    f"{'reads' if len(readers) == 1 else 'read'}: drop {'it' if len(readers) == 1 else 'them'} first"
                )
            return without_view(program, name)

        return Deferred.fromCoroutine(self._change(shortened))

    def when_published(self, epoch: int, timeout_s: float, lane: Lane = "spark") -> Deferred[bool]:
        """Return a Deferred that fires with True once a lane's version covers the epoch, with False after the timeout.

        For a lane that does not run, it fires with True at once.
        """
        published: Deferred[bool] = Deferred()
        if self._versions.get(lane, epoch) >= epoch:
            published.callback(True)
            return published
        entry = (epoch, lane, published)
        self._waiting.append(entry)

        def give_up() -> None:
            self._waiting.remove(entry)
            published.callback(False)

        timer = self._reactor.callLater(timeout_s, give_up)

        def done(result: bool) -> bool:
            if timer.active():
                timer.cancel()
            return result

        return published.addCallback(done)

    def published(self, version: int, lane: Lane = "spark") -> None:
        """Record a new version of a lane."""
        self._versions[lane] = version
        due = [entry for entry in self._waiting if entry[0] <= version and entry[1] == lane]
        for entry in due:
            self._waiting.remove(entry)
            entry[2].callback(True)

    def _placed(self, select: NamedSelect) -> NamedSelect:
        """Return the SELECT; if it names no lane and the default lane does not run, move it to a lane that runs."""
        is_moved = select.any_lane and select.lane not in self._lanes
        return replace(select, lane=self._lanes[0]) if is_moved else select

    def _next_program(self, make: Callable[[Program], Program]) -> Program:
        """Return the next program, for which the lanes are prepared; on a thread of the pool."""
        program = make(self.program)
        self._prepare(self.program, program)
        return program

    async def exclusively(self, change: Callable[[], Awaitable[T]]) -> T:
        """Run a change of the catalogue or its relations while no other change runs."""
        await self._lock.acquire()
        try:
            return await change()
        finally:
            self._lock.release()

    async def _change(self, make: Callable[[Program], Program]) -> int:
        return await self.exclusively(lambda: self._changed(make))

    async def _changed(self, make: Callable[[Program], Program]) -> int:
        program = await self._in_thread(lambda: self._next_program(make))
        epoch = await epoch_of(self._reactor, lambda on_sealed: self._seal(encode_program(program), on_sealed))
        self.program = program
        return epoch


_DONE, _LATER = 200, 202


class Control:
    """Changes of the catalogue at the request of a port; each returns the HTTP status and the outcome.

    A change continues if its caller stops waiting. `add` and `drop` raise `SqlError` for SQL that cannot be compiled,
    and `ServiceError` if the change is refused for another reason.
    """

    _log = Logger()

    def __init__(self, hub: Hub, catalogue: Catalogue) -> None:
        self._hub, self._catalogue = hub, catalogue

    async def add(self, wanted: AddViews) -> tuple[int, Changed]:
        """Add views and derived streams together; raises `CatalogueError` also if none is given, or if an added view
        fails."""
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
