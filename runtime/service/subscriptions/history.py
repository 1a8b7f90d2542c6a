"""Changes of views in past epochs, read again for subscribers that resume."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from runtime.engine.express import ANEW
from runtime.epochs import Cut, EpochLogError, EpochLogReader, ResultLog, Segment
from runtime.epochs.consolidating import consolidate
from runtime.plan import Program, View, decode_program, stream_views
from runtime.views.rows import change_schema

__all__ = ["History", "Past", "section_of"]

_MOST_SEGMENTS: Final = 128
_MOST_BYTES: Final = 8 * 1024 * 1024


class Past(msgspec.Struct, frozen=True, eq=False):
    """Changes of a view from an epoch on."""

    reached: int
    """Last epoch that is covered: the requested one, or an earlier one if there are too many changes for one read."""
    rows: pa.Table | None = None
    """Changed rows with their columns and ``weight``, added up; None if nothing changed."""
    cuts: Mapping[str, Cut] = {}
    """Cuts of the origins at ``reached``; empty if no epoch was read."""
    gone: str = ""
    """Reason why the changes cannot be read; empty if they were."""


class _Gone(Exception):
    """The changes are no longer available."""


class History:
    """Reader of the epoch log, for the express lane and streams, and of the result log, for the Spark lane.

    May be called from any thread; calls run one at a time.
    """

    def __init__(self, epochs: Path, results: ResultLog) -> None:
        self._log = EpochLogReader(epochs)
        self._results = results
        self._lock = threading.Lock()

    def read(self, view: View, since: int, begin: int, end: int) -> Past:
        """Return the changes of an existing view in the epochs ``(begin, end]``, or in the first of them.

        ``since`` is the first epoch of a view of the Spark lane.
        """
        segments = self._versions(view, since, begin, end) if view.lane == "spark" else self._epochs(view, begin, end)
        name = section_of(view)
        with self._lock:
            try:
                return _sum(view, name, segments, begin, end)
            except _Gone as gone:
                return Past(begin, gone=str(gone))
            except (EpochLogError, OSError) as error:  # retired meanwhile, or torn
                return Past(begin, gone=f"epochs after {begin} cannot be read: {error}")

    def _epochs(self, view: View, begin: int, end: int) -> Iterator[Segment]:
        """Yield the epochs after ``begin``; in each of them the view is the same, or does not exist yet."""
        if (first := self._log.first()) > begin + 1:
            raise _Gone(f"epoch {begin + 1} is retired, the first that is left is {first}")
        before: Program | None = None
        for epoch in range(begin + 1, end + 1):
            segment = self._log.read(epoch)
            if segment.footer.control:
                program = decode_program(segment.footer.control)
                before = before or self._program(epoch - 1)
                # A view that did not exist before has all its changes in the epochs from here on.
                if _identity(before, view.name) not in {None, _identity(program, view.name)}:
                    raise _Gone(
                        f"view {view.name} of epoch {begin} ended with epoch {epoch - 1}, another view has its name"
                    )
                before = program
            if f"{ANEW}{view.name}" in segment.footer.attributes:
                raise _Gone(f"view {view.name} was refilled at epoch {epoch}")
            yield segment

    def _program(self, epoch: int) -> Program:
        control = self._log.control_before(epoch)
        if not control:
            raise _Gone(f"the views of epoch {epoch} are not known any more")
        return decode_program(control)

    def _versions(self, view: View, since: int, begin: int, end: int) -> Iterator[Segment]:
        if begin < since - 1:
            raise _Gone(f"view {view.name} begins at epoch {since}, was asked for from epoch {begin} on")
        spans = self._results.behind(begin)
        if spans is None:
            raise _Gone(f"epoch {begin} is retired, or not the end of one of Spark's batches")
        for span in spans:
            if span[1] <= end:
                yield self._results.read(span)


def _sum(view: View, name: str, segments: Iterator[Segment], begin: int, end: int) -> Past:
    tables: list[pa.Table] = []
    reached, read, total_bytes, cuts = begin, 0, 0, dict[str, Cut]()
    for segment in segments:
        if (table := segment.rows(name)) is not None and table.num_rows:
            tables.append(table)
            total_bytes += table.nbytes
        reached, cuts, read = segment.footer.to_epoch, segment.footer.cuts, read + 1
        if reached >= end or read >= _MOST_SEGMENTS or total_bytes >= _MOST_BYTES:
            break
    rows = consolidate(pa.concat_tables(tables), change_schema(view.columns)) if tables else None
    return Past(reached, rows if rows is not None and rows.num_rows else None, cuts)


def section_of(view: View) -> str:
    """Return the name of the section with the changes of a view: in the epoch log, or in Spark's result log."""
    return f"view/{view.name}" if view.lane == "express" else view.name


def _identity(program: Program, name: str) -> tuple[int, str] | None:
    """Return the home and lane that identify a view or derived stream among those of its name; None if missing."""
    views = (*program.views, *stream_views(program).views)
    match = next((view for view in views if view.name == name), None)
    return (match.home, match.lane) if match else None
