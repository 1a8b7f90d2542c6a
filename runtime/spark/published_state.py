"""Published state: every view's rows at the newest version, from the result log alone.

The first batch of a checkpoint that is begun after a version returns all rows of each view. Only their difference from
the published state is published, so that subscribers get changes without a break.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs import EpochLogReader, ResultLog
from runtime.epochs.consolidating import consolidate
from runtime.native.cache import default_kernels
from runtime.plan import Program, decode_program, lane_program
from runtime.views.materialised import MaterialisedView
from runtime.views.rows import change_schema

__all__ = ["PublishedState", "read_published_state"]

_FAILED: Final = "failed/"
"""Prefix of the footer's attributes that have the reasons of failed views."""


class PublishedState(msgspec.Struct, frozen=True):
    """State of the Spark lane's views at a version."""

    version: int
    """Number of the version; 0 if there is none."""
    views: dict[str, MaterialisedView]
    """View → its rows; undefined for a failed view."""
    failed: dict[str, str]
    """View → reason of its failure."""
    program: Program
    """Spark lane's program at the version."""

    def until(self, full: Mapping[str, pa.Table], program: Program | None) -> dict[str, pa.Table]:
        """Return the changes from this state to the ``full`` rows of each view, without unchanged views.

        ``program`` is the program from the new version on, or None if it is unchanged; views that the program lacks are
        dropped.
        """
        names = set(self.views) if program is None else {view.name for view in program.views} & set(self.views)
        changed: dict[str, pa.Table] = {}
        for name in sorted({*full, *names} - self.failed.keys()):
            if name not in names:
                changed[name] = full[name]  # a new view
                continue
            before = self.views[name].rows()
            weight = len(before.columns) - 1
            removed = before.set_column(weight, before.field(weight), pc.negate(before.column(weight)))
            both = [removed, full[name]] if name in full else [removed]
            rows = consolidate(pa.concat_tables(both), change_schema(self.views[name].columns))
            if rows.num_rows:
                changed[name] = rows
        return changed


def read_published_state(results: ResultLog, log: EpochLogReader) -> PublishedState:
    """Return the state that the result log adds up to; raise `EpochLogError` if a log is damaged."""
    version, newest = 0, log.control(0)
    views: dict[str, MaterialisedView] = {}
    failed: dict[str, str] = {}

    def adopt(control: bytes) -> None:
        program = lane_program(decode_program(control), "spark")
        present = {
            view.name: views[view.name]
            if view.name in views
            else MaterialisedView(view.columns, kernels=default_kernels())
            for view in program.views
        }
        views.clear()
        views.update(present)
        for name in failed.keys() - present.keys():
            del failed[name]

    adopt(newest)
    for segment in results.read_all():
        footer = segment.footer
        if footer.control:
            newest = footer.control
            adopt(newest)
        version = footer.to_epoch
        failed |= {k.removeprefix(_FAILED): why for k, why in footer.attributes.items() if k.startswith(_FAILED)}
        for name, view in views.items():
            if name not in failed:
                view.apply(segment.rows(name))
    return PublishedState(version, views, failed, lane_program(decode_program(newest), "spark"))
