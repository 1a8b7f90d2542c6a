"""Verification of a journal: applies every input again, and compares the files with the results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from exchange_server.errors import JournalError
from exchange_server.journal.directory import INPUTS, SNAPSHOTS
from exchange_server.journal.disk import LOCAL_DISK, JournalDisk
from exchange_server.journal.history import History, MakeOutputs, Walk
from exchange_server.journal.numbered_file import damage_before
from exchange_server.journal.snapshots import JournalSnapshots, Snapshot
from exchange_server.journal.streams import PRIVATE, feed_name, kind_of
from exchange_server.matching.outputs import Now

__all__ = ["Verified", "surplus", "verify"]

_COMPARED_BYTES: Final = 1 << 18
"""Number of bytes compared at a time."""


class Verified(msgspec.Struct, frozen=True):
    """Result of verifying a journal."""

    session: str
    """Name of the session."""
    first: int
    """Number of the oldest input present; the market before it is taken from a snapshot."""
    inputs: int
    """Number of the newest input."""
    state_hash: str
    """Fingerprint of the market after the newest input."""
    messages: dict[str, int]
    """Number of the last message of each form of the feed."""
    compared_bytes: dict[str, int]
    """Number of correct bytes of each stream's file, by its name."""
    snapshots: tuple[int, ...]
    """Numbers of the inputs at which a snapshot agrees with the market."""
    torn_bytes: int
    """Number of bytes after the last whole record: a start would cut them, or an exchange is writing them."""
    problems: tuple[str, ...]
    """Problems and their places; empty if there are none."""
    derived: dict[str, str] = {}
    """Problems of snapshots and streams, by the file's name in the directory; such files can be derived again from
    the requests.
    """


def verify(directory: Path, make_outputs: MakeOutputs, disk: JournalDisk = LOCAL_DISK) -> Verified:
    """Check every record, snapshot and stream in a directory; change nothing.

    A form of the feed without a file is not compared. If the journal grows meanwhile, an exchange is writing, and
    streams that are longer or shorter are not reported. Raise `JournalError` if there is no journal or its beginning is
    unusable; damage after the beginning is reported among the problems.
    """
    history = History(directory, make_outputs, disk)
    head = history.reader.head
    made, _ = make_outputs(head.rules, Now())
    snapshots = JournalSnapshots(directory / SNAPSHOTS, disk)
    newest = next(snapshots.newest(), None)
    written = set(newest.streams) if newest else set()
    forms = {form for form in made if feed_name(form) in written or disk.is_file(directory / feed_name(form))}
    # The walk starts at the first input or, if that input was removed, at the oldest intact snapshot, which is assumed
    # to be correct.
    usable = (number for number in reversed(snapshots.inputs()) if number + 1 >= head.first)
    oldest = next(filter(None, map(snapshots.read, usable)), None) if head.first > 1 else None
    if oldest is not None:
        forms &= set(oldest.encoders)
    walk = history.walk(lambda snapshot: oldest is not None and snapshot.inputs == oldest.inputs, forms=forms)
    comparison = _Comparison(directory, disk, walk.begin)
    walk.on_output = comparison.take
    size = _size(directory, disk)
    good, problems, derived = _compare_snapshots(history, snapshots, walk)
    end = history.reader.end
    for name, position in walk.begin.streams.items() if walk.begin else ():
        if name not in {feed_name(form) for form in made if form not in forms}:
            problems += filter(None, [damage_before(position, directory / name, disk)])
    derived |= comparison.finish(is_growing=_size(directory, disk) != size)
    # Surplus records cannot be derived again: the requests that published them are lost.
    problems += [derived.pop(name) for name in comparison.surplus if history.reader.keeps_writes]
    moment = walk.moment()
    return Verified(
        session=head.session,
        first=head.first,
        inputs=moment.inputs,
        state_hash=moment.state_hash,
        messages=moment.messages,
        compared_bytes=comparison.sizes,
        snapshots=tuple(good),
        torn_bytes=end.torn_bytes if end else 0,
        problems=(*problems, *derived.values()),
        derived=derived,
    )


def surplus(directory: Path, make_outputs: MakeOutputs, disk: JournalDisk = LOCAL_DISK) -> str:
    """Return a text that names the streams' files with more bytes than follow from the requests; empty without any.

    The requests since the newest snapshot are applied; nothing is changed. Raise `JournalError` if the journal cannot
    be read.
    """
    history = History(directory, make_outputs, disk)
    made, _ = make_outputs(history.reader.head.rules, Now())
    newest = next(JournalSnapshots(directory / SNAPSHOTS, disk).newest(), None)
    written = made if newest is None else newest.encoders  # an earlier exchange may have left another form's file
    forms = [form for form in made if form in written and disk.is_file(directory / feed_name(form))]
    walk = history.walk(forms=forms)
    sizes = {name: at.size_bytes for name, at in walk.begin.streams.items()} if walk.begin else {}

    def count(name: str, data: bytes) -> None:
        sizes[name] = sizes.get(name, 0) + len(data)

    walk.on_output = count
    for _ in walk.each():
        pass
    private = [f"{PRIVATE}/{name}" for name in disk.names(directory / PRIVATE) if name.endswith((".lines", ".packets"))]
    more = {
        name: _file_size(directory / name, disk) - sizes.get(name, 0) for name in (*map(feed_name, forms), *private)
    }
    return "; ".join(f"{count} bytes more in {name}" for name, count in more.items() if count > 0)


