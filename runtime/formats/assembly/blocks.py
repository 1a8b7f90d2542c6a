"""Assembly of parts of whole tuples into blocks, and of the parsed blocks into batches with their places.

Batches are zero-copy slices, one for each contiguous part of a stream.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

from runtime.formats.assembly.spanning import TuplePart
from runtime.formats.assembly.stream import OriginStream
from runtime.formats.buffers import DEAD_LETTER_BYTES, DeadLetter, FormattedBatch, TupleLayout
from runtime.formats.format import (
    BadTuple,
    Block,
    InputFormatIndexer,
    ParsedBlock,
    Piece,
    RunIndex,
    Section,
    SettledIndex,
)
from runtime.formats.schema import Malformed, Schema

__all__ = ["Assembly", "Cutting", "Parts"]


class Group:
    """Parts that are adjacent in a stream, and in a block."""

    __slots__ = ("parts", "start", "stop", "stream")

    def __init__(self, stream: OriginStream, start: int) -> None:
        self.stream = stream
        self.start = start  # in the block
        self.stop = start
        self.parts: list[TuplePart] = []


def batch_of(stream: OriginStream, parts: Sequence[TuplePart], rows: Any, length: int, **more: Any) -> FormattedBatch:
    """Return a batch at the place of these parts."""
    first, last, number = parts[0], parts[-1], stream.shredder.number
    return FormattedBatch(
        origin_id=stream.origin_id,
        first_sequence=number(first.first),
        last_sequence=number(last.last),
        from_place=first.from_place,
        to_place=last.to_place,
        offset=first.offset,
        length=length,
        rows=rows,
        **more,
    )


class Cutting:
    """One parsed block and its groups; the ends of tuples are computed once, when something first needs them."""

    def __init__(
        self, groups: Sequence[Group], block: Block, parsed: ParsedBlock, malformed: Malformed, described: int
    ) -> None:
        self._groups = groups
        self._block = block
        self._parsed = parsed
        self._malformed = malformed
        self._described = described
        self._all_ends: Any = None
        self._tuples = [0, parsed.tuples] if len(groups) == 1 else self._borders()
        self._rows = self._places(parsed.kept) if parsed.kept is not None else self._tuples
        self._bad = self._places(parsed.bad_tuples)
        self._nulled = self._places(parsed.nulled)
        self._letters: dict[int, list[BadTuple]] = {}
        for fault in parsed.bad[:described]:
            number = bisect_right(self._tuples, fault.index, 0, len(self._tuples) - 1) - 1
            self._letters.setdefault(number, []).append(fault)

    def batches(self) -> list[FormattedBatch]:
        """Return one batch for each group."""
        return [self._batch(number, group) for number, group in enumerate(self._groups)]

    def _borders(self) -> list[int]:
        """Return the number of tuples before each group, and in all."""
        groups, parsed = self._groups, self._parsed
        if parsed.delimiters is not None:
            counts = [parsed.delimiters(group.start, group.stop) for group in groups]
            if sum(counts) == parsed.tuples:
                return list(accumulate(counts, initial=0))
        stops = [group.stop for group in groups[:-1]]
        return [0, *self._ends().searchsorted(stops, "right").tolist(), parsed.tuples]

    def _ends(self) -> Any:
        """Return the offsets after all tuples of the block, computed once."""
        if self._all_ends is None:
            self._all_ends = self._parsed.ends()
        return self._all_ends

    def _places(self, indices: Any) -> list[int]:
        """Return how many of these tuples are before each border of groups."""
        count = len(indices)
        if not count:
            return [0] * len(self._tuples)
        if len(self._tuples) == 2:
            return [0, count]
        return [0, *indices.searchsorted(self._tuples[1:-1], "left").tolist(), count]

    def _batch(self, number: int, group: Group) -> FormattedBatch:
        parsed = self._parsed
        bad = self._bad[number + 1] - self._bad[number]
        if bad and self._malformed == Malformed.FAIL:
            return self._failed(number, group)
        tuples = self._tuples[number + 1] - self._tuples[number]
        first, last = self._rows[number], self._rows[number + 1]
        dead: tuple[DeadLetter, ...] = ()
        if bad and self._malformed == Malformed.DEAD_LETTER:
            dead = tuple([self._letter(number, group, fault) for fault in self._letters.get(number, ())])
        return batch_of(
            group.stream,
            group.parts,
            parsed.rows if last - first == parsed.rows.num_rows else parsed.rows.slice(first, last - first),
            group.stop - group.start,
            tuples=tuples,
            bad=bad,
            filtered=tuples - bad - (last - first),
            nulled=self._nulled[number + 1] - self._nulled[number],
            dead=dead,
            layout=self._layout(number, group, first, last, bad),
        )

    def _layout(self, number: int, group: Group, first: int, last: int, count: int) -> TupleLayout | None:
        """Return the layout of a batch that has the first ``count`` malformed tuples of its group."""
        if first == last and not count:
            return None
        kept, start = self._parsed.kept, self._bad[number]
        return TupleLayout(
            self._ends,
            self._tuples[number],
            group.start,
            None if kept is None else kept[first:last],
            self._parsed.bad_tuples[start : start + count] if count else None,
        )

    def _failed(self, number: int, group: Group) -> FormattedBatch:
        """Return the part before the first bad tuple, with the failure."""
        parsed, start = self._parsed, self._tuples[number]
        index = int(parsed.bad_tuples[self._bad[number]])
        faults = self._letters.get(number)
        if faults and faults[0].index == index:
            fault = faults[0]
        else:  # it is not described, as too many bad tuples precede it in the block
            begin = int(self._ends()[index - 1]) if index > start else group.start
            fault = BadTuple(index, begin, int(self._ends()[index]), "", "a tuple that fits the schema", "malformed")
        first, last = self._rows[number], self._rows[number + 1]
        if parsed.kept is not None:
            last = first + int(parsed.kept[first:last].searchsorted(index))
        nulled = parsed.nulled[self._nulled[number] : self._nulled[number + 1]]
        return batch_of(
            group.stream,
            group.parts,
            parsed.rows.slice(first, last - first),
            fault.start - group.start,
            tuples=index - start + 1,
            bad=1,
            filtered=index - start - (last - first),
            nulled=int(nulled.searchsorted(index)) if len(nulled) else 0,
            failure=self._letter(number, group, fault),
            layout=self._layout(number, group, first, last, 1),
        )

    def _letter(self, number: int, group: Group, fault: BadTuple) -> DeadLetter:
        offset = group.parts[0].offset
        stop = min(fault.stop, fault.start + DEAD_LETTER_BYTES)
        return DeadLetter(
            origin_id=group.stream.origin_id,
            sequence_number=group.stream.shredder.number(self._position(group, fault)),
            byte_offset=fault.start - group.start + max(offset, 0),
            row=fault.index - self._tuples[number],
            field=fault.field,
            expected=fault.expected,
            reason=fault.reason,
            data=bytes(self._block.data[fault.start : stop]),
        )

    def _position(self, group: Group, fault: BadTuple) -> int:
        """Return the raw buffer in which a tuple ends, delimiter included."""
        end, start = int(self._ends()[fault.index]), group.start
        for part in group.parts:
            if end <= start + part.length:
                if part.unit is None or part.unit.cut is None:
                    return part.position
                return part.unit.position_of(part.unit.cut.first + end - start)
            start += part.length
        return group.parts[-1].last


Parts = tuple[OriginStream, list[TuplePart]]
"""Parts of one origin that a call has completed."""

_by_place = attrgetter("from_place")


class Assembly:
    """Makes blocks of parts, has them parsed, and cuts the columns into batches; stateless between calls."""

    def __init__(self, schema: Schema, indexer: InputFormatIndexer, described: int) -> None:
        self._indexer = indexer
        self._described = described
        self._malformed = schema.malformed
        self._tuple_bytes = schema.limits.tuple_bytes
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
                if waiting.length >= most:  # bounded, so that a block is parsed while it is in the processor's cache
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

    def unfinished(self, stream: OriginStream, tail: TuplePart) -> FormattedBatch:
        """Return the batch of a tuple that the end of the stream has cut short."""
        tail.sample = b"".join(tail.pieces or ())[:DEAD_LETTER_BYTES]
        return self._refused(stream, tail, "a whole tuple at the end of the stream", f"only {tail.length} bytes of one")

    def _alone(self, stream: OriginStream, part: TuplePart) -> FormattedBatch | None:
        """Return the batch of the header or of a tuple that is too long, which have no bytes in the block."""
        if part.from_place == 0 and self._indexer.has_header and part.offset == 0:
            return batch_of(stream, [part], self._empty, part.length)
        if part.pieces is None:
            return self._refused(stream, part, f"at most {self._tuple_bytes} bytes", f"{part.length} bytes")
        return None

    def _refused(self, stream: OriginStream, part: TuplePart, expected: str, reason: str) -> FormattedBatch:
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

    def begin(self, stream: OriginStream) -> Group:
        """Begin a group, as the next part is not adjacent to the last one."""
        group = Group(stream, self.length)
        self.groups.append(group)
        return group

    def add(self, part: TuplePart) -> None:
        """Add a part to the newest group."""
        group = self.groups[-1]
        group.parts.append(part)
        if part.length:
            self.pieces += part.pieces or ()
            self.length += part.length
        group.stop = self.length


def _sections(group: Group) -> list[Section]:
    """Return one section for each part that the format must see separately, and one for each stretch of other parts."""
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
