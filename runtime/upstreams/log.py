"""Epoch log of another runtime, read as an origin from a position; each epoch is checked against the previous one.

A position stays valid for ever, because an epoch that was once visible is never cut again differently. However, the
directory may be that of another log, or an older copy. Each epoch's footer has the checksum of the previous epoch, so
that a wrong directory is detected at the first epoch that is read, and nothing of that epoch is taken. Each epoch of
the reading runtime has a cut for every upstream, with the identity and the epoch of the upstream's log, and cuts of the
upstream's feeds (`NAME/feed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compiler.relations import MARKET_RELATIONS
from runtime.epochs import (
    LOCAL_DISK,
    Cut,
    Disk,
    EpochLogError,
    EpochLogReader,
    Segment,
    SnapshotDirectory,
    has_snapshot_of,
    read_segment,
)
from runtime.plan import EPOCH_TIME
from runtime.upstreams.errors import UpstreamError

__all__ = ["EPOCHS", "SNAPSHOTS", "Symbols", "UpstreamEpoch", "UpstreamLog", "UpstreamPosition"]

EPOCHS: Final = "epochs"
"""Name of the epoch log's directory in a run directory."""
SNAPSHOTS: Final = "snapshots"
"""Name of the relation snapshots' directory in a run directory."""
Symbols = Literal["own", "prefixed", "shared"]
"""Ownership of symbols: ``own`` for symbols of one origin only, ``prefixed`` with the upstream's name, or ``shared`` if
the books of several origins are summed."""
_RELATIONS: Final = tuple(relation.name for relation in MARKET_RELATIONS)


class UpstreamPosition(msgspec.Struct, frozen=True):
    """Position in an upstream's log: the newest epoch read."""

    identity: str
    """Identity of the log; see `runtime.epochs.EpochLogReader.identity`."""
    epoch: int
    """Newest epoch read."""
    checksum: int | None = None
    """Checksum of the epoch's footer, which the next epoch has to follow; None after a snapshot of an earlier
    release."""


class UpstreamEpoch(msgspec.Struct, frozen=True, eq=False):
    """Epoch of an upstream, or the snapshot that replaces all epochs up to it; taken as a whole or not at all."""

    origin_id: int
    """Origin id of the upstream."""
    position: UpstreamPosition
    """Position after the epoch."""
    relations: Mapping[str, pa.RecordBatch]
    """Changed rows of each relation of the market, at least one, with their column ``weight``."""
    messages: int
    """Number of well-formed messages in the epoch."""
    cuts: Mapping[str, Cut]
    """Cut of the upstream under its name, and the cuts of its own origins, each under ``NAME/ORIGIN``."""
    time_ns: int
    """Time of the epoch's barrier, in nanoseconds since the UTC epoch."""
    size: int
    """Size of the rows in bytes."""
    epoch_time: int | None = None
    """Event time of the epoch in nanoseconds; None if it has not advanced."""
    symbols: tuple[str, ...] = ()
    """Symbols that no earlier epoch had since the log was opened; always empty unless the symbols are ``own``."""
    watermarks: Mapping[str, int] | None = None
    """Watermark of each relation at the epoch, see `runtime.epochs.Footer`; None in an epoch of an earlier release."""