def _compare_snapshots(
    history: History, snapshots: JournalSnapshots, walk: Walk
) -> tuple[list[int], list[str], dict[str, str]]:
    """Walk to the end, and compare each snapshot on the way except the one from which the walk began.

    Return the inputs of the correct snapshots, the problems of inputs, and the problems of snapshots by file name.
    """
    good: list[int] = []
    problems: list[str] = []
    derived: dict[str, str] = {}
    pending = set(snapshots.inputs())
    if walk.begin is not None:
        pending.discard(walk.begin.inputs)
    try:
        for number in walk.each():
            if number in pending:
                pending.discard(number)
                why = _difference(history, snapshots.read(number), walk)
                if why:
                    derived[_name(number, snapshots, history.directory)] = _words(number, snapshots, why)
                else:
                    good.append(number)
    except JournalError as error:
        problems.append(str(error))
    for number in sorted(pending):
        if snapshots.path(number) in snapshots.damaged:
            derived[_name(number, snapshots, history.directory)] = _words(number, snapshots, "")
        else:
            problems.append(_words(number, snapshots, "expected inputs up to it, were none"))
    return good, problems, derived


def _name(number: int, snapshots: JournalSnapshots, directory: Path) -> str:
    return str(snapshots.path(number).relative_to(directory))


def _words(number: int, snapshots: JournalSnapshots, why: str) -> str:
    path = snapshots.path(number)
    return f"{path}: {snapshots.damaged.get(path, why)}"


def _size(directory: Path, disk: JournalDisk) -> int:
    """Return the size of all segments in bytes."""
    return sum(_file_size(directory / INPUTS / name, disk) for name in disk.names(directory / INPUTS))


def _file_size(path: Path, disk: JournalDisk) -> int:
    descriptor = disk.open(path, read_only=True)
    try:
        return disk.size(descriptor)
    finally:
        disk.close(descriptor)


def _difference(history: History, snapshot: Snapshot | None, walk: Walk) -> str:
    """Return how a snapshot differs from the walk; empty if it does not."""
    if snapshot is None:
        return "expected a snapshot, was none"
    forms = set(walk.encoders) & set(snapshot.encoders)
    again = history.walk(lambda moment: moment.inputs == snapshot.inputs, forms=forms)
    if again.begin is None:
        return "; ".join(again.passed_over)
    if again.market.state_hash() != walk.market.state_hash():
        return "expected the market that follows from the inputs, was another"
    for form, encoder in again.encoders.items():
        if msgspec.msgpack.encode(encoder.state()) != msgspec.msgpack.encode(walk.encoders[form].state()):
            return f"expected the feed {form} that follows from the inputs, was another"
        if again.messages[form] != walk.messages[form]:
            return f"expected {walk.messages[form]} messages of the feed {form}, were {again.messages[form]}"
    return ""


class _Comparison:
    """Compares the streams' files with the output of the walk, a piece at a time."""

    def __init__(self, directory: Path, disk: JournalDisk, begin: Snapshot | None) -> None:
        self._directory = directory
        self._disk = disk
        self._pending: dict[str, bytearray] = {}
        self._problems: dict[str, str] = {}
        self._numbers = {name: at.next_number for name, at in begin.streams.items()} if begin else {}
        """Number of the next record of each stream of lines."""
        self.surplus: list[str] = []
        """Names of the files that contain further records."""
        self.sizes = {name: at.size_bytes for name, at in begin.streams.items()} if begin else {}
        """Number of correct bytes of each stream."""

    def take(self, name: str, data: bytes) -> None:
        """Add output of the walk for a stream, and compare when there is enough of it."""
        pending = self._pending.get(name)
        if pending is None:
            pending = self._pending[name] = bytearray()
        pending += data
        self._numbers[name] = self._numbers.get(name, 1) + data.count(b"\n")
        if len(pending) >= _COMPARED_BYTES:
            self._compare(name)

    def _compare(self, name: str) -> int:
        """Compare the pending output.

        Return the number of bytes that follow in the file, negative if bytes are missing.
        """
        derived, offset = bytes(self._pending[name]), self.sizes.get(name, 0)
        self._pending[name].clear()
        path = self._directory / name
        if name in self._problems:
            return 0
        try:
            descriptor = self._disk.open(path, read_only=True)
            try:
                stored = self._disk.pread(descriptor, len(derived), offset)
                rest = self._disk.size(descriptor) - offset - len(derived)
            finally:
                self._disk.close(descriptor)
        except FileNotFoundError:
            stored, rest = b"", -len(derived)
        except OSError as error:
            self._problems[name] = f"expected to read {path}, was {error.strerror}"
            return 0
        same = len(stored) if derived.startswith(stored) else _same(derived, stored)
        if same < len(stored):
            self._problems[name] = f"expected what follows from the inputs in {path}, was other at byte {offset + same}"
        self.sizes[name] = offset + same
        return rest

    def finish(self, *, is_growing: bool) -> Mapping[str, str]:
        """Compare the rest; return the problems by file."""
        for name in sorted(self._pending):
            rest = self._compare(name)
            if rest and not is_growing and name not in self._problems:
                words = f"{rest} bytes more" if rest > 0 else f"{-rest} bytes less"
                if rest > 0 and self._has_next(name):
                    self.surplus.append(name)
                self._problems[name] = (
                    f"expected what follows from the inputs in {self._directory / name}, were {words}"
                )
        return self._problems

    def _has_next(self, name: str) -> bool:
        """Return True if a file continues with the next record."""
        descriptor = self._disk.open(self._directory / name, read_only=True)
        try:
            begin = self._disk.pread(descriptor, _COMPARED_BYTES, self.sizes[name])
        finally:
            self._disk.close(descriptor)
        return kind_of(name).begins_record(begin, self._numbers.get(name, 1))


def _same(left: bytes, right: bytes) -> int:
    """Return how many bytes at the beginning are equal."""
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
