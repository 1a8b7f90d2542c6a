"""Assembly of parts of whole tuples into one block, and of the parsed block into batches with their places."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from runtime.formats.assembly.cutting import Cutting, Group, batch_of
from runtime.formats.assembly.spanning import Part
from runtime.formats.assembly.stream import Stream
from runtime.formats.buffers import DEAD_LETTER_BYTES, DeadLetter, FormattedBatch
from runtime.formats.fields import Malformed
from runtime.formats.format import Block, InputFormatIndexer, Piece, RunIndex, Section, SettledIndex
from runtime.formats.schema import Schema

__all__ = ["Assembly", "Parts"]

Parts = tuple[Stream, list[Part]]
"""Parts of one origin that a call has completed."""

_by_place = attrgetter("from_place")


class Assembly:
    """Maker of blocks, which has them parsed and cuts the columns; stateless between calls."""

    def __init__(self, schema: Schema, indexer: InputFormatIndexer, described: int) -> None:
        self._indexer = indexer
        self._described = described
        self._malformed = schema.malformed
        self._tuple_bytes = schema.limits.tuple_bytes
        self._header = bool(getattr(schema.format, "header", False))
        self._empty = indexer.empty_rows()

    def batches(self, completed: Sequence[Parts]) -> list[list[FormattedBatch]]:
        """Return the batches of each origin, in stream order."""
        most = self._indexer.block_bytes
        waiting = _Waiting()
        blocks = [waiting]
        order: list[list[Group | FormattedBatch]] = []
        for stream, parts in completed:
            if len(parts) > 1:
                parts.sort(key=_by_place)
            mine: list[Group | FormattedBatch] = []
            order.append(mine)
            place = -1
            for part in parts:
                alone = self._alone(stream, part)
                if alone is not None:
                    mine.append(alone)
                    continue
                if waiting.length >= most:  # a block of many buffers is parsed while it is in the cache
                    waiting, place = _Waiting(), -1
                    blocks.append(waiting)
                if part.from_place != place:
                    mine.append(waiting.begin(stream))
                place = part.to_place
                waiting.add(part)
        made = iter([batch for block in blocks for batch in self._made(block)])
        return [[item if type(item) is FormattedBatch else next(made) for item in mine] for mine in order]

    def _made(self, waiting: _Waiting) -> list[FormattedBatch]:
        """Parse a block with one call, then take a zero-copy slice for each group."""
        groups = waiting.groups
        if not waiting.length:
            return [batch_of(group.stream, group.parts, self._empty, 0) for group in groups]
        block = Block(waiting.pieces, [section for group in groups for section in _sections(group)])
        return Cutting(groups, block, self._indexer.parse(block), self._malformed, self._described).batches()

    def unfinished(self, stream: Stream, tail: Part) -> FormattedBatch:
        """Return the batch of a tuple that the end of the stream has cut short."""
        tail.sample = b"".join(tail.pieces or ())[:DEAD_LETTER_BYTES]
        return self._refused(stream, tail, "a whole tuple at the end of the stream", f"only {tail.length} bytes of one")

    def _alone(self, stream: Stream, part: Part) -> FormattedBatch | None:
        """Return the batch of the header or of a tuple that is too long, which have no bytes in the block."""
        if part.from_place == 0 and self._header and part.offset == 0:
            return batch_of(stream, [part], self._empty, part.length)
        if part.pieces is None:
            return self._refused(stream, part, f"at most {self._tuple_bytes} bytes", f"{part.length} bytes")
        return None

    def _refused(self, stream: Stream, part: Part, expected: str, reason: str) -> FormattedBatch:
        letter = DeadLetter(
            origin_id=stream.origin_id,
            sequence_number=stream.shredder.number(part.position),
            byte_offset=max(part.offset, 0),
            row=0,
            field="",
            expected=expected,
            reason=reason,
            data=part.sample,
        )
        return batch_of(
            stream,
            [part],
            self._empty,
            part.length,
            tuples=1,
            bad=1,
            dead=(letter,) if self._malformed == Malformed.DEAD_LETTER else (),
            failure=letter if self._malformed == Malformed.FAIL else None,
        )


class _Waiting:
    """Groups that become one block."""

    __slots__ = ("groups", "length", "pieces")

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.pieces: list[Piece] = []
        self.length = 0

    def begin(self, stream: Stream) -> Group:
        """Begin a group, as the next part is not adjacent to the last one."""
        group = Group(stream, self.length)
        self.groups.append(group)
        return group

    def add(self, part: Part) -> None:
        """Add a part to the group that was begun last."""
        group = self.groups[-1]
        group.parts.append(part)
        if part.length:
            self.pieces += part.pieces or ()
            self.length += part.length
        group.stop = self.length


def _sections(group: Group) -> list[Section]:
    """Return a section for each part, or for all together where the format does not need parts."""
    sections: list[Section] = []
    start = plain = group.start
    for part in group.parts:
        unit, length = part.unit, part.length
        if unit is not None and length and type(unit.index) is not SettledIndex:
            if plain < start:
                sections.append(Section(plain, start))
            index: RunIndex | None = unit.index
            assert unit.cut is not None
            sections.append(Section(start, start + length, index, unit.cut.first, unit.state))
            plain = start + length
        elif part.from_place == 0 and part.offset == 0 and length:
            sections.append(Section(start, start + length, opens=True))
            plain = start + length
        start += length
    if plain < start:
        sections.append(Section(plain, start))
    return sections
