"""Service that adds and drops readers of a running runtime, each at a cut of all inputs, and reports all inputs.

The list of readers is in the object space (`runtime.service.readers.kept`). The list changes in the barrier that also
begins or ends the origin, so that an epoch has both changes or neither. A reader is dropped with its rows in two steps.
At a first cut the reader stops reading, and SQL can no longer use its relation. Then the relation's rows, which no
reader changes any more, are read from the log and deleted at a second cut; very many rows need several cuts. If the
process is killed between the two steps, the next start continues with the second step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final, Literal

import msgspec
import numpy as np
import pyarrow as pa
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from deltabook.wire.readers import ChangedReader, FileConnection, NewReader, Readers, ReaderStatus, SocketConnection
from runtime.compiler import MARKET_RELATIONS, TOUCHES
from runtime.engine.ingest import AtCut, EpochWriter, Ingest, Inlet, OnSealed, Origin
from runtime.epochs import Cut, EpochLogError, EpochLogReader, SnapshotDirectory, rows_at
from runtime.plan import EPOCH_TIME
from runtime.service.catalogue import Catalogue, needed_by
from runtime.service.config import LiveConfig
from runtime.service.errors import CatalogueError, ServiceError, UnknownReaderError
from runtime.service.inputs.feed import FEED, FEED_ID, ExchangeFeed
from runtime.service.inputs.inputs import Inputs
from runtime.service.readers import kept as keeping
from runtime.service.readers.kept import FEED_ADAPTOR, KeptReader, KeptReaders, own_relation, space_of
from runtime.service.readers.kinds import Surroundings, check_name, make_origin, try_out
from runtime.service.waiting import epoch_of, in_time

__all__ = [
    "ReaderService",
]

_ADDED, _DONE, _LATER = 201, 200, 202
_MOST_LEFT: Final = 1000
"""Greatest total number of relations of readers, of dropped readers (whose columns are remembered), and of derived
streams."""
_MOST_LEAVING_ROWS: Final = 1 << 22
"""Greatest number of rows of a dropped reader that are deleted in one epoch."""
_NOTHING: Final[Mapping[str, pa.RecordBatch]] = {}


class ReaderService:
    """Readers of a running runtime, which are added, dropped and listed here. Belongs to the reactor's thread.

    A change continues if its caller stops waiting. A change that is refused raises `ServiceError`.
    """

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        config: LiveConfig,
        writer: EpochWriter,
        inputs: Inputs,
        in_thread: Callable[[Callable[[], Any]], Deferred[Any]],
    ) -> None:
        """Recover the readers as of the writer's newest epoch; ``in_thread`` runs slow calls.

        Raises `ServiceError` if an upstream has the name of a reader.
        """
        self._reactor = reactor
        self._config = config
        self._writer = writer
        self._inputs = inputs
        self._in_thread = in_thread
        self._around = Surroundings(reactor, config.reader_directories, config.retention)
        self._snapshots = SnapshotDirectory(config.directory / "snapshots")
        self._origins: dict[str, tuple[Origin, Inlet]] = {}
        self._is_paused = self._is_replay_paused = False
        self.losses: Counter[str] = Counter()
        """Name of a reader or of the feed → number of lost connections."""
        self._ingest: Ingest | None = None
        self._catalogue: Catalogue | None = None
        self.kept = keeping.load(writer.space)
        """Readers as of the newest sealed change."""
        cuts = writer.recovered.cuts if writer.recovered else {}
        for reader in self.kept.readers:
            if not reader.is_leaving:
                name = reader.wanted.name
                if name in inputs.names:  # the input and the reader would share one cut
                    raise ServiceError(
                        f"expected another name for the upstream, was {name}, the name of a reader in "
                        f"{config.directory}"
                    )
                self._origins[name] = make_origin(reader, writer.space, self._around, cuts.get(name, Cut("", 0, 0)))

    def origins(self) -> dict[int, Origin]:
        """Return number → origin, for the readers that resume at the end of the newest epoch."""
        return {origin.origin_id: origin for origin, _ in self._origins.values()}

    def begin(self, ingest: Ingest, catalogue: Catalogue) -> None:
        """Connect to the ingest and the catalogue, and resume the deletion of rows of dropped readers."""
        self._ingest, self._catalogue = ingest, catalogue
        self._adopt(self.kept)
        for reader in self.kept.readers:
            if reader.is_leaving:
                self._empty(reader, self._writer.epoch)

    def gates(self) -> dict[str, Inlet]:
        """Return the inlets of the readers and of the feed, by name."""
        own = {FEED: self._inputs.feed.gate} if self._inputs.feed else {}
        return {**own, **{name: gate for name, (_, gate) in self._origins.items()}}

    def pause(self, is_paused: bool) -> None:
        """Pause or resume all readers, when the disk is full or has room again."""
        self._is_paused = is_paused
        for origin, gate in self._origins.values():
            self._set_gate(origin, gate)

    def pause_replayed(self) -> None:
        """Pause the readers whose sources can be read again; no call resumes them."""
        self._is_replay_paused = True
        for origin, gate in self._origins.values():
            self._set_gate(origin, gate)

    def _set_gate(self, origin: Origin, gate: Inlet) -> None:
        is_paused = self._is_paused or (self._is_replay_paused and origin.source.replays)
        gate.shut() if is_paused else gate.let_in()

    def unrepeatable(self) -> list[Inlet]:
        """Return the inlets of the readers whose sources cannot be read again."""
        return [gate for origin, gate in self._origins.values() if not origin.source.replays]

    def lost(self, number: int, reason: str) -> None:
        """Record the loss of a connection of the feed or a reader; the source connects again."""
        names = {FEED_ID: FEED, **{origin.origin_id: name for name, (origin, _) in self._origins.items()}}
        if number in names:
            self.losses[names[number]] += 1
        self._log.warn("{name} lost, connecting again: {reason}", name=self._called(number), reason=reason)

    def failed(self, number: int, reason: str) -> None:
        """Log that an origin has failed; the others continue."""
        self._log.error("{name} has failed, others continue: {reason}", name=self._called(number), reason=reason)

    def _called(self, number: int) -> str:
        names = [f"reader {name}" for name, (origin, _) in self._origins.items() if origin.origin_id == number]
        return names[0] if names else "feed" if number == FEED_ID else "a dropped reader"

    def list(self) -> Readers:
        """Return the status of the inputs, the feed first, then of the readers in the order of their creation."""
        return Readers(
            (
                *input_status(self._inputs, self._config),
                *[reader_status(each, *self._known(each)) for each in self.kept.readers],
            )
        )

    async def add(self, wanted: NewReader) -> tuple[int, ChangedReader]:
        """Add a reader; return the HTTP status and the reader's status."""
        return await self._parts()[1].exclusively(lambda: self._add(wanted))

    async def drop(
        self, name: str, timeout_s: float, rows: Literal["leave", "stay"] = "leave"
    ) -> tuple[int, ChangedReader]:
        """Drop a reader; wait at most ``timeout_s`` seconds until its rows are deleted."""
        changed, emptied = await self._parts()[1].exclusively(lambda: self._drop(name, rows))
        if emptied is None:
            return _DONE, changed
        epoch = await in_time(self._reactor, emptied, timeout_s)
        return (_LATER, changed) if epoch is None else (_DONE, msgspec.structs.replace(changed, epoch=epoch))

    # Changes of readers; while one runs, no other change of readers or views runs

    async def _add(self, wanted: NewReader) -> tuple[int, ChangedReader]:
        ingest, _ = self._parts()
        self._check(wanted)
        foreign = await self._in_thread(lambda: try_out(wanted, self._around))
        number, writer = self.kept.next, self._writer
        made: list[tuple[Origin, Inlet]] = []

        def make() -> Origin:
            reader = KeptReader(number, wanted, 0)
            made.append(make_origin(reader, writer.space, self._around, Cut("", 0, 0), foreign))
            origin, gate = made[0]
            self._set_gate(origin, gate)  # before it is opened
            return origin

        since = await self._sealed(
            lambda at_cut, on_sealed: ingest.begin_origin(make, at_cut, on_sealed),
            lambda kept, epoch: kept.with_reader(KeptReader(number, wanted, epoch)),
        )
        self._origins[wanted.name] = made[0]
        self._set_gate(*made[0])  # all inputs may have been paused or resumed since it was created
        reader = self.kept.find(wanted.name)
        assert reader is not None, "what is sealed is known"
        self._log.info("reader {name} reads from epoch {epoch} on", name=wanted.name, epoch=since)
        return _ADDED, ChangedReader(since, reader_status(reader, *self._known(reader)))

    async def _drop(
        self, name: str, rows: Literal["leave", "stay"]
    ) -> tuple[ChangedReader, Deferred[int | None] | None]:
        """Drop a reader; return the outcome, and the Deferred of `_empty` if rows are still to be deleted."""
        ingest, _ = self._parts()
        reader = self._find_droppable(name)
        own = own_relation(reader.wanted)
        if rows == "leave" and (needed := self._needed(reader)):
            raise CatalogueError(
                f"expected no view that needs reader {name}, was {', '.join(needed)}: drop "
                f"{'it' if len(needed) == 1 else 'them'} first, or let the rows stay"
            )
        origin, _ = self._origins[name]
        status = reader_status(reader, *self._known(reader))
        leaves_later = rows == "leave" and own is not None

        def leave() -> Mapping[str, pa.RecordBatch]:
            deltas = origin.adaptor.leave() if rows == "leave" else _NOTHING
            for key in [each for each in self._writer.space if each.startswith(f"{space_of(reader.number)}/")]:
                self._writer.space.delete(key)
            return deltas

        epoch = await self._sealed(
            lambda at_cut, on_sealed: ingest.end_origin(name, at_cut, on_sealed),
            lambda kept, _: kept.leaving(name) if leaves_later else kept.without(name, stays=rows == "stay"),
            leave,
        )
        del self._origins[name], self.losses[name]
        emptied = self._empty(reader, epoch) if leaves_later else None
        self._log.info("reader {name} is dropped at epoch {epoch}, its rows {rows}", name=name, epoch=epoch, rows=rows)
        return ChangedReader(epoch, status), emptied

    def _empty(self, reader: KeptReader, epoch: int) -> Deferred[int | None]:
        """Delete the rows of a reader's relation, which has not changed since this epoch.

        The Deferred fires with the first epoch without the rows, or with None if they cannot be deleted.
        """

        def failed(failure: Failure) -> None:
            name, stay = reader.wanted.name, "the rows of reader {name} stay until the next start"
            if isinstance(failure.value, CatalogueError):
                self._log.warn(stay + ": {reason}", name=name, reason=str(failure.value))
            else:
                self._log.failure(stay, failure=failure, name=name)

        return Deferred.fromCoroutine(self._emptied(reader, epoch)).addErrback(failed)

    async def _emptied(self, reader: KeptReader, epoch: int) -> int:
        ingest, _ = self._parts()
        relation = own_relation(reader.wanted)
        assert relation is not None, "a feed's rows leave at once"
        batches = await self._in_thread(
            lambda: rows_that_leave(self._writer.log, self._snapshots, relation.name, epoch)
        )
        # Rows with more than 2 GiB of strings stay in several batches, each of which is deleted in an epoch of its own.
        # If the process crashes between two of these epochs, the next start continues with the rest of the rows.
        rows = pa.Table.from_batches(batches).combine_chunks() if batches else None
        leaving = [] if rows is None else rows.to_batches(max_chunksize=_MOST_LEAVING_ROWS)
        deltas: list[Mapping[str, pa.RecordBatch]] = [{relation.name: batch} for batch in leaving] or [_NOTHING]
        for part in deltas[:-1]:
            await self._sealed(ingest.at_cut, lambda kept, _: kept, partial(dict, part))
        return await self._sealed(
            ingest.at_cut,
            lambda kept, _: kept.without(reader.wanted.name, stays=False),
            lambda: deltas[-1],
        )

    async def _sealed(
        self,
        begin: Callable[[AtCut, OnSealed], None],
        change: Callable[[KeptReaders, int], KeptReaders],
        deltas: AtCut = lambda: _NOTHING,
    ) -> int:
        """Change the list of readers at a cut; return the epoch of the cut once that epoch is committed."""
        changed: list[KeptReaders] = []

        def at_cut() -> Mapping[str, pa.RecordBatch]:
            # Runs on the worker that cuts, while no other part of the runtime uses the space.
            writer = self._writer
            changed.append(change(keeping.load(writer.space), writer.epoch + 1))
            keeping.store(writer.space, changed[0])
            return deltas()

        epoch = await epoch_of(self._reactor, lambda on_sealed: begin(at_cut, on_sealed))
        self._adopt(changed[0])
        return epoch

    def _adopt(self, kept: KeptReaders) -> None:
        """Set the readers, and the relations that the catalogue may use."""
        self.kept = kept
        _, catalogue = self._parts()
        catalogue.relations, catalogue.relations_of = kept.relations(), kept.relations_of(self._inputs.names)
        catalogue.inputs = kept.inputs()

    # Checks

    def _check(self, wanted: NewReader) -> None:
        check_name(wanted.name, "the name of a reader")
        kept = self.kept
        if wanted.name in (FEED, *self._inputs.names) or kept.find(wanted.name) is not None:
            raise CatalogueError(f"expected a new name for the reader, was {wanted.name!r}, which is taken")
        if len(kept.readers) >= self._config.most_readers:
            raise CatalogueError(f"expected at most {self._config.most_readers} readers (--most-readers), was one more")
        relation = own_relation(wanted)
        if relation is None:
            return
        taken = {own.name for each in kept.readers if (own := own_relation(each.wanted)) is not None}
        left = {each.relation.name: each.relation for each in kept.left}
        known = left.get(relation.name)
        streams = self._parts()[1].program
        taken |= {each.name for each in (*(s.relation for s in streams.streams), *streams.dropped_streams)}
        reserved = {each.name for each in (*MARKET_RELATIONS, TOUCHES, EPOCH_TIME)}
        if relation.name in taken or relation.name in reserved:
            raise CatalogueError(f"expected a new name for the relation, was {relation.name!r}, which is taken")
        if any(view.name == relation.name for view in self._parts()[1].program.views):
            raise CatalogueError(f"expected a name for the relation that no view has, was {relation.name!r}")
        if known is not None and known != relation:
            columns = ", ".join(f"{column.name} {column.type}" for column in known.columns)
            raise CatalogueError(
                f"expected relation {relation.name} with the columns that it had before ({columns}), was others"
            )
        if known is None and len(left) + len(taken) >= _MOST_LEFT:
            raise CatalogueError(
                f"expected at most {_MOST_LEFT} names of relations, present and dropped, was one more: {relation.name}"
            )

    def _find_droppable(self, name: str) -> KeptReader:
        if name in self._inputs.names:
            raise CatalogueError(f"expected a reader that was added, was {name!r}, which the runtime was started with")
        reader = self.kept.find(name)
        if reader is None:
            known = ", ".join(each.wanted.name for each in self.kept.readers) or "none"
            raise UnknownReaderError(f"expected one of the readers {known}, was {name!r}")
        if reader.is_leaving:
            raise CatalogueError(f"expected a reader that is not being dropped, was {name}")
        return reader

    def _known(self, reader: KeptReader) -> tuple[Origin | None, tuple[str, ...]]:
        """Return the origin of a reader, None if it has none, and the names of the views that need the reader."""
        entry = self._origins.get(reader.wanted.name)
        return (None if entry is None else entry[0]), self._needed(reader)

    def _needed(self, reader: KeptReader) -> tuple[str, ...]:
        own = own_relation(reader.wanted)
        relations = frozenset[str]() if own is None else frozenset({own.name})
        return needed_by(self._parts()[1].program, reader.wanted.name, relations)

    def _parts(self) -> tuple[Ingest, Catalogue]:
        if self._ingest is None or self._catalogue is None:
            raise CatalogueError("expected a runtime that has begun, was one that is starting")
        return self._ingest, self._catalogue


