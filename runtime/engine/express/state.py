"""State of the express lane: the program, its one shard, and every view's full result as of the end of an epoch.

A restart first publishes the full results. No step needs them, so they are updated only when an epoch is committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from twisted.logger import Logger

from runtime.native.tiers import Kernels
from runtime.plan import Column, Program, View, decode_program, encode_program
from runtime.state import CorruptStateError, Run, StringPool, decode_run, encode_run
from runtime.views.checksum import MODULUS, changes_checksum
from runtime.views.materialised import MaterialisedView, PendingChanges
from runtime.views.shard import ShardState

__all__ = [
    "ExpressState",
]

_RUN_FORMAT: Final = 2
_NOTHING: Final = Program((), (), ())


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """Run of saved edits; a run with a program is a base, which replaces all earlier runs."""

    format: int
    """Format of the run."""
    program: bytes
    """Program of the lane; empty in a run that is not a base."""
    shard: bytes
    """Run of the shard."""
    first_string: int
    """Number of the first of the strings."""
    strings: list[str]
    """Strings that were added to the string pool of the results."""
    results: dict[str, bytes]
    """Runs of the views' results, by view."""


class ExpressState:
    """Saved state of the express lane, a `runtime.state.chains.RunHolder`.

    Not thread-safe: owned by the worker that runs the pipeline; for the owner of `results` see `Results`.
    """

    _log = Logger()

    def __init__(self, kernels: Kernels | None = None) -> None:
        """Create a state without views.

        ``kernels`` is the cache of compiled kernels; without it every kernel is interpreted.
        """
        self._kernels = kernels
        self._begin(_NOTHING)
        self.dirty = False
        """True if anything changed since the last `save`."""
        self._is_new = False
        self._is_stale = False
        self._base_bytes = 0

    def _begin(self, program: Program) -> None:
        self.program = program
        """Program whose views are maintained; all of them belong to the express lane."""
        self.shard = ShardState(program, inputs="relations", kernels=self._kernels)
        self.results = Results(program.views, self._kernels)
        """Results of the program's views."""

    @property
    def failed(self) -> dict[str, str]:
        """Reason for the failure of each failed view."""
        return self.shard.failed

    def begin(self, program: Program) -> None:
        """Drop all state, and begin with a program whose views are empty."""
        self._begin(program)
        self._is_new = self.dirty = True

    def migrate(self, program: Program) -> None:
        """Change to another program: existing views keep state and result.

        New views are empty until they are filled.
        """
        self.shard.migrate(program)
        self.program = program
        self.results.migrate(program.views)
        self._is_new = self.dirty = True

    def close(self, changes: Mapping[str, PendingChanges], *, is_dirty: bool = True) -> Closed:
        """Close an epoch with these changes of views; ``is_dirty`` is True if rows were added in that epoch."""
        self.dirty = self.dirty or is_dirty or bool(changes)
        return self.results.close(changes)

    def stepped(self) -> None:
        """Note that the shard has taken rows; require a base if the rows since a save are larger than the last base."""
        if self.shard.keeps_taken and self.shard.taken_bytes > self._base_bytes:
            self.shard.forget_taken()
            self._is_new = True

    @property
    def wants_base(self) -> bool:
        """True if the next save has to be a base; see `RunHolder`."""
        return self._is_new

    def save(self) -> Run:
        """Return the edits since the last save, or a base if one is required; see `RunHolder`."""
        return self.save_all() if self._is_new else self._run(b"", self.shard.capture(), self.results)

    def save_all(self) -> Run:
        """Return everything as a base; see `RunHolder`."""
        run = self._run(encode_program(self.program), self.shard.capture_all(), self.results)
        self._base_bytes = run.nbytes
        self.shard.keeps_taken = True
        return run

    def _run(self, program: bytes, shard: Run, results: Results) -> Run:
        """Return a run, a base if ``program`` is not empty; later changes belong to the next run."""
        self._is_new = self.dirty = False

        def encode() -> bytes:
            run = results.save(is_base=bool(program))
            return msgspec.msgpack.encode(
                _Run(_RUN_FORMAT, program, shard.encode(), run.first_string, run.strings, run.results)
            )

        return Run(shard.nbytes + (results.nbytes if program else 0), encode)

    def on_saved(self) -> None:
        """Note that the last save is durable; see `RunHolder`."""
        self.results.on_saved()

    def on_failed(self) -> None:
        """Require a base, because it is unknown which edits of the shard are durable; see `RunHolder`."""
        self._is_new = self.dirty = True

    def apply_run(self, data: bytes) -> None:
        """Apply a saved run; see `RunHolder`."""
        try:
            run = msgspec.msgpack.decode(data, type=_Run)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CorruptStateError(f"expected a run of the express lane, was {data[:16]!r}…: {error}") from None
        if run.format < _RUN_FORMAT:
            if run.program or self.program.views:
                self._log.info("the express lane's state is of an earlier release: it is rebuilt from snapshot and log")
            self._begin(_NOTHING)
            self._is_stale = True
            return
        if run.program:
            self._begin(decode_program(run.program))
            self._is_stale = False
            self._base_bytes = len(data)
        if self._is_stale:
            return
        if run.format != _RUN_FORMAT:
            raise CorruptStateError(f"expected a run of format {_RUN_FORMAT}, was format {run.format}")
        self.results.apply_run(ResultsRun(run.first_string, run.strings, run.results))
        self.shard.apply_run(run.shard)
        self._is_new = self.dirty = False


