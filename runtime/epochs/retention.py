"""Retiring the beginning of an epoch log: which epoch is its first, and the control records of those that are gone.

```
programs/000000000000.program   what the log was begun with            kept for good
programs/000000000041.program   the newest one that is gone            what the first epochs that are left mean
first                           a footer whose epoch is the first that is left
000000000057.segment …          the epochs that are left
```

The order of operations makes a crash harmless: control records are durable before the mark speaks of them, and the mark
is before a segment goes. So a segment below the mark is a leftover, and one that is missing above it is a loss.

```
crash                                            what the next start finds, and does
control records copied, mark not moved           programs/… above the mark: ignored, written again
mark moved, segments not removed, or only some   segments below the mark: the next call removes them
name renamed, the sync of its directory failed   a power loss may take the name: retiring syncs the directory first
snapshots or results retired in part             the newer ones: continues, as the oldest go first
results before a full one retired, some back     results that lead nowhere: begins with the full one, removes them
```
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from runtime.epochs.disk import Disk
from runtime.epochs.errors import EpochLogError, TornSegmentError
from runtime.epochs.log import FIRST, PROGRAMS, EpochLogReader, program_name
from runtime.epochs.segment import Footer, read_segment, write_segment
from runtime.epochs.snapshots import SnapshotDirectory

__all__ = ["RetentionConfig", "begin_behind", "retire", "retire_epochs", "write_first"]

_BEGUN_WITH: Final = 0


class RetentionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which epochs are kept for a replay although nobody needs them any more: those that both limits allow."""

    epochs: int = 10_000
    """The newest so many; 0 for none."""
    megabytes: int = 256
    """No more than so much of the log."""


def retire(
    log: EpochLogReader, snapshots: SnapshotDirectory, passed: int, config: RetentionConfig, bases: int = 2
) -> int:
    """Remove epochs and snapshots that nobody needs any more; gives the bytes that are free again.

    ``passed`` is the newest epoch that every consumer has committed, so that none of them reads it or an earlier one
    again. What is left begins behind a snapshot, from which a replay can start, and holds all that the newest ``bases``
    up to ``passed`` and every pinned one need: of two, the newer may turn out to be torn. Nothing happens until there
    are so many.
    """
    complete = snapshots.complete(passed)
    needed = complete[:bases]
    if len(needed) < bases:
        return retire_epochs(log, log.first())
    most = min([needed[-1], *snapshots.pinned(), _replay_from(log, config) - 1])
    start = next((epoch for epoch in complete if epoch <= most), None)
    if start is None:
        return retire_epochs(log, log.first())
    freed = retire_epochs(log, max(log.first(), min(start + 1, log.latest())))
    return freed + snapshots.retire({start, *needed}, needed[0])


def _replay_from(log: EpochLogReader, config: RetentionConfig) -> int:
    """The first epoch that the settings keep."""
    newest, held = log.latest(), 0
    oldest = max(log.first(), newest - config.epochs + 1)
    for epoch in range(newest, oldest - 1, -1):
        held += log.disk.size(log.path(epoch))
        if held > config.megabytes * 1_000_000:
            return epoch + 1
    return oldest


def retire_epochs(log: EpochLogReader, first: int) -> int:
    """Remove every epoch below ``first``, oldest first; gives the bytes that are free again.

    One caller at a time, beside the one writer; the epochs that go must not be the writer's newest, nor anybody's who
    still has to read them. May be interrupted anywhere and called again.
    """
    disk, directory = log.disk, log.directory
    begin = log.first()
    controls = [epoch for epoch in range(begin, first) if log.read(epoch).footer.control]
    for epoch in {_BEGUN_WITH, *controls[-1:]} & set(controls):
        _keep_control(log, epoch)
    if first > log.latest():
        raise EpochLogError(
            f"expected to keep epoch {log.latest()}, the newest in {directory}, was to begin at {first}"
        )
    if first > begin:
        write_first(log, first)
    elif log.leftovers():
        disk.sync_directory(directory)  # an earlier call may have renamed the mark without syncing it
    freed = 0
    for epoch in log.leftovers():
        freed += disk.size(log.path(epoch))
        disk.unlink(log.path(epoch))
    disk.sync_directory(directory)
    kept = [epoch for epoch in log.programs() if epoch < log.first()]  # one above the mark is of an interrupted call
    for epoch in kept[1:-1]:
        disk.unlink(directory / PROGRAMS / program_name(epoch))
    return freed


def begin_behind(log: EpochLogReader, first: int, control: int) -> None:
    """Let a log begin at ``first`` without reading the epochs before it, but for those with the first and the newest
    control record, ``control``; raises `TornSegmentError` if these are damaged. What is left over is retired later."""
    for epoch in {_BEGUN_WITH, control} - set(log.programs()):
        if epoch < first:
            _keep_control(log, epoch)
    write_first(log, first)


def write_first(log: EpochLogReader, first: int) -> None:
    """Write the mark that says which epoch is the first that is left, durably."""
    _write(log.disk, log.directory / FIRST, Footer(0, first))


def _keep_control(log: EpochLogReader, epoch: int) -> None:
    """A file for a control record that says what its epoch's footer said, but for the relations."""
    log.disk.make_directory(log.directory / PROGRAMS)
    path = log.directory / PROGRAMS / program_name(epoch)
    found = log.read(epoch).footer
    _write(log.disk, path, Footer(found.from_epoch, found.to_epoch, control=found.control, time_ns=found.time_ns))


def _write(disk: Disk, path: Path, footer: Footer) -> None:
    hidden = path.with_name(f".{path.name}")
    written = write_segment(disk, hidden, {}, footer)
    if (found := read_segment(hidden, disk).checksum) != written:
        raise TornSegmentError(f"expected footer checksum {written:08x} at {hidden}, was {found:08x}")
    disk.rename(hidden, path)
    disk.sync_directory(path.parent)