_TRIES: Final = 3
"""Number of attempts to read the log, whose first epochs may be retired during an attempt. Each attempt begins with the
newest snapshot."""


def rows_that_leave(
    log: EpochLogReader, snapshots: SnapshotDirectory, relation: str, epoch: int
) -> list[pa.RecordBatch]:
    """Return the deltas that empty a relation which has not changed since this epoch. May run on any thread.

    All rows are in memory at once. Raises `EpochLogError` if the log cannot be read.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            rows = rows_at(log, snapshots.newest(epoch), relation, epoch)
            break
        except EpochLogError:
            if not tries_left:
                raise
    if rows is None or not rows.num_rows:
        return []
    weight = pa.array(-rows.column(rows.num_columns - 1).to_numpy().astype(np.int64))
    last = rows.num_columns - 1
    batches: list[pa.RecordBatch] = rows.set_column(last, rows.schema.field(last), weight).to_batches()
    return batches


_MARKET: Final = tuple(relation.name for relation in MARKET_RELATIONS)


def input_status(inputs: Inputs, config: LiveConfig) -> list[ReaderStatus]:
    """Return the status of the inputs that the runtime was started with, its feed first."""
    own = [] if inputs.feed is None or config.feed is None else [_feed_status(inputs.feed, *config.feed)]
    return own + [
        ReaderStatus(
            name=name,
            adaptor="upstream",
            source=line.directory,
            delivery="exactly-once",
            relations=_MARKET,
            since=0,
            state="reading",
            reason="" if line.state == "reading" else line.state,
            sequence=line.epoch,
        )
        for name, line in inputs.upstreams.status().items()
    ]


def _feed_status(feed: ExchangeFeed, host: str, port: int) -> ReaderStatus:
    cut = feed.origin.cut()
    return ReaderStatus(
        name=FEED,
        adaptor=FEED_ADAPTOR,
        source=f"{host}:{port}",
        delivery="exactly-once",
        relations=_MARKET,
        since=0,
        state="failed" if feed.origin.failure else "reading",
        reason=feed.origin.failure,
        sequence=cut.sequence,
        offset=cut.offset,
        malformed=feed.origin.counters().bad,
    )


def reader_status(reader: KeptReader, origin: Origin | None, views: Collection[str]) -> ReaderStatus:
    """Return the status of a reader that was added; ``origin`` is None if its rows are still to be deleted."""
    wanted = reader.wanted
    own = own_relation(wanted)
    connection = wanted.connection
    is_plain = isinstance(connection, SocketConnection) and wanted.adaptor != FEED_ADAPTOR
    source = connection.path if isinstance(connection, FileConnection) else f"{connection.host}:{connection.port}"
    status = ReaderStatus(
        name=wanted.name,
        adaptor=wanted.adaptor,
        source=source,
        delivery="at-most-once" if is_plain else "exactly-once",
        relations=_MARKET if own is None else (own.name,),
        since=reader.since,
        state="leaving",
        views=tuple(views),
    )
    if origin is None:
        return status
    cut, counters = origin.cut(), origin.counters()
    reason = origin.failure
    if origin.ended and not reason and counters.tuples and counters.bad == counters.tuples:
        reason = f"expected rows, was none: all {counters.tuples} tuples are malformed; see dead-letters.jsonl"
    return msgspec.structs.replace(
        status,
        state="failed" if reason else "ended" if origin.ended else "reading",
        reason=reason,
        sequence=cut.sequence,
        offset=cut.offset,
        malformed=counters.bad,
    )
