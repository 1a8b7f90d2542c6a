"""Starts of length-prefixed messages: searched before the start of the first message is known, settled once it is.

Every position at which a length prefix is followed by a type of that length is a *candidate*. Nearly all candidates are
messages; the others are coincidences inside of messages. A candidate determines where the next message starts.
Successive candidates form a *stretch* if each of them starts where the previous one ends. A walk goes from stretch to
stretch, so that it loops over coincidences and malformed messages, but not over all messages.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from deltabook.wire.itch import LONGEST, MESSAGES
from runtime.formats.format import RunIndex, TupleRange

__all__ = [
    "FILE",
    "HEARTBEAT",
    "SEQUENCED",
    "SOUPBIN",
    "UNSEQUENCED",
    "Chain",
    "Framing",
    "ItchRunIndex",
    "refused",
    "state_at",
    "walk",
]

Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]

SEQUENCED: Final = ord("S")
UNSEQUENCED: Final = ord("U")
HEARTBEAT: Final = ord("H")
_DEBUG: Final = ord("+")

_CHUNK: Final = 1 << 17
_UNKNOWN: Final = 255
"""Entry of a table of lengths for types without a message. No message has this length, but the length prefix of a
malformed message may have this value.
"""
_FEW_BYTES: Final = 1 << 11
"""Greatest length of runs that are not searched before the start of the first message is known."""
_PLAUSIBLE: Final = 4
"""A stretch with at least this many candidates after its first one counts as messages, and not as a coincidence."""


def _table(lengths: dict[str, int]) -> Bytes:
    table = np.full(256, _UNKNOWN, np.uint8)
    for letter, length in lengths.items():
        table[ord(letter)] = length
    return table


class Framing(msgspec.Struct, frozen=True, eq=False):
    """Format of the bytes before messages."""

    name: str
    """Name in scripts."""
    header: int
    """Number of bytes before a message's type byte."""
    lengths: Bytes
    """Length prefix by the message's type, 255 for none."""
    bare: Bytes
    """Length prefix of a packet without a message by the packet's type, 255 for none."""
    ignored: bytes = b""
    """Types of packets that are not tuples."""


_LENGTHS: Final = {letter: message.length for letter, message in MESSAGES.items()}
FILE: Final = Framing("file", 2, _table(_LENGTHS), _table({}))
"""Framing of a length in two bytes and the message, as in NASDAQ's daily files."""
SOUPBIN: Final = Framing(
    "soupbin",
    3,
    _table({letter: length + 1 for letter, length in _LENGTHS.items()}),
    _table({"H": 1, "Z": 1, "A": 31, "J": 2}),
    b"ZAJ+",
)
"""Framing of SoupBinTCP packets from a server: a length, a packet type and, in packets of type S or U, a message."""


def _suspects(data: Bytes, framing: Framing) -> Integers:
    """Return positions that may be candidates, found by comparisons of bytes in chunks that stay in cache."""
    shortest, widest = (1, LONGEST) if framing.header == 3 else (12, LONGEST - 12)
    count = len(data) - 2
    chunk = max(8, min(_CHUNK, count))
    mask, flags = np.empty(chunk, np.bool_), np.empty(chunk, np.bool_)
    shifted = np.empty(chunk, np.uint8)
    parts = []
    for base in range(0, count, chunk):
        n = min(chunk, count - base)
        candidates, other, value = mask[:n], flags[:n], shifted[:n]
        np.equal(data[base : base + n], 0, out=candidates)
        np.subtract(data[base + 1 : base + 1 + n], np.uint8(shortest), out=value)
        np.less_equal(value, np.uint8(widest), out=other)
        candidates &= other
        np.subtract(data[base + 2 : base + 2 + n], np.uint8(65), out=value)  # A to h
        np.less_equal(value, np.uint8(39), out=other)
        candidates &= other
        parts.append(np.flatnonzero(candidates) + base)
    return parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.int64)])


def _right_lengths(data: Bytes, at: Integers, framing: Framing) -> Bytes:
    """Return the expected length prefixes at some places, by the types after them; 255 for unknown types."""
    if not len(at):
        return data[:0]
    kind = data.take(at + 2, mode="clip")
    if framing is FILE:
        return framing.lengths.take(kind)
    has_message = (kind == SEQUENCED) | (kind == UNSEQUENCED)
    message = framing.lengths.take(data.take(at + 3, mode="clip"))
    return np.where(has_message, message, framing.bare.take(kind))


