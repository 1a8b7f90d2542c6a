"""Relation snapshots: what the log adds up to at an epoch, so that nobody has to read it from its beginning.

A snapshot is a segment file that holds the consolidated rows of every relation at its version. It is made of the one
before and the segments since, a stretch of them at a time, so that memory follows what is live and not the history.
One that is torn is passed over for an older one, or for the log itself, and named: a snapshot is a short cut as long as
the segments that an older one needs are there, and `runtime.epochs.retention` leaves them.
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

__all__ = ["VIEW_SECTION", "SnapshotDirectory", "add_up", "has_snapshot_of"]

VIEW_SECTION: Final = "view/"
"""A segment's sections whose names begin so hold changes of views, not rows of relations."""
_SUFFIX: Final = ".snapshot"
_PINS: Final = "pins"
_STRETCH_BYTES: Final = 32 * 1024 * 1024
_STRETCH_SEGMENTS: Final = 1000
"""Each is a memory mapping, of which a process may have only so many."""


class SnapshotDirectory:
    """Snapshots of one log. One writer; readers in any process."""

    def __init__(self, directory: Path, disk: Disk = LOCAL_DISK) -> None:
        self._directory = directory
        self._disk = disk
        self.torn: dict[Path, str] = {}
        """What was passed over, and why."""

    @property
    def directory(self) -> Path:
        """Where they are."""
        return self._directory

    def epochs(self) -> list[int]:
        """The epochs of which there are snapshots, whole or torn, the newest first."""
        return self._epochs_in(self._directory)[::-1]

    def newest(self, at_most: int) -> Segment | None:
        """The newest whole snapshot that is not past this epoch; every byte of it is checked."""
        for epoch in self.epochs():
            if epoch <= at_most and (found := self._whole(self._path(epoch), epoch)) is not None:
                return found
        return None

    def take(
        self, log: EpochLogReader, epoch: int, *, without: Collection[str] = (), stopped: Callable[[], bool] = bool
    ) -> bool:
        """Write the snapshot of an epoch, durably.

        ``without`` are relations that only grow, of which a snapshot would be as large as the log. False, and nothing
        written, if ``stopped`` says so on the way.
        """
        base = self.newest(epoch)
        begin = base.footer.to_epoch if base else 0
        if base is None and self.torn and log.first() > 1:
            raise EpochLogError(
                f"expected a whole snapshot in {self._directory}, was none: {'; '.join(self.torn.values())}"
            )
        names = {section.name for section in base.footer.sections} if base else set()
        for one in range(begin + 1, epoch + 1):
            names |= {section.name for section in log.read(one).footer.sections}
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
        """Keep the newest whole snapshot under a name of its own until `unpin`; the same one if it is pinned already.

        ``owner`` is the epoch for which it is needed.
        """
        pinned = self._pinned(owner)
        while self._whole(pinned) is None:
            self._disk.unlink(pinned)
            found = self.newest(at_most)
            if found is None:
                return None
            self._disk.make_directory(pinned.parent)
            try:
                self._disk.link(found.path, pinned)
            except FileNotFoundError:
                continue  # a newer one has taken its place meanwhile
        return pinned

    def unpin(self, owner: int) -> None:
        """What this epoch and earlier ones needed is needed no more."""
        for pinned in self._epochs_in(self._directory / _PINS):
            if pinned <= owner:
                self._disk.unlink(self._pinned(pinned))

    def _epochs_in(self, directory: Path) -> list[int]:
        names = [name for name in self._disk.names(directory) if name[0].isdigit() and name.endswith(_SUFFIX)]
        return [int(name.split(".")[0]) for name in names]

    def _pinned(self, owner: int) -> Path:
        return self._directory / _PINS / f"{owner:012d}{_SUFFIX}"

    def _path(self, epoch: int) -> Path:
        return self._directory / f"{epoch:012d}{_SUFFIX}"

    def _write(self, sealed: Segment, tables: dict[str, list[pa.RecordBatch]], without: Collection[str]) -> None:
        """With what the epoch says of its cuts: who begins with the snapshot reads on behind them."""
        self._disk.make_directory(self._directory)
        for name in self._disk.names(self._directory):
            if name.startswith(".") and name.endswith(_SUFFIX):
                self._disk.unlink(self._directory / name)
        path = self._path(sealed.footer.to_epoch)
        hidden = path.with_name("." + path.name)
        footer = Footer(
            0,
            sealed.footer.to_epoch,
            cuts=sealed.footer.cuts,
            time_ns=sealed.footer.time_ns,
            attributes={"without": ",".join(sorted(without))},
            follows=sealed.checksum,
        )
        write_segment(self._disk, hidden, tables, footer)
        self._disk.rename(hidden, path)
        self._disk.sync_directory(self._directory)

    def retire(self, kept: Collection[int], passed: int) -> int:
        """Remove those up to an epoch that are not to be kept; gives the bytes that are free again."""
        freed = 0
        for epoch in self.epochs()[::-1]:
            if epoch <= passed and epoch not in kept:
                freed += self._disk.size(self._path(epoch))
                self._disk.unlink(self._path(epoch))
        if freed:
            self._disk.sync_directory(self._directory)
        return freed

    def complete(self, at_most: int) -> list[int]:
        """The epochs of whole snapshots that leave out no relation and are not past this epoch, the newest first.

        Every byte of them is checked, and their names are durable, also where the sync in `take` has failed.
        """
        if self.epochs():
            self._disk.sync_directory(self._directory)
        whole = [(epoch, self._whole(self._path(epoch), epoch)) for epoch in self.epochs() if epoch <= at_most]
        return [epoch for epoch, found in whole if found and not found.footer.attributes.get("without")]

    def pinned(self) -> list[int]:
        """The epochs of the snapshots that are pinned."""
        found = [self._whole(self._pinned(owner)) for owner in self._epochs_in(self._directory / _PINS)]
        return [segment.footer.to_epoch for segment in found if segment]

    def _whole(self, path: Path, epoch: int | None = None) -> Segment | None:
        """The segment of a file, None if it is not there or torn."""
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
    """Whether a snapshot holds what there was of a relation."""
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
    """The rows of a relation at ``end``: those of ``base``, a snapshot at ``begin``, and the epochs ``(begin, end]``.

    Of these columns only; the last one is ``weight``. None where nothing ever was. Memory follows the result.
    """
    held = _chosen(base.rows(relation), columns) if base else None
    for stretch in _stretches(log, begin, end):
        tables = [t for one in stretch if (t := _chosen(one.rows(relation), columns)) is not None]
        if tables:
            held = consolidate(pa.concat_tables([held, *tables] if held is not None else tables))
        if stopped():
            break
    return held


def _chosen(rows: pa.Table | None, columns: Collection[str] | None) -> pa.Table | None:
    if rows is None or columns is None:
        return rows
    *names, _ = rows.column_names
    # One column at least: a group needs a key.
    places = [place for place, name in enumerate(names) if name in columns] or [0]
    return rows.select([*places, len(names)])


def _stretches(log: EpochLogReader, begin: int, end: int) -> Iterator[list[Segment]]:
    """The segments of ``(begin, end]``, some megabytes at a time."""
    stretch: list[Segment] = []
    held = 0
    for epoch in range(begin + 1, end + 1):
        segment = log.read(epoch)
        stretch.append(segment)
        held += sum(section.length for section in segment.footer.sections)
        if held >= _STRETCH_BYTES or len(stretch) >= _STRETCH_SEGMENTS:
            yield stretch
            stretch, held = [], 0
    if stretch:
        yield stretch
