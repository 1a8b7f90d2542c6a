"""The full results of the express lane's views, as of the end of an epoch.

They are what a restart shows first, and are brought up to date when an epoch is committed: no step needs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from runtime.native.tiers import Kernels
from runtime.plan import Column, View
from runtime.state import CorruptStateError, StringPool, decode_run, encode_run
from runtime.views.checksum import MODULUS, changes_checksum
from runtime.views.materialised import MaterialisedView, PendingChanges

__all__ = ["Closed", "Results", "ResultsRun"]

_SPARE_STRINGS: Final = 4096
"""Strings beyond twice as many as rows can have, after which the pool is rebuilt with a base."""


class ResultsRun(msgspec.Struct, frozen=True):
    """Changes since the run before, or everything."""

    first_string: int
    strings: list[str]
    results: dict[str, bytes]


class Closed:
    """Changes of views in an epoch; consolidated, and added to the views' results, on first use."""

    def __init__(self, changes: Mapping[str, PendingChanges], results: Results) -> None:
        self._changes, self._results = dict(changes), results
        self._rows: dict[str, pa.Table] = {}

    def rows(self) -> dict[str, pa.Table]:
        """View → its changes, added up; views without any are left out."""
        for name in tuple(self._changes):
            # Each view's pieces are freed by themselves: thousands of tables at once would stop all other threads.
            rows = self._results.add(name, self._changes.pop(name).take())
            if rows.num_rows:
                self._rows[name] = rows
        return self._rows

    def checksums(self) -> dict[str, int]:
        """View → the checksum of its rows at the end of the epoch; asked before another epoch ends."""
        self.rows()
        return self._results.checksums()


class Results:
    """One owner at a time: the views' pipeline, and the committer from a save until that is durable, or known lost."""

    def __init__(self, views: Sequence[View] = (), kernels: Kernels | None = None) -> None:
        """Without ``kernels`` the kernel of results is interpreted."""
        self._kernels = kernels
        self._pool = StringPool()
        self._saved_strings = self._taken_strings = 0
        self._closed: Closed | None = None
        self._kinds = {view.name: view for view in views}
        self._checksums: dict[str, int] = {}  # of views that were asked for
        self.views = {view.name: self._empty(view.columns) for view in views}
        """View → its rows at the last epoch that was settled."""

    @property
    def nbytes(self) -> int:
        """About what everything takes up in a run."""
        return sum(result.table.held_bytes for result in self.views.values())

    def migrate(self, views: Sequence[View]) -> None:
        """Keep these views: those that stay keep their rows, new ones have none."""
        self.settle()
        self._kinds = {view.name: view for view in views}
        self._checksums = {name: each for name, each in self._checksums.items() if name in self._kinds}
        old = self.views
        self.views = {view.name: old[view.name] if view.name in old else self._empty(view.columns) for view in views}

    def close(self, changes: Mapping[str, PendingChanges]) -> Closed:
        """Close an epoch with these changes of views."""
        self.settle()
        self._closed = Closed(changes, self)
        return self._closed

    def add(self, name: str, changes: pa.Table) -> pa.Table:
        """Add changes to a view's rows, and return their sum."""
        rows = self.views[name].add(changes)
        if name in self._checksums:
            self._checksums[name] = (self._checksums[name] + changes_checksum(self._kinds[name], rows)) % MODULUS
        return rows

    def checksums(self) -> dict[str, int]:
        """View → the checksum of its rows, see `runtime.views.checksum`; from the first call on kept up to date."""
        for name, result in self.views.items():
            if name not in self._checksums:
                self._checksums[name] = changes_checksum(self._kinds[name], result.rows())
        return dict(self._checksums)

    def settle(self) -> None:
        """Add what the last epoch has changed."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed.rows()

    def save(self, *, is_base: bool) -> ResultsRun:
        """Return the changes since the last save that was followed by `on_saved`, or everything."""
        self.settle()
        first = 0 if is_base else self._saved_strings
        if is_base:
            self._forget_strings()
        results = {}
        for name, result in self.views.items():
            if is_base or result.table.dirty:
                results[name] = encode_run(result.table.save_all() if is_base else result.table.save())
        self._taken_strings = len(self._pool)
        return ResultsRun(first, self._pool.added_since(first), results)

    def on_saved(self) -> None:
        """The last save is durable."""
        self._saved_strings = self._taken_strings

    def apply_run(self, run: ResultsRun) -> None:
        """Take over a run; raise `CorruptStateError`."""
        if run.first_string != len(self._pool):
            raise CorruptStateError(f"expected a run from string {len(self._pool)}, was from string {run.first_string}")
        self._pool.extend(run.strings)
        self._saved_strings = self._taken_strings = len(self._pool)
        for name, table_run in run.results.items():
            self.views[name].table.apply_run(decode_run(table_run, name))
            self._checksums.pop(name, None)

    def _forget_strings(self) -> None:
        """Begin a new pool of the strings that rows have, if many others must be in it."""
        most = sum(len(r.table) * sum(c.type == "string" for c in r.columns) for r in self.views.values())
        if len(self._pool) <= 2 * most + _SPARE_STRINGS:
            return
        self._pool = StringPool()
        for name, result in self.views.items():
            fresh = self.views[name] = self._empty(result.columns)
            fresh.add(result.rows())

    def _empty(self, columns: Sequence[Column]) -> MaterialisedView:
        return MaterialisedView(columns, self._pool, is_saved=True, kernels=self._kernels)
