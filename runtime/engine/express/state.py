"""What the express lane keeps: the program, its one shard, and every view's full result."""

from __future__ import annotations

from typing import Final

import msgspec
import pyarrow as pa
from twisted.logger import Logger

from runtime.compiler import Program, decode_program, encode_program
from runtime.state import CorruptStateError, Run, StringPool, decode_run, encode_run
from runtime.views.materialised import MaterialisedView
from runtime.views.shard import Kernels, ShardState

__all__ = ["ExpressState"]

_RUN_FORMAT: Final = 2
_NOTHING: Final = Program((), (), ())
_SPARE_STRINGS: Final = 4096


class _Run(msgspec.Struct, frozen=True, array_like=True):
    """Edits, or with a program everything: then what was there before is forgotten."""

    format: int
    program: bytes
    shard: bytes
    first_string: int
    strings: list[str]
    results: dict[str, bytes]


class ExpressState:
    """State as `runtime.state.chains.RunHolder` has it; a run that begins with a program stands alone.

    Not thread-safe: owned by the worker that runs the pipeline, and by the committer while a barrier is under way.
    """

    _log = Logger()

    def __init__(self, kernels: Kernels | None = None) -> None:
        """``kernels``: where compiled kernels come from; without them every kernel is interpreted."""
        self._kernels = kernels
        self._begin(_NOTHING)
        self.dirty = False
        """Whether anything changed since the last `save`."""
        self._is_new = False
        self._is_stale = False
        self._base_bytes = 0

    def _begin(self, program: Program) -> None:
        self.program = program
        """What is kept; all of its views are of the express lane."""
        self.shard = ShardState(program, inputs="relations", kernels=self._kernels)
        self._pool = StringPool()
        self._saved_strings = self._taken_strings = 0
        self.results = {view.name: MaterialisedView(view.columns, self._pool) for view in program.views}
        """View → its rows at the last epoch."""

    @property
    def failed(self) -> dict[str, str]:
        """View → why it has ended."""
        return self.shard.failed

    def begin(self, program: Program) -> None:
        """Forget everything: a program whose views hold nothing yet."""
        self._begin(program)
        self._is_new = self.dirty = True

    def migrate(self, program: Program) -> None:
        """Another program: what stays keeps its state and its result, and what is new is empty until it is filled."""
        standing = {view.name for view in self.program.views}
        self.shard.migrate(program)
        self.program = program
        self.results = {
            view.name: self.results[view.name] if view.name in standing else MaterialisedView(view.columns, self._pool)
            for view in program.views
        }
        self._is_new = self.dirty = True

    @property
    def wants_base(self) -> bool:
        """See `RunHolder`: many rows over a small state, which is what a market's views are."""
        return self._is_new or self.shard.taken_bytes > self._base_bytes

    def add(self, name: str, changes: pa.Table) -> None:
        """Add what changed in a view to its result."""
        self.results[name].add(changes)

    def save(self) -> Run:
        """See `RunHolder`; everything if the program is another one, or a save has failed."""
        if self._is_new:
            return self.save_all()
        results = {name: result.table.save() for name, result in self.results.items() if result.table.dirty}
        return self._taken(b"", self.shard.capture(), self._saved_strings, results)

    def save_all(self) -> Run:
        """See `RunHolder`."""
        self._forget_strings()
        results = {}
        for name, result in self.results.items():
            result.table.save()
            results[name] = result.table.save_all()
        run = self._taken(encode_program(self.program), self.shard.capture_all(), 0, results)
        self._base_bytes = run.nbytes
        return run

    def _forget_strings(self) -> None:
        """Begin a new pool of the strings that rows have, if there must be many others in it."""
        most = sum(len(r.table) * sum(c.type == "string" for c in r.columns) for r in self.results.values())
        if len(self._pool) <= 2 * most + _SPARE_STRINGS:
            return
        self._pool = StringPool()
        for name, result in self.results.items():
            fresh = self.results[name] = MaterialisedView(result.columns, self._pool)
            fresh.add(result.rows())

    def on_saved(self) -> None:
        """See `RunHolder`."""
        for result in self.results.values():
            result.table.on_saved()
        self._saved_strings = self._taken_strings

    def on_failed(self) -> None:
        """See `RunHolder`: the shard does not know what of it is durable, so the next save writes all."""
        self._is_new = self.dirty = True

    def apply_run(self, data: bytes) -> None:
        """See `RunHolder`."""
        try:
            run = msgspec.msgpack.decode(data, type=_Run)
        except msgspec.DecodeError as error:
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
        if run.format != _RUN_FORMAT or run.first_string != len(self._pool):
            raise CorruptStateError(
                f"expected a run of format {_RUN_FORMAT} from string {len(self._pool)}, "
                f"was format {run.format} from string {run.first_string}"
            )
        self._pool.extend(run.strings)
        self._saved_strings = self._taken_strings = len(self._pool)
        self.shard.apply_run(run.shard)
        for name, table_run in run.results.items():
            self.results[name].table.apply_run(decode_run(table_run, name))
        self._is_new = self.dirty = False

    def _taken(self, program: bytes, shard: Run, first_string: int, results: dict[str, pa.RecordBatch]) -> Run:
        """The run; what changes from now on is of the next one."""
        self._taken_strings = len(self._pool)
        self._is_new = self.dirty = False
        strings = self._pool.added_since(first_string)

        def encode() -> bytes:
            encoded = {name: encode_run(batch) for name, batch in results.items()}
            return msgspec.msgpack.encode(_Run(_RUN_FORMAT, program, shard.encode(), first_string, strings, encoded))

        return Run(shard.nbytes + sum(batch.nbytes for batch in results.values()), encode)