_SPARE_STRINGS: Final = 4096
"""A base rebuilds the pool if it has more strings than this number plus twice as many as the rows can contain."""


class ResultsRun(msgspec.Struct, frozen=True):
    """Changes of the results since the run before, or all of the results."""

    first_string: int
    """Number of the first of the strings."""
    strings: list[str]
    """Strings that were added to the pool."""
    results: dict[str, bytes]
    """Runs of the views' results, by view."""


class Closed:
    """Changes of views in an epoch; the first call of `rows` consolidates them and adds them to the results."""

    def __init__(self, changes: Mapping[str, PendingChanges], results: Results) -> None:
        self._changes, self._results = dict(changes), results
        self._rows: dict[str, pa.Table] = {}

    def rows(self) -> dict[str, pa.Table]:
        """Return the consolidated changes of each view; views without changes are left out."""
        for name in tuple(self._changes):
            # Free each view's pieces separately: freeing thousands of tables at once would stop all other threads.
            rows = self._results.add(name, self._changes.pop(name).take())
            if rows.num_rows:
                self._rows[name] = rows
        return self._rows

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each view's rows at the end of the epoch; to be called before another epoch ends."""
        self.rows()
        return self._results.checksums()


class Results:
    """Rows of each view as of the last epoch.

    Not thread-safe: owned by the views' pipeline, and by the committer from a save until the save is durable or lost.
    """

    def __init__(self, views: Sequence[View] = (), kernels: Kernels | None = None) -> None:
        """Create empty results of these views; without ``kernels`` the kernel of results is interpreted."""
        self._kernels = kernels
        self._pool = StringPool()
        self._saved_strings = self._taken_strings = 0
        self._closed: Closed | None = None
        self._kinds = {view.name: view for view in views}
        self._checksums: dict[str, int] = {}  # checksums of views that were requested
        self.views = {view.name: self._empty(view.columns) for view in views}
        """Rows of each view as of the last epoch that was settled."""

    @property
    def nbytes(self) -> int:
        """Approximate size of a run with all results, in bytes."""
        return sum(result.table.held_bytes for result in self.views.values())

    def migrate(self, views: Sequence[View]) -> None:
        """Replace the views by these: existing views keep their rows, new views have none."""
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
        """Add changes to a view's rows, and return the consolidated changes."""
        rows = self.views[name].add(changes)
        if name in self._checksums:
            self._checksums[name] = (self._checksums[name] + changes_checksum(self._kinds[name], rows)) % MODULUS
        return rows

    def checksums(self) -> dict[str, int]:
        """Return the checksum of each view's rows, see `runtime.views.checksum`; maintained from the first call on."""
        for name, result in self.views.items():
            if name not in self._checksums:
                self._checksums[name] = changes_checksum(self._kinds[name], result.rows())
        return dict(self._checksums)

    def settle(self) -> None:
        """Add the changes of the last epoch to the results."""
        closed, self._closed = self._closed, None
        if closed is not None:
            closed.rows()

    def save(self, *, is_base: bool) -> ResultsRun:
        """Return the changes since the last save that was followed by `on_saved`, or everything if ``is_base``."""
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
        """Note that the last save is durable."""
        self._saved_strings = self._taken_strings

    def apply_run(self, run: ResultsRun) -> None:
        """Apply a saved run; raise `CorruptStateError` if it is damaged."""
        if run.first_string != len(self._pool):
            raise CorruptStateError(f"expected a run from string {len(self._pool)}, was from string {run.first_string}")
        self._pool.extend(run.strings)
        self._saved_strings = self._taken_strings = len(self._pool)
        for name, table_run in run.results.items():
            self.views[name].table.apply_run(decode_run(table_run, name))
            self._checksums.pop(name, None)

    def _forget_strings(self) -> None:
        """Rebuild the string pool from the rows if many of its strings are unused."""
        most = sum(len(r.table) * sum(c.type == "string" for c in r.columns) for r in self.views.values())
        if len(self._pool) <= 2 * most + _SPARE_STRINGS:
            return
        self._pool = StringPool()
        for name, result in self.views.items():
            fresh = self.views[name] = self._empty(result.columns)
            fresh.add(result.rows())

    def _empty(self, columns: Sequence[Column]) -> MaterialisedView:
        return MaterialisedView(columns, self._pool, is_saved=True, kernels=self._kernels)
