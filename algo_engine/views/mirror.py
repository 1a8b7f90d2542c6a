"""Mirror of the views: turns frames of the change stream into view contents and changes for strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from algo_engine.views.contents import Row, ViewChange, ViewContents
from deltabook.wire.results import WEIGHT, Frame, FrameHeader

__all__ = ["ViewMirror", "column_scales"]


class ViewMirror:
    """Contents of all subscribed views."""

    def __init__(self) -> None:
        self._views: dict[str, ViewContents] = {}

    def __contains__(self, view: str) -> bool:
        return view in self._views

    def contents(self, view: str) -> ViewContents:
        """Return the contents of a view; raise `KeyError` before its first snapshot."""
        return self._views[view]

    def apply(self, frame: Frame) -> ViewChange | None:
        """Apply a frame.

        Return its change, None if it changes nothing (heartbeats, changes before the first snapshot).
        """
        if frame.header.kind not in ("snapshot", "changes") or frame.rows is None:
            return None
        columns = tuple(name for name in frame.rows.column_names if name != WEIGHT)
        return self.enter(frame.header, columns, *_cells(frame.rows, columns), column_scales(frame.rows.schema))

    def enter(
        self,
        header: FrameHeader,
        columns: tuple[str, ...],
        rows: list[tuple[Any, ...]],
        weights: list[int],
        scales: Mapping[str, int] | None = None,
    ) -> ViewChange | None:
        """Apply the rows of a frame, as tuples; return its change, None as in `apply`."""
        is_snapshot = header.kind == "snapshot"
        contents = self._views.get(header.view)
        if contents is None or (is_snapshot and contents.columns != columns):
            if not is_snapshot:
                return None
            contents = self._views[header.view] = ViewContents(header.view, columns, scales)
        version = header.step or header.to_epoch
        if not is_snapshot and version <= (contents.step if header.step else contents.epoch):
            return None
        if is_snapshot:
            contents.clear()
            contents.scales = dict(scales or {})
        contents.apply(rows, weights)
        added, removed = _added_and_removed(contents.columns, rows, weights)
        contents.epoch, contents.step = header.to_epoch, header.step
        return ViewChange(
            view=header.view,
            is_snapshot=is_snapshot,
            from_epoch=header.from_epoch,
            to_epoch=header.to_epoch,
            added=added,
            removed=removed,
            time_ns=header.time_ns,
        )

    def snapshot(self, view: str) -> ViewChange:
        """Return all rows of a view as a change, for a new subscriber."""
        contents = self._views[view]
        return ViewChange(view, True, 0, contents.epoch, tuple(contents.rows()), ())

    def forget(self, view: str) -> None:
        """Remove a view that is no longer followed."""
        self._views.pop(view, None)


def _cells(table: pa.Table, columns: tuple[str, ...]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the rows as tuples, and their weights; each column is decoded as a whole."""
    weights: list[int] = table.column(WEIGHT).to_pylist()
    if not columns:
        return [()] * len(weights), weights
    return list(zip(*(_values(table.column(name)) for name in columns), strict=True)), weights


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return a column's values as Python objects; integers wider than 64 bits arrive as decimals without a fraction."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_decimal(column.type) and column.type.scale == 0:
        return [None if value is None else int(value) for value in values]
    return values


def _added_and_removed(
    columns: tuple[str, ...], rows: list[tuple[Any, ...]], weights: list[int]
) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Return the added and the removed rows by column name, each as often as it was added or removed."""
    added: list[Row] = []
    removed: list[Row] = []
    for cells, weight in zip(rows, weights, strict=True):
        row = dict(zip(columns, cells))  # noqa: B905 - a view's cells are those of its columns; twice as quick
        if weight == 1:
            added.append(row)
        elif weight == -1:
            removed.append(row)
        else:
            (added if weight > 0 else removed).extend(dict(row) for _ in range(abs(weight)))
    return tuple(added), tuple(removed)


def column_scales(schema: pa.Schema) -> dict[str, int]:
    """Return the number of digits after the point of each column of scaled integers."""
    return {field.name: int(field.metadata[b"scale"]) for field in schema if b"scale" in (field.metadata or {})}
