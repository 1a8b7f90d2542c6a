"""What stands published: every view's rows at the newest version, from the result log alone.

A checkpoint that is begun behind a version says in its first batch what each view holds, whole. What is published of it
is the difference from what stands, so that versions go on: nobody who follows them can tell.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from runtime.epochs import EpochLogReader, ResultLog
from runtime.epochs.consolidating import consolidate
from runtime.native.cache import default_kernels
from runtime.plan import Program, decode_program, lane_program
from runtime.views.materialised import MaterialisedView
from runtime.views.rows import change_schema

__all__ = ["Standing", "read_standing"]

_FAILED = "failed/"


class Standing(msgspec.Struct, frozen=True):
    """The views of the Spark lane at a version."""

    version: int
    """Which one; 0 for none."""
    views: dict[str, MaterialisedView]
    """View → its rows; of one that has failed they mean nothing."""
    failed: dict[str, str]
    """View → why it has ended."""
    program: Program
    """What Spark keeps at the version."""

    def until(self, changes: Mapping[str, pa.Table], program: Program | None) -> dict[str, pa.Table]:
        """What leads from here to these full rows; views that do not change are left out.

        ``program`` is the catalogue from the version on, if it is another one: the views that it has not are gone.
        """
        names = set(self.views) if program is None else {view.name for view in program.views} & set(self.views)
        found: dict[str, pa.Table] = {}
        for name in sorted({*changes, *names} - self.failed.keys()):
            if name not in names:
                found[name] = changes[name]  # a view that is new
                continue
            stands = self.views[name].rows()
            weight = len(stands.columns) - 1
            taken = stands.set_column(weight, stands.field(weight), pc.negate(stands.column(weight)))
            both = [taken, changes[name]] if name in changes else [taken]
            rows = consolidate(pa.concat_tables(both), change_schema(self.views[name].columns))
            if rows.num_rows:
                found[name] = rows
        return found


def read_standing(results: ResultLog, log: EpochLogReader) -> Standing:
    """Add up the result log; raises `EpochLogError`."""
    version, newest = 0, log.control(0)
    views: dict[str, MaterialisedView] = {}
    failed: dict[str, str] = {}

    def adopt(control: bytes) -> None:
        program = lane_program(decode_program(control), "spark")
        there = {
            view.name: views[view.name]
            if view.name in views
            else MaterialisedView(view.columns, kernels=default_kernels())
            for view in program.views
        }
        views.clear()
        views.update(there)
        for name in failed.keys() - there.keys():
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
                view.apply(segment.rows(name), version)
    return Standing(version, views, failed, lane_program(decode_program(newest), "spark"))
