"""Contents of a view, updated by its change stream: a multiset of rows, and indexes by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

__all__ = ["Row", "ViewChange", "ViewContents"]

Row = Mapping[str, Any]
"""A row by column name; integers are exact Python integers, an empty cell is None."""

_Cells = tuple[Any, ...]


class ViewChange(msgspec.Struct, frozen=True):
    """Change of one view from one version to the next."""

    view: str
    """Name of the view."""
    is_snapshot: bool
    """True if ``added`` is the whole content and replaces the rows before it."""
    from_epoch: int
    """Version before the change."""
    to_epoch: int
    """Version after the change."""
    added: tuple[Row, ...]
    """Added rows, each as often as it was added."""
    removed: tuple[Row, ...]
    """Removed rows, each as often as it was removed."""
    time_ns: int = 0
    """Time at which the version was published, in nanoseconds since the UTC epoch; 0 if it is not known."""


class ViewContents:
    """All rows of one view at its version: a multiset, since equal rows may occur more than once.

    >>> contents = ViewContents("touch", ("symbol", "bid"))
    >>> contents.apply([("ACME", 10), ("GLOBEX", 7)], [1, 1])
    >>> contents.apply([("ACME", 10), ("ACME", 11)], [-1, 1])
    >>> contents.find(symbol="ACME")
    {'symbol': 'ACME', 'bid': 11}
    >>> contents.select(bid=10)
    []
    >>> len(contents)
    2
    """

    def __init__(self, view: str, columns: tuple[str, ...], scales: Mapping[str, int] | None = None) -> None:
        self.view = view
        self.columns = columns
        """Names of the columns, in the order of the cells."""
        self.scales: dict[str, int] = dict(scales or {})
        """Digits after the point of columns that are scaled integers."""
        self.epoch = 0
        """Epoch at which the rows are valid."""
        self.step = 0
        """Number of the step, which is the version of a view of the express lane; otherwise 0."""
        self._rows: dict[_Cells, int] = {}
        self._indexes: dict[tuple[str, ...], dict[_Cells, dict[_Cells, None]]] = {}

    def __len__(self) -> int:
        return sum(self._rows.values())

    def clear(self) -> None:
        """Remove all rows."""
        self._rows.clear()
        for index in self._indexes.values():
            index.clear()

    def apply(self, rows: list[_Cells], weights: list[int]) -> None:
        """Add weighted rows; rows whose weight becomes 0 are removed. O(rows × indexes)."""
        weight_of, indexes = self._rows, self._indexes
        for cells, weight in zip(rows, weights, strict=True):
            total = weight_of.get(cells, 0) + weight
            if total:
                weight_of[cells] = total
            else:
                weight_of.pop(cells, None)
            for key, index in indexes.items():
                self._enter(index, key, cells, present=bool(total))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield all rows, each as often as it occurs."""
        for cells, weight in self._rows.items():
            for _ in range(weight):
                yield self.as_row(cells)

    def select(self, **key: Any) -> list[dict[str, Any]]:
        """Return the distinct rows with these values, in no particular order.

        The first call for a set of columns makes an index over them, in O(rows); later calls cost O(rows returned).
        Raise `ValueError` for a column that the view does not have.
        """
        columns = tuple(sorted(key))
        index = self._indexes.get(columns)
        if index is None:
            unknown = [name for name in columns if name not in self.columns]
            if unknown:
                names = ", ".join(self.columns)
                raise ValueError(f"expected columns of {self.view} out of {names}, was {', '.join(unknown)}")
            index = self._indexes[columns] = {}
            for cells in self._rows:
                self._enter(index, columns, cells, present=True)
        return [self.as_row(cells) for cells in index.get(tuple(key[name] for name in columns), ())]

    def find(self, **key: Any) -> dict[str, Any] | None:
        """Return a row with these values, None if there is none."""
        rows = self.select(**key)
        return rows[0] if rows else None

    def as_row(self, cells: _Cells) -> dict[str, Any]:
        """Return cells under their column names."""
        return dict(zip(self.columns, cells, strict=True))

    def _enter(
        self, index: dict[_Cells, dict[_Cells, None]], key: tuple[str, ...], cells: _Cells, *, present: bool
    ) -> None:
        at = tuple(cells[self.columns.index(name)] for name in key)
        if present:
            index.setdefault(at, {})[cells] = None
            return
        rows = index.get(at, {})
        rows.pop(cells, None)
        if not rows:
            index.pop(at, None)

    def _check(self) -> None:
        """Assert that no row has weight 0 and that every index holds exactly the rows."""
        assert all(self._rows.values()), "rows of weight 0 are not held"
        for index in self._indexes.values():
            assert {cells for rows in index.values() for cells in rows} == set(self._rows)
