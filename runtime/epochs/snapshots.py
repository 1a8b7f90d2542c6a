"""Relation snapshots: the sum of the log up to an epoch, so that no reader has to start at the beginning of the log.

A snapshot is a segment file with the consolidated rows of every relation at its epoch. It is computed from the previous
snapshot and the segments since then. Some segments are added at a time, so that the memory needed is proportional to
the live rows and not to the history. If a snapshot is torn, an older one or the log itself is used instead;
`runtime.epochs.retention` retains the segments after the older one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from runtime.epochs.consolidating import consolidate
from runtime.epochs.disk import LOCAL_DISK, Disk
from runtime.epochs.errors import EpochLogError, TornSegmentError
from runtime.epochs.log import EpochLogReader
from runtime.epochs.segment import Footer, Segment, read_segment, write_segment

__all__ = ["VIEW_SECTION", "SnapshotDirectory", "add_up", "chosen_columns", "has_snapshot_of", "rows_at"]

VIEW_SECTION: Final = "view/"
"""Prefix of sections that have changes of views, not rows of relations."""
_SUFFIX: Final = ".snapshot"
_PINS: Final = "pins"
_GROUP_BYTES: Final = 32 * 1024 * 1024
"""Size in bytes at which a group of segments, which are added up at once, is complete."""
_GROUP_SEGMENTS: Final = 1000
"""Greatest number of segments in a group; each is a memory mapping, and the number of mappings is limited."""


class SnapshotDirectory:
    """Snapshots of one log. One writer; readers in any process."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self.directory = directory
        """Directory of the snapshots."""
        self._disk = disk
        self.torn: dict[Path, str] = {}
        """Damage of the torn snapshots that were skipped, by file."""

    def epochs(self) -> list[int]:
        """Return the epochs that have a snapshot, whole or torn, the newest first."""
        return self._epochs_in(self.directory)[::-1]

    def newest(self, at_most: int) -> Segment | None:
        """Return the newest whole snapshot that is not past this epoch; every byte of it is checked."""
        for epoch in self.epochs():
            if epoch <= at_most and (snapshot := self._intact(self._path(epoch), epoch)) is not None:
                return snapshot
        return None

    def take(
        self, log: EpochLogReader, epoch: int, *, without: Collection[str] = (), stopped: Callable[[], bool] = bool
    ) -> bool:
        """Write the snapshot of an epoch, durably.

        ``without`` are relations that only grow, whose snapshot would be as large as the log. Return False, and write
        nothing, if ``stopped`` returns True before the end. Raise `EpochLogError` if there is no whole snapshot from
        which to start and the log has lost its beginning.
        """
        base = self.newest(epoch)
        begin = base.footer.to_epoch if base else 0
        if base is None and self.torn and log.first() > 1:
            raise EpochLogError(
                f"expected a whole snapshot in {self.directory}, was none: {'; '.join(self.torn.values())}"
            )
        names = {section.name for section in base.footer.sections} if base else set()
        for number in range(begin + 1, epoch + 1):
            names |= {section.name for section in log.read(number).footer.sections}
        tables: dict[str, list[pa.RecordBatch]] = {}
        for name in sorted(names - set(without)):
            if name.startswith(VIEW_SECTION):
                continue
            rows = add_up(log, name, begin, epoch, base=base, stopped=stopped)
            if stopped():
                return False
            if rows is not None:
                tables[name] = rows.to_batches()
        self._write(log.read(epoch), tables, without)
        return True

    def pin(self, owner: int, at_most: int) -> Path | None:
        """Give the newest whole snapshot up to ``at_most`` a second name, which remains until `unpin`; return the path
        with this name.

        ``owner`` is the epoch for which the snapshot is needed. If a snapshot is pinned for this epoch already, return
        its path. Return None if there is no whole snapshot.
        """
        pinned = self._pinned(owner)
        while self._intact(pinned) is None:
            self._disk.unlink(pinned)
            newest = self.newest(at_most)
            if newest is None:
                return None
            self._disk.make_directory(pinned.parent)
            try:
                self._disk.link(newest.path, pinned)
            except FileNotFoundError:
                continue  # it was retired meanwhile
        return pinned

    def unpin(self, owner: int) -> None:
        """Remove the pins of this owner and of owners with earlier epochs."""
        for pinned in self._epochs_in(self.directory / _PINS):
            if pinned <= owner:
                self._disk.unlink(self._pinned(pinned))

    def _epochs_in(self, directory: Path) -> list[int]:
        names = [name for name in self._disk.names(directory) if name[0].isdigit() and name.endswith(_SUFFIX)]
        return [int(name.split(".")[0]) for name in names]

    def _pinned(self, owner: int) -> Path:
        return self.directory / _PINS / f"{owner:012d}{_SUFFIX}"

    def _path(self, epoch: int) -> Path:
        return self.directory / f"{epoch:012d}{_SUFFIX}"

    def _write(self, sealed: Segment, tables: dict[str, list[pa.RecordBatch]], without: Collection[str]) -> None:
        """Write a snapshot with the epoch's cuts, from which a reader of the snapshot continues to read the origins."""
        self._disk.make_directory(self.directory)
        for name in self._disk.names(self.directory):
            if name.startswith(".") and name.endswith(_SUFFIX):
                self._disk.unlink(self.directory / name)
        path = self._path(sealed.footer.to_epoch)
        hidden = path.with_name("." + path.name)
        footer = Footer(
            0,
            sealed.footer.to_epoch,
            cuts=sealed.footer.cuts,
            time_ns=sealed.footer.time_ns,
            attributes={"without": ",".join(sorted(without))},
            follows=sealed.checksum,
            watermarks=sealed.footer.watermarks,
        )
        write_segment(self._disk, hidden, tables, footer)
        self._disk.rename(hidden, path)
        self._disk.sync_directory(self.directory)

    def retire(self, kept: Collection[int], passed: int) -> int:
        """Remove the snapshots up to an epoch except those in ``kept``; return the number of bytes freed."""
        freed = 0
        for epoch in self.epochs()[::-1]:
            if epoch <= passed and epoch not in kept:
                freed += self._disk.size(self._path(epoch))
                self._disk.unlink(self._path(epoch))
        if freed:
            self._disk.sync_directory(self.directory)
        return freed

    def complete(self, at_most: int) -> list[int]:
        """Return the epochs up to ``at_most`` that have a whole snapshot of all relations, the newest first.

        Every byte of the snapshots is checked, and their names are made durable, because the sync in `take` may have
        failed.
        """
        if self.epochs():
            self._disk.sync_directory(self.directory)
        whole = [(epoch, self._intact(self._path(epoch), epoch)) for epoch in self.epochs() if epoch <= at_most]
        return [epoch for epoch, snapshot in whole if snapshot and not snapshot.footer.attributes.get("without")]

    def pinned(self) -> list[int]:
        """Return the epochs of the pinned snapshots."""
        segments = [self._intact(self._pinned(owner)) for owner in self._epochs_in(self.directory / _PINS)]
        return [segment.footer.to_epoch for segment in segments if segment]

    def _intact(self, path: Path, epoch: int | None = None) -> Segment | None:
        """Return the segment of a file, None if it is missing or torn; record the damage in `torn`."""
        try:
            segment = read_segment(path, self._disk)
            segment.verify()
            if epoch is not None and segment.footer.to_epoch != epoch:
                raise TornSegmentError(f"expected a snapshot of epoch {epoch} at {path}, was {segment.footer.to_epoch}")
        except FileNotFoundError:
            return None
        except (EpochLogError, OSError) as error:
            self.torn[path] = str(error)
            return None
        return segment