class Chain(msgspec.Struct, frozen=True, eq=False):
    """Tuples that follow each other from a start on."""

    starts: Integers
    """Offset of each tuple, and of each packet that is not a tuple."""
    bad: Integers
    """Offsets of the malformed tuples."""
    stop: int
    """Offset at which the last tuple ends, and an unfinished one may begin."""


class _Candidates:
    """All candidates that end within the bytes, and their stretches."""

    def __init__(self, data: Bytes, framing: Framing, limit: int) -> None:
        self.data, self.framing, self.limit = data, framing, limit
        at = _suspects(data, framing)
        prefix = data.take(at + 1)
        length = _right_lengths(data, at, framing)
        good = length == prefix
        if limit < LONGEST + 3:
            good &= prefix <= limit - 2
        if not good.all():
            chosen = np.flatnonzero(good)
            at, length = at.take(chosen), length.take(chosen)
        after = at + length
        after += 2
        whole = int(np.searchsorted(at, len(data) - LONGEST - 3)) if len(at) else 0
        if (over := np.flatnonzero(after[whole:] > len(data))).size:
            kept = np.delete(np.arange(len(at)), whole + over)
            at, after = at.take(kept), after.take(kept)
        self.at, self.after = at, after
        count = len(at)
        breaks = np.flatnonzero(after[:-1] != at[1:]) if count else at
        self.last = np.append(breaks, count - 1) if count else breaks  # the last candidate of each stretch
        exits = after.take(self.last)
        target = np.searchsorted(at, exits)
        hit = at.take(np.minimum(target, count - 1)) == exits if count else np.zeros(0, np.bool_)
        self.target = np.where(hit, target, -1).tolist()  # the candidate after a stretch, -1 for none
        self.stretch = np.searchsorted(self.last, target).tolist()  # the stretch of that candidate

    def guess(self) -> int | None:
        """Return the first candidate with which a plausible sequence of messages begins; None if there is none."""
        last, target, stretch = self.last.tolist(), self.target, self.stretch
        count, size = len(last), len(self.data)
        plausible = [False] * count
        for i in range(count - 1, -1, -1):
            begin = last[i - 1] + 1 if i else 0
            plausible[i] = (
                last[i] - begin >= _PLAUSIBLE
                or (target[i] >= 0 and plausible[stretch[i]])
                or (target[i] < 0 and size - int(self.after[last[i]]) < 2)
            )
        for i in range(count):
            if plausible[i]:
                return int(self.at[last[i - 1] + 1 if i else 0])
        return None

    def walk(self, start: int, known: Chain | None = None) -> Chain:
        """Return the chain from a start on; the rest is that of ``known`` once a tuple of that chain is reached."""
        at, data, size = self.at, self.data, len(self.data)
        parts: list[Integers] = []
        bad: list[int] = []
        while True:
            if known is not None and (joined := _from(known, start)) is not None:
                parts.append(joined.starts)
                return Chain(np.concatenate(parts), np.append(np.array(bad, np.int64), joined.bad), joined.stop)
            i = int(np.searchsorted(at, start))
            if i < len(at) and int(at[i]) == start:
                start = self._follow(i, parts)
                continue
            length = (int(data[start]) << 8 | int(data[start + 1])) + 2 if start + 2 <= size else size + 1
            if start + length > size:
                starts = parts[0] if len(parts) == 1 else np.concatenate([*parts, np.zeros(0, np.int64)])
                return Chain(starts, np.array(bad, np.int64), start)
            parts.append(np.array([start], np.int64))
            if not (self.framing.ignored and length > 2 and data[start + 2] == _DEBUG):
                bad.append(start)
            start += length

    def _follow(self, i: int, parts: list[Integers]) -> int:
        """Follow candidates from one on as far as they go; return where the last one ends."""
        s = int(np.searchsorted(self.last, i))
        while True:
            end = int(self.last[s])
            parts.append(self.at[i : end + 1])
            if self.target[s] < 0:
                return int(self.after[end])
            i, s = self.target[s], self.stretch[s]


def _from(chain: Chain, start: int) -> Chain | None:
    """Return the part of a chain from a start on; None if no tuple of the chain starts there."""
    i = int(np.searchsorted(chain.starts, start))
    if i == len(chain.starts) or int(chain.starts[i]) != start:
        return None
    if not i:
        return chain
    return Chain(chain.starts[i:], chain.bad[np.searchsorted(chain.bad, start) :], chain.stop)


