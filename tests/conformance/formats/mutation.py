"""Random damage to the bytes of a file, and the tuples that it cannot have reached."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.conformance.formats.sample import Sample

__all__ = ["KINDS", "Edit", "Mutation", "mutated"]

KINDS = ("flip", "replace", "insert", "delete", "duplicate", "splice", "truncate")
"""Kinds of edits."""
_LONGEST_DELIMITER = 8
_HOT = b'",\n\r\\{}[]:|<>\x00\xff\xc3\x80-0 '


@dataclass(frozen=True)
class Edit:
    """One change; its offsets are those of the original."""

    kind: str
    start: int
    stop: int
    bytes: bytes


@dataclass(frozen=True)
class Mutation:
    """Damaged file."""

    sample: Sample
    """Valid file."""
    edits: tuple[Edit, ...]
    """Edits in order, which do not touch each other."""

    @property
    def data(self) -> bytes:
        """Bytes after all edits."""
        parts, at = [], 0
        for edit in self.edits:
            parts += [self.sample.data[at : edit.start], edit.bytes]
            at = edit.stop
        return b"".join([*parts, self.sample.data[at:]])

    @property
    def untouched(self) -> list[int]:
        """Numbers of the tuples that must be unchanged."""
        sample = self.sample
        starts = [sample.start, *sample.ends[:-1]]
        if sample.spread == "tuple" or (sample.spread == "length" and self._keeps_anchors):
            return [n for n, span in enumerate(zip(starts, sample.ends, strict=True)) if not self._reaches(*span)]
        first = self.edits[0].start if self.edits else len(sample.data) + 1
        return [n for n, end in enumerate(sample.ends) if end <= first and (end < len(sample.data) or first > end)]

    @property
    def _keeps_anchors(self) -> bool:
        return all(
            len(edit.bytes) == edit.stop - edit.start and self.sample.anchors.isdisjoint(range(edit.start, edit.stop))
            for edit in self.edits
        )

    def _reaches(self, start: int, stop: int) -> bool:
        """Return True if an edit touches the tuple, the end of the one before it, or the header before the first."""
        last = stop == len(self.sample.data)
        first = start == self.sample.start
        return any(
            (edit.start < stop or (last and edit.start == stop)) and (edit.stop >= start - _LONGEST_DELIMITER or first)
            for edit in self.edits
        )


def mutated(rng: random.Random, sample: Sample) -> Mutation:
    """Damage a sample by one edit or a few, most often near delimiters and quotes."""
    length = len(sample.data)
    places = sorted(_place(rng, length, sample.breaks) for _ in range(rng.choice((1, 1, 1, 2, 4))))
    edits: list[Edit] = []
    for place in places:
        if edits and place <= edits[-1].stop:
            continue
        edits.append(_edit(rng, sample.data, place))
        if edits[-1].kind == "truncate":
            break
    return Mutation(sample, tuple(edits))


def _place(rng: random.Random, length: int, breaks: Sequence[int]) -> int:
    if breaks and rng.random() < 0.4:
        return min(max(rng.choice(breaks) + rng.randint(-2, 2), 0), length)
    return rng.randint(0, length)


def _edit(rng: random.Random, data: bytes, place: int) -> Edit:
    kind = rng.choice(KINDS)
    size = rng.choice((1, 1, 2, 7, 40))
    stop = min(place + size, len(data))
    source = rng.randint(0, len(data))
    if kind == "flip":
        stop = min(place + 1, len(data))
        return Edit(kind, place, stop, bytes(byte ^ 1 << rng.randint(0, 7) for byte in data[place:stop]))
    if kind == "replace":
        return Edit(kind, place, stop, _noise(rng, stop - place))
    if kind == "insert":
        return Edit(kind, place, place, _noise(rng, size))
    if kind == "delete":
        return Edit(kind, place, stop, b"")
    if kind == "duplicate":
        return Edit(kind, place, place, data[place:stop] * rng.choice((1, 1, 3)))
    if kind == "splice":
        return Edit(kind, place, stop, data[source : source + rng.choice((1, 5, 50))])
    return Edit(kind, place, len(data), b"")


def _noise(rng: random.Random, size: int) -> bytes:
    return bytes(rng.choice(_HOT) if rng.random() < 0.7 else rng.randrange(256) for _ in range(size))