def has_snapshot_of(segment: Segment, relation: str) -> bool:
    """Return True if a snapshot includes a relation."""
    return relation not in segment.footer.attributes.get("without", "").split(",")


def add_up(
    log: EpochLogReader,
    relation: str,
    begin: int,
    end: int,
    *,
    base: Segment | None = None,
    columns: Collection[str] | None = None,
    stopped: Callable[[], bool] = bool,
) -> pa.Table | None:
    """Return a relation's rows at ``end``: those of ``base``, a snapshot at ``begin``, plus epochs ``(begin, end]``.

    The result has ``columns`` (all if this is None), and ``weight`` as its last column. It is None if there never were
    rows, and incomplete if ``stopped`` returned True. The memory needed is proportional to its size.
    """
    total = _chosen(base.rows(relation), columns) if base else None
    for group in _groups(log, begin, end):
        tables = [t for segment in group if (t := _chosen(segment.rows(relation), columns)) is not None]
        if tables:
            total = consolidate(pa.concat_tables([total, *tables] if total is not None else tables))
        if stopped():
            break
    return total


def rows_at(
    log: EpochLogReader,
    snapshot: Segment | None,
    relation: str,
    epoch: int,
    *,
    columns: Collection[str] | None = None,
    stopped: Callable[[], bool] = bool,
) -> pa.Table | None:
    """Return a relation's rows at an epoch, as `add_up` does, from a snapshot that is not past the epoch.

    If ``snapshot`` is None or lacks the relation, the log is read from its beginning.
    """
    base = snapshot if snapshot is not None and has_snapshot_of(snapshot, relation) else None
    begin = 0 if base is None else base.footer.to_epoch
    return add_up(log, relation, begin, epoch, base=base, columns=columns, stopped=stopped)


def _chosen(rows: pa.Table | None, columns: Collection[str] | None) -> pa.Table | None:
    return rows if rows is None or columns is None else chosen_columns(rows, columns)


def chosen_columns(rows: pa.Table, columns: Collection[str]) -> pa.Table:
    """Return these columns of rows and the weight, which is the last column.

    If none of the columns exists, the first column is returned in their place.
    """
    *names, _ = rows.column_names
    places = [place for place, name in enumerate(names) if name in columns] or [0]
    return rows.select([*places, len(names)])


def _groups(log: EpochLogReader, begin: int, end: int) -> Iterator[list[Segment]]:
    """Yield the segments of ``(begin, end]``, some megabytes at a time."""
    group: list[Segment] = []
    size = 0
    for epoch in range(begin + 1, end + 1):
        segment = log.read(epoch)
        group.append(segment)
        size += sum(section.length for section in segment.footer.sections)
        if size >= _GROUP_BYTES or len(group) >= _GROUP_SEGMENTS:
            yield group
            group, size = [], 0
    if group:
        yield group