class UpstreamLog:
    """Reader of an upstream's epochs, one after another; one owner at a time.

    Epochs are mapped, not copied; every byte is compared with its checksum.
    """

    def __init__(
        self,
        origin_id: int,
        name: str,
        directory: Path,
        start: UpstreamPosition | None,
        *,
        symbols: Symbols = "own",
        on_found: Callable[[], None] = lambda: None,
        disk: Disk = LOCAL_DISK,
    ) -> None:
        """Create a reader.

        ``directory`` is the upstream's run directory, ``start`` the position after the last epoch read. If ``start`` is
        None, reading begins with the first epoch, or with the newest snapshot if that epoch is retired. ``on_found`` is
        called once a log exists, before the first remaining epoch is looked up. So a callback that registers the
        consumer prevents the removal of that epoch and all later ones.
        """
        self.origin_id = origin_id
        self.name = name
        self.directory = directory
        self._symbols = symbols
        self._on_found = on_found
        self._seen: set[str] = set()
        self._log = EpochLogReader(directory / EPOCHS, disk)
        self._snapshots = SnapshotDirectory(directory / SNAPSHOTS, disk)
        self._position = start
        self._identity = ""
        self._is_open = False

    @property
    def position(self) -> UpstreamPosition | None:
        """Position after the last epoch read."""
        return self._position

    @property
    def is_there(self) -> bool:
        """True after the log was opened: it exists and continues from the position."""
        return self._is_open

    def newest(self) -> int:
        """Return the newest epoch of the log, -1 while there is none; raise `UpstreamError` if the next one is retired.

        The next epoch may be retired if the consumer was removed from the upstream's register; without the error,
        `next` would never return an epoch.
        """
        if self._is_open and self._position is not None:
            epoch = self._position.epoch + 1
            if not self._log.disk.exists(self._log.path(epoch)) and (first := self._log.first()) > epoch:
                raise self._retired_error(epoch, first)
        return self._log.latest()

    def next(self) -> UpstreamEpoch | None:
        """Return the next epoch, or None if there is none yet; a call that returns None costs one look-up.

        Raises `EpochLogError`: an `UpstreamError` for a log that does not continue from the position, a
        `TornSegmentError` for an incomplete epoch.
        """
        if not self._is_open and not self._open():
            return None
        if self._position is None:
            return self._first_epoch()
        epoch = self._position.epoch + 1
        if not self._log.disk.exists(self._log.path(epoch)):
            return None
        return self._follow(self._log.read(epoch))

    def _open(self) -> bool:
        """Return True if the log exists and continues from the position; raise `UpstreamError` if it cannot."""
        newest = self._log.latest()
        if newest < 0:
            return False
        position, self._identity = self._position, self._log.identity()
        if position is None:
            self._on_found()
            self._is_open = True
            return True
        if self._identity != position.identity:
            raise self._error(
                f"the log {position.identity}, up to whose epoch {position.epoch} it is read", f"log {self._identity}"
            )
        if newest < position.epoch:
            if newest == position.epoch - 1 and self._is_unpublished(position):
                return False
            raise self._error(f"epoch {position.epoch}, up to which it is read", f"a log up to {newest}: an older copy")
        self._on_found()
        first = self._log.first()
        if first > position.epoch + 1:
            raise self._retired_error(position.epoch + 1, first)
        if first <= position.epoch:
            checksum = self._log.read(position.epoch).checksum
            self._expect(position, checksum, f"the footer of epoch {position.epoch}")
        self._is_open = True
        return True

    def _is_unpublished(self, position: UpstreamPosition) -> bool:
        """Return True if the segment of the epoch is hidden: a crash of the machine may lose its published name."""
        try:
            hidden = read_segment(self._log.hidden(position.epoch), self._log.disk)
        except (FileNotFoundError, EpochLogError):
            return False
        return position.checksum in (None, hidden.checksum)

    def _first_epoch(self) -> UpstreamEpoch:
        """Return the first epoch; if it is retired, return the newest snapshot, after which later epochs are read."""
        if self._log.first() == 0:
            return self._follow(self._log.read(0))
        snapshot = self._snapshots.newest(self._log.latest())
        if snapshot is None:
            torn = "; ".join(self._snapshots.torn.values()) or "none"
            raise self._error(f"a snapshot, as epochs before {self._log.first()} are retired", torn)
        missing = [name for name in _RELATIONS if not has_snapshot_of(snapshot, name)]
        if missing:
            raise self._error("a snapshot of all relations", f"one without {', '.join(missing)}")
        footer = snapshot.footer
        return self._epoch_of(snapshot, footer.to_epoch, footer.follows, footer.cuts)

    def _follow(self, segment: Segment) -> UpstreamEpoch:
        footer = segment.footer
        if self._position is not None:
            self._expect(self._position, footer.follows, f"what epoch {footer.to_epoch} follows")
        return self._epoch_of(segment, footer.to_epoch, segment.checksum, footer.cuts)

    def _epoch_of(self, segment: Segment, epoch: int, checksum: int | None, cuts: Mapping[str, Cut]) -> UpstreamEpoch:
        position = UpstreamPosition(self._identity, epoch, checksum)
        relations: dict[str, pa.RecordBatch] = {}
        size, symbols = 0, list[str]()
        for name in _RELATIONS:
            rows = segment.rows(name)
            if rows is not None and rows.num_rows:
                batches = [each for each in rows.to_batches() if each.num_rows]
                batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
                size += batch.nbytes
                relations[name] = self._named(batch, symbols)
        own = {self.name: Cut(position.identity, epoch, 0)}
        own |= {f"{self.name}/{origin}": cut for origin, cut in cuts.items()}
        self._position = position
        footer = segment.footer
        return UpstreamEpoch(
            self.origin_id,
            position,
            relations,
            footer.messages,
            own,
            footer.time_ns,
            size,
            _time_of(segment.rows(EPOCH_TIME.name)),
            tuple(symbols),
            footer.watermarks,
        )

    def _named(self, batch: pa.RecordBatch, symbols: list[str]) -> pa.RecordBatch:
        """Return the rows with the names that their symbols have in this runtime.

        Append to ``symbols`` the symbols that were not seen before, if this upstream's symbols are ``own``.
        """
        if self._symbols == "shared":
            return batch
        place = batch.schema.get_field_index("symbol")
        column = batch.column(place)
        if self._symbols == "prefixed":
            return batch.set_column(place, "symbol", pc.binary_join_element_wise(f"{self.name}:", column, ""))
        fresh = [symbol for symbol in pc.unique(column).to_pylist() if symbol not in self._seen]
        self._seen.update(fresh)
        symbols += fresh
        return batch

    def _expect(self, position: UpstreamPosition, checksum: int | None, what: str) -> None:
        if position.checksum is not None and checksum is not None and checksum != position.checksum:
            raise self._error(
                f"{position.checksum:08x} as {what}",
                f"{checksum:08x}: the log was rewound, restored or replaced since",
            )

    def _retired_error(self, epoch: int, first: int) -> UpstreamError:
        return self._error(f"epoch {epoch}, the next one", f"a log whose first epoch is {first}")

    def _error(self, expected: str, was: str) -> UpstreamError:
        return UpstreamError(f"upstream {self.name}: expected {expected}, in {self._log.directory}, was {was}")


def _time_of(rows: pa.Table | None) -> int | None:
    """Return the time in a change of `EPOCH_TIME`, or in its content; None if the time does not change."""
    if rows is None:
        return None
    pairs = zip(rows.column("t").to_pylist(), rows.column("weight").to_pylist(), strict=True)
    return max((time for time, weight in pairs if weight > 0), default=None)
