"""Streams of deltas: random ones from a seed, and smaller ones made from a stream that shows a fault."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from runtime.compiler import Relation
from runtime.plan import EPOCH_TIME
from tests.conformance.schema import Row, random_row

__all__ = ["Stream", "live_rows", "random_stream", "shrunken"]

_BEGIN: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the column has no zone
_DAY_NS: Final = 1_708_992_000_000_000_000
_TIMES: Final = (
    0, 1, 2, 4, 5, 9, 13, 14, 1_000_000_000, 1_000_000_003, 1_600_000_000, 3_100_000_000, 62_000_000_000,
    _DAY_NS, _DAY_NS + 1, _DAY_NS + 60 * 10**9, _DAY_NS + 90_059 * 10**9, _DAY_NS + 25_930_000 * 10**9,
)  # fmt: skip
"""Times of epochs, near the times of the relations' rows."""

Delta = tuple[str, Row, int]
Segment = tuple[Delta, ...]
Version = tuple[Segment, ...]


@dataclass(frozen=True)
class Stream:
    """Versions of segments of deltas (relation, row, weight)."""

    versions: tuple[Version, ...]

    def __str__(self) -> str:
        lines = []
        for number, version in enumerate(self.versions, 1):
            lines.append(f"version {number}:" + (" nothing" if not any(version) else ""))
            for place, segment in enumerate(version, 1):
                lines += [f"  segment {place}: {name} {weight:+d} {row}" for name, row, weight in segment]
        return "\n".join(lines)

    @property
    def deltas(self) -> int:
        """Number of deltas."""
        return sum(len(segment) for version in self.versions for segment in version)


def live_rows(stream: Stream) -> Iterator[dict[str, Counter[Row]]]:
    """Yield the relations after each version; a count is negative if a deletion came before its insertion."""
    held: dict[str, Counter[Row]] = {}
    for version in stream.versions:
        for segment in version:
            for name, row, weight in segment:
                rows = held.setdefault(name, Counter())
                rows[row] += weight
                if not rows[row]:
                    del rows[row]
        yield held


def random_stream(
    rng: random.Random, relations: Sequence[Relation], *, versions: int = 6, rows: int = 4, early: bool = False
) -> Stream:
    """Return a stream of random insertions and deletions, after which no row is left.

    Some rows are inserted twice, some are inserted and deleted in one version, and versions may be empty. With
    ``early`` a deletion may come a version before its insertion.
    """
    huge = rng.random() < 0.04
    has_time = EPOCH_TIME in relations
    relations = [relation for relation in relations if relation != EPOCH_TIME]
    held: dict[str, list[Row]] = {relation.name: [] for relation in relations}
    now: Row | None = None
    made: list[Version] = []
    later: list[Delta] = []
    for number in range(versions):
        busy = rng.random()
        grows = 0.85 if number < versions // 2 else 0.45
        deltas, later = later, []
        if busy > 0.1 or not number:
            for relation in relations:
                for _ in range(rng.randint(0, rows if busy < 0.8 else 3 * rows)):
                    _add_delta(rng, relation, held[relation.name], deltas, later if early else None, grows, huge=huge)
        if has_time and rng.random() < 0.85:
            now = _time_passes(rng, now, deltas)
        made.append(_segments(rng, deltas))
    again = rng.random() < 0.3
    gone = [] if now is None else [(EPOCH_TIME.name, now, -1)]
    made.append(_segments(rng, later + _all_gone(held) + gone))
    if again:
        deltas = [(relation.name, random_row(rng, relation), 1) for relation in relations for _ in range(2)]
        made += [_segments(rng, deltas), _segments(rng, [(name, row, -1) for name, row, _ in deltas])]
    return Stream(tuple(made))


def _add_delta(
    rng: random.Random, relation: Relation, held: list[Row], deltas: list[Delta], later: list[Delta] | None,
    grows: float, *, huge: bool,
) -> None:  # fmt: skip
    chance = rng.random()
    if held and chance > grows:
        deltas.append((relation.name, held.pop(rng.randrange(len(held))), -1))
        return
    row = rng.choice(held) if held and rng.random() < 0.1 else random_row(rng, relation, huge=huge)
    if rng.random() < 0.08:  # inserted and deleted in one version
        deltas += [(relation.name, row, 1), (relation.name, row, -1)]
        return
    if later is not None and rng.random() < 0.1:
        deltas.append((relation.name, row, -1))
        later.append((relation.name, row, 1))
        return
    times = 2 if rng.random() < 0.15 else 1
    deltas.append((relation.name, row, times))
    held += [row] * times


def _time_passes(rng: random.Random, now: Row | None, deltas: list[Delta]) -> Row:
    """Add the change of `EPOCH_TIME` at an epoch to the deltas; return its new row. Time never decreases."""
    later = [time for time in _TIMES if now is None or time > now[0]]
    if not later:
        assert now is not None
        return now
    time = rng.choice(later[: rng.choice((1, 3, len(later)))])
    row = (time, _BEGIN + timedelta(microseconds=time // 1000))
    deltas += [] if now is None else [(EPOCH_TIME.name, now, -1)]
    deltas.append((EPOCH_TIME.name, row, 1))
    return row


def _all_gone(held: dict[str, list[Row]]) -> list[Delta]:
    deltas = [(name, row, -1) for name, rows in held.items() for row in rows]
    for rows in held.values():
        rows.clear()
    return deltas


def _segments(rng: random.Random, deltas: list[Delta]) -> Version:
    """Return the deltas in random order, in one segment or two."""
    rng.shuffle(deltas)
    if len(deltas) > 1 and rng.random() < 0.4:
        at = rng.randint(1, len(deltas) - 1)
        return tuple(deltas[:at]), tuple(deltas[at:])
    return (tuple(deltas),) if deltas else ()


def shrunken(stream: Stream, fails: Callable[[Stream], bool], tries: int = 400) -> Stream:
    """Return a smaller stream that still fails: without versions, then without halves, quarters and single deltas."""
    for place in range(len(stream.versions) - 1, 0, -1):
        shorter = Stream(stream.versions[:place])
        tries -= 1
        if not fails(shorter):
            break
        stream = shorter
    size = max(stream.deltas, 1)
    while tries > 0:
        place, found = 0, False
        while place < stream.deltas and tries > 0:
            candidate = _without(stream, place, size)
            tries -= 1
            if candidate != stream and fails(candidate):
                stream, found = candidate, True
            else:
                place += size
        if size == 1 and not found:
            break
        size = max(size // 2, 1)
    merged = Stream(tuple((tuple(d for segment in v for d in segment),) for v in stream.versions if any(v)))
    return merged if merged != stream and fails(merged) else stream


def _without(stream: Stream, place: int, size: int) -> Stream:
    """Return a stream without these deltas, and without the deletions of rows that are then missing."""
    number, kept = 0, []
    for version in stream.versions:
        segments = []
        for segment in version:
            segments.append(tuple(d for at, d in enumerate(segment, number) if not place <= at < place + size))
            number += len(segment)
        kept.append(tuple(segments))
    held: Counter[tuple[str, Row]] = Counter()
    versions = []
    for kept_version in kept:
        for name, row, weight in (d for segment in kept_version for d in segment):
            held[name, row] += max(weight, 0)
        done = []
        for segment in kept_version:
            deltas = []
            for name, row, weight in segment:
                if weight < 0:
                    if held[name, row] < -weight:
                        continue
                    held[name, row] += weight
                deltas.append((name, row, weight))
            done.append(tuple(deltas))
        versions.append(tuple(segment for segment in done if segment))
    return Stream(tuple(versions))