def state_at(data: Bytes | bytes | memoryview, stop: int) -> int:
    """Return the state after bytes whose last, unfinished message begins at offset ``stop``.

    The state is the number of bytes that the message lacks, 0 if no message is unfinished, and ``-1 - byte`` after the
    first byte of a length prefix.
    """
    left = len(data) - stop
    if not left:
        return 0
    if left == 1:
        return -1 - int(data[stop])
    return (int(data[stop]) << 8 | int(data[stop + 1])) + 2 - left


class ItchRunIndex(RunIndex):
    """Index that guesses the start of a run's first message, until the state at the start of the run is known."""

    def __init__(self, data: Bytes, framing: Framing, limit: int) -> None:
        self._data, self._framing, self._limit = data, framing, limit
        self._candidates: _Candidates | None = None
        self._chain: Chain | None = None
        if len(data) > _FEW_BYTES:
            self._candidates = _Candidates(data, framing, limit)
            guess = self._candidates.guess()
            self._chain = self._candidates.walk(0 if guess is None else guess)

    def cut(self, state: int) -> TupleRange:
        """Return the cut, by a search in the known chain if the guess is right."""
        size = len(self._data)
        start = self._start(state)
        if start is None:
            return TupleRange(
                -1, -1, state if not size else state - size if state >= 0 else _state_at_half(state, self._data)
            )
        chain = self.chain(state)
        return TupleRange(start, chain.stop, state_at(self._data, chain.stop))

    def chain(self, state: int) -> Chain:
        """Return the messages that begin and end in the run, for this state at its start."""
        start = self._start(state)
        if start is None:
            return Chain(np.zeros(0, np.int64), np.zeros(0, np.int64), len(self._data))
        known = None if self._chain is None else _from(self._chain, start)
        if known is not None:
            return known
        if self._candidates is not None:
            return self._candidates.walk(start, self._chain)
        self._chain = _walk_few(self._data, start, self._framing, self._limit)
        return self._chain

    def _start(self, state: int) -> int | None:
        """Return the start of the first message that begins in the run; None if the open message ends after the run."""
        size = len(self._data)
        if not size:
            return None
        start = state if state >= 0 else ((-1 - state) << 8 | int(self._data[0])) + 1
        return start if start <= size else None


def _state_at_half(state: int, data: Bytes) -> int:
    """Return the state after bytes that begin with the second byte of a length prefix and do not end the message."""
    return ((-1 - state) << 8 | int(data[0])) + 1 - len(data)


def refused(data: Bytes, starts: Integers, framing: Framing, limit: int) -> Integers:
    """Return the starts of malformed tuples among whole ones."""
    prefix = data.take(starts).astype(np.int64) << 8 | data.take(starts + 1)
    good = (prefix == _right_lengths(data, starts, framing)) & (prefix != _UNKNOWN) & (prefix <= limit - 2)
    if framing.ignored:
        good |= (prefix > 0) & (data.take(starts + 2, mode="clip") == _DEBUG)
    malformed: Integers = starts[~good]
    return malformed


def walk(data: Bytes, framing: Framing, limit: int) -> Chain:
    """Return the tuples of bytes that begin with one."""
    if len(data) <= _FEW_BYTES:
        return _walk_few(data, 0, framing, limit)
    return _Candidates(data, framing, limit).walk(0)


def _walk_few(data: Bytes, start: int, framing: Framing, limit: int) -> Chain:
    """Return the chain from a start on, message by message, as `_Candidates.walk` does."""
    text, lengths, bare = data.tobytes(), framing.lengths.tobytes(), framing.bare.tobytes()
    starts: list[int] = []
    bad: list[int] = []
    size = len(text)
    while start + 2 <= size:
        prefix = text[start] << 8 | text[start + 1]
        stop = start + 2 + prefix
        if stop > size:
            break
        kind = text[start + 2] if prefix else 0
        if framing is FILE:
            right = lengths[kind]
        elif kind in (SEQUENCED, UNSEQUENCED):
            right = lengths[text[start + 3]] if prefix > 1 else _UNKNOWN
        else:
            right = bare[kind]
        is_good = prefix == right != _UNKNOWN and stop - start <= limit
        if not is_good and not (framing.ignored and prefix and kind == _DEBUG):
            bad.append(start)
        starts.append(start)
        start = stop
    return Chain(np.array(starts, np.int64), np.array(bad, np.int64), start)
