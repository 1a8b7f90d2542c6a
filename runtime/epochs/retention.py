"""Retirement of the beginning of an epoch log, except the control records that are still needed.

```
programs/000000000000.program   the first control record of the log    kept for ever
programs/000000000041.program   the newest control record retired      the program of the first remaining epochs
first                           the mark: a footer whose epoch is the first that remains
000000000057.segment …          the remaining epochs
```

The order of operations makes a crash harmless: control records are durable before the mark that excludes their epochs,
and the mark is durable before a segment is removed. So a segment of an epoch below the mark is a leftover, and a gap
above the mark is a loss.

```
crash                                            what the next start finds, and what it does
control records copied, mark not moved           programs/… above the mark: ignored, written again
mark moved, segments not removed, or only some   segments below the mark: the next call removes them
name renamed, the sync of its directory failed   a power loss may undo that: retiring syncs the directory first
snapshots or results retired in part             the newer ones: continues, as the oldest are removed first
results before a full one retired, some reappear results that do not reach the full one: removes them
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
"""Epoch whose control record is the first program of a log."""


class RetentionConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the epochs that are retained for a replay although no consumer needs them; both limits apply."""

    epochs: int = 10_000
    """Number of the newest epochs; 0 for none."""
    megabytes: int = 256
    """Greatest total size of these epochs, in units of 10^6 bytes."""


def retire(
    log: EpochLogReader, snapshots: SnapshotDirectory, passed: int, config: RetentionConfig, bases: int = 2
) -> int:
    """Remove epochs and snapshots that are not needed any more; return the number of bytes freed.

    ``passed`` is the newest epoch that every consumer has committed, so that no consumer reads this epoch or an earlier
    one again. The remaining log begins after a snapshot, from which a replay can start. It contains all epochs after
    each pinned snapshot, and all epochs after each of the newest ``bases`` snapshots up to ``passed``. More than one
    snapshot is needed, because a snapshot may turn out to be torn later. Until there are ``bases`` snapshots, only
    segments that an interrupted call has left are removed.
    """
    complete = snapshots.complete(passed)
    needed = complete[:bases]
    if len(needed) < bases:
        return retire_epochs(log, log.first())
    at_most = min([needed[-1], *snapshots.pinned(), _replay_from(log, config) - 1])
    start = next((epoch for epoch in complete if epoch <= at_most), None)
    if start is None:
        return retire_epochs(log, log.first())
    freed = retire_epochs(log, max(log.first(), min(start + 1, log.latest())))
    return freed + snapshots.retire({start, *needed}, needed[0])


def _replay_from(log: EpochLogReader, config: RetentionConfig) -> int:
    """Return the first epoch that the settings retain."""
    newest, size = log.latest(), 0
    oldest = max(log.first(), newest - config.epochs + 1)
    for epoch in range(newest, oldest - 1, -1):
        size += log.disk.size(log.path(epoch))
        if size > config.megabytes * 1_000_000:
            return epoch + 1
    return oldest


def retire_epochs(log: EpochLogReader, first: int) -> int:
    """Remove every epoch below ``first``, oldest first; return the number of bytes freed.

    There is one caller at a time; the writer of the log may write meanwhile. The removed epochs must not include any
    that a reader still needs; raise `EpochLogError` if they include the newest. A call that was interrupted anywhere
    can be repeated.
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
    kept = [epoch for epoch in log.programs() if epoch < log.first()]  # an interrupted call may have left newer ones
    for epoch in kept[1:-1]:
        disk.unlink(directory / PROGRAMS / program_name(epoch))
    return freed


def begin_behind(log: EpochLogReader, first: int, control: int) -> None:
    """Move the beginning of a log to ``first``; a later `retire` removes the earlier segments.

    Of the earlier segments, only the one with the first control record and the one with the newest are read;
    ``control`` is the epoch of the newest. Raise `TornSegmentError` if one of the two is damaged.
    """
    for epoch in {_BEGUN_WITH, control} - set(log.programs()):
        if epoch < first:
            _keep_control(log, epoch)
    write_first(log, first)


def write_first(log: EpochLogReader, first: int) -> None:
    """Write the mark durably; ``first`` is the first epoch that remains."""
    _write(log.disk, log.directory / FIRST, Footer(0, first))


def _keep_control(log: EpochLogReader, epoch: int) -> None:
    """Write the file of a control record: the footer of its epoch without sections."""
    log.disk.make_directory(log.directory / PROGRAMS)
    path = log.directory / PROGRAMS / program_name(epoch)
    footer = log.read(epoch).footer
    _write(log.disk, path, Footer(footer.from_epoch, footer.to_epoch, control=footer.control, time_ns=footer.time_ns))


def _write(disk: Disk, path: Path, footer: Footer) -> None:
    """Write a segment without sections durably, after reading it back; raise `TornSegmentError` if it differs."""
    hidden = path.with_name(f".{path.name}")
    written = write_segment(disk, hidden, {}, footer)
    if (checksum := read_segment(hidden, disk).checksum) != written:
        raise TornSegmentError(f"expected footer checksum {written:08x} at {hidden}, was {checksum:08x}")
    disk.rename(hidden, path)
    disk.sync_directory(path.parent)
