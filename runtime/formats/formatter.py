"""The input formatter: converts raw buffers in any order and from any thread to Arrow batches with their place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from threading import Lock
from typing import Any, Final

import msgspec

from runtime.formats.assembly.blocks import Assembly, Parts
from runtime.formats.assembly.shredder import SequenceShredder
from runtime.formats.assembly.spanning import Unit
from runtime.formats.assembly.stream import OriginStream
from runtime.formats.buffers import FormatCounters, Formatted, FormattedBatch, RawBuffer
from runtime.formats.codecs import Codec
from runtime.formats.errors import FormatError
from runtime.formats.pushdown import Pushdown
from runtime.formats.schema import Schema

__all__ = ["InputFormatter"]

_HIGHEST_SEQUENCE: Final = 2**63 - 1
_by_origin = attrgetter("origin_id")


class InputFormatter:
    """Formatter of the raw buffers of any number of origins that share a schema, each with a shredder of its own.

    `format` may be called from several worker threads, in any order of sequence numbers. Neighbouring buffers become
    one run. All tuples that the call completes, of any origin, become one block, which is parsed at once. A call
    therefore costs least per byte if it gets about `block_bytes`.

    ``described`` bounds the dead letters of one block. Each origin's ring starts with ``slots`` slots of 64 buffers and
    grows to at most ``max_slots``, which bounds how far buffers may be out of order. After ``highest_sequence``,
    sequence numbers start again at 1.
    """

    def __init__(
        self,
        schema: Schema,
        pushdown: Pushdown = Pushdown(),  # noqa: B008 (frozen)
        *,
        described: int = 64,
        slots: int = 8,
        max_slots: int = 1024,
        highest_sequence: int = _HIGHEST_SEQUENCE,
    ) -> None:
        self.schema = schema
        self._indexer = schema.format.indexer(schema, pushdown)
        self._assembly = Assembly(schema, self._indexer, described)
        self._ring = {"slots": slots, "max_slots": max_slots, "highest_sequence": highest_sequence}
        self._lock = Lock()
        self._streams: dict[int, OriginStream] = {}
        SequenceShredder(**self._ring)  # raises ValueError if the ring's sizes are wrong

    @property
    def block_bytes(self) -> int:
        """Best number of bytes of a call of `format`."""
        return self._indexer.block_bytes

    def open(self, origin_id: int, *, offset: int = 0, codec: Codec | None = None) -> None:
        """Open an origin, which is compressed with ``codec``; its decoded bytes begin at ``offset`` in its stream.

        An earlier state is dropped, as by `discard`. `format` opens an unknown origin with the defaults.
        """
        with self._lock:
            self._streams[origin_id] = self._new(origin_id, offset, codec)

    def format(
        self,
        raws: Sequence[RawBuffer],
        on_admitted: Callable[[], None] | None = None,
        failed: list[FormatError] | None = None,
    ) -> Formatted:
        """Return the batches that these buffers complete, and the buffers out of range, to be passed again later.

        ``on_admitted`` is called once the buffers are decoded and cut, before they are parsed: the work in stream order
        is then done, and the owner of the next buffers need not wait.

        Raise `DuplicateSequenceError` for a repeated number, and `CodecError` for a buffer that cannot be decoded; then
        nothing has changed. In a stream that is compressed as a whole, the bytes before the damage are returned first,
        and the next call raises the error. With a list ``failed`` no error is raised: the errors of the origins at
        fault are appended to the list, and the buffers of the others are formatted.
        """
        again: list[RawBuffer] = []
        work: list[tuple[OriginStream, list[Unit]]] = []
        try:
            for stream, mine in self._by_stream(raws):
                try:
                    units = stream.units(mine, again)
                except FormatError as error:
                    error.origin_id = stream.origin_id
                    if failed is None:
                        raise
                    failed.append(error)
                    continue
                if units:
                    work.append((stream, units))
            parts = self._admit(work, failed)
        except Exception:
            for stream, units in work:
                stream.put_back(units)
            raise
        if on_admitted is not None:
            on_admitted()
        return Formatted(self._batches(parts), again)

    def finish(self, origin_id: int) -> list[FormattedBatch]:
        """End an origin's stream: return its last tuple, if that lacks its delimiter, and drop the origin.

        Every buffer must have been formatted. Raise `SequenceGapError` if one is missing and `CodecError` if the
        compressed stream is cut short; then the origin is not dropped.
        """
        with self._lock:
            stream = self._streams.get(origin_id)
        if stream is None:
            return []
        rest = stream.rest()
        batches = self._batches(self._admit([(stream, rest)])) if rest else []
        with stream.lock:
            tail, state = stream.last()
        if tail is not None:
            ends: list[FormattedBatch] = []
            if tail.pieces is None:
                ends = self._batches([(stream, [tail])])
            else:
                text = self._indexer.terminated(b"".join(tail.pieces), state)
                if text is None:
                    ends = [self._assembly.unfinished(stream, tail)]
                else:
                    length, tail.pieces, tail.length = tail.length, (text,), len(text)
                    ends = self._batches([(stream, [tail])])
                    ends = [msgspec.structs.replace(batch, length=min(batch.length, length)) for batch in ends]
            batches += ends
        self.discard(origin_id)
        return batches

    def discard(self, origin_id: int) -> None:
        """Drop an origin and its open tail; its next buffer starts a new incarnation with sequence number 1.

        No `format` of the old incarnation may be running: its buffers would be counted as buffers of the new
        incarnation.
        """
        with self._lock:
            self._streams.pop(origin_id, None)

    def watermark(self, origin_id: int) -> int:
        """Return the sequence number up to which all buffers of an origin have been admitted; 0 for none."""
        with self._lock:
            stream = self._streams.get(origin_id)
        return 0 if stream is None else stream.shredder.number(stream.shredder.watermark())

    def counters(self, origin_id: int) -> FormatCounters:
        """Return the present counters of an origin."""
        with self._lock:
            stream = self._streams.get(origin_id)
        return FormatCounters() if stream is None else stream.counters()

    def held_bytes(self) -> int:
        """Return the number of bytes that wait for a neighbouring buffer or for their turn, over all origins."""
        with self._lock:
            streams = list(self._streams.values())
        return sum(stream.held_bytes() for stream in streams)

    def empty_rows(self) -> Any:
        """Return a record batch of the formatter's columns without rows."""
        return self._indexer.empty_rows()

    def _by_stream(self, raws: Sequence[RawBuffer]) -> list[tuple[OriginStream, Sequence[RawBuffer]]]:
        ids = set(map(_by_origin, raws))
        if len(ids) == 1:
            return [(self._stream(raws[0].origin_id), raws)]
        groups: dict[int, list[RawBuffer]] = {origin_id: [] for origin_id in sorted(ids)}
        for raw in raws:
            groups[raw.origin_id].append(raw)
        return [(self._stream(origin_id), group) for origin_id, group in groups.items()]

    def _stream(self, origin_id: int) -> OriginStream:
        with self._lock:
            stream = self._streams.get(origin_id)
            if stream is None:
                stream = self._streams[origin_id] = self._new(origin_id, 0, None)
            return stream

    def _new(self, origin_id: int, offset: int, codec: Codec | None) -> OriginStream:
        return OriginStream(
            origin_id,
            self._indexer,
            SequenceShredder(**self._ring),
            tuple_bytes=self.schema.limits.tuple_bytes,
            offset=offset,
            codec=codec,
        )

    def _admit(
        self, work: list[tuple[OriginStream, list[Unit]]], failed: list[FormatError] | None = None
    ) -> list[Parts]:
        """Index the units outside of locks (phase 1), and admit them to their streams; return the completed parts.

        If an error is raised, no unit is admitted. With ``failed``, all units are admitted except those of the origins
        at fault.
        """
        index = self._indexer.index
        for _, units in work:
            for unit in units:
                if unit.index is None:
                    unit.index = index(unit.run)
        locked: list[OriginStream] = []
        sound: list[tuple[OriginStream, list[Unit]]] = []
        try:
            for stream, units in work:  # in order of origins, so that two calls never deadlock
                stream.lock.acquire()
                locked.append(stream)
                try:
                    stream.check(units)
                except FormatError as error:
                    if failed is None:
                        raise
                    failed.append(error)
                else:
                    sound.append((stream, units))
            return [(stream, stream.admit(units)) for stream, units in sound]
        finally:
            for stream in locked:
                stream.lock.release()

    def _batches(self, parts: list[Parts]) -> list[FormattedBatch]:
        """Parse the parts, each block with one call (phase 2)."""
        made = self._assembly.batches(parts)
        return made[0] if len(made) == 1 else [batch for batches in made for batch in batches]
