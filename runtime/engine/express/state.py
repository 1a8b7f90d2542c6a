"""State of the express lane: the program, its one shard, and every view's full result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from twisted.logger import Logger

from runtime.engine.express.results import Closed, Results, ResultsRun
from runtime.plan import Program, decode_program, encode_program
from runtime.state import CorruptStateError, Run
from runtime.views.materialised import PendingChanges
from runtime.views.shard import Kernels, ShardState

__all__ = ["ExpressState"]

_RUN_FORMAT: Final = 2
_NOTHING: Final = Program((), (), ())


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

    Not thread-safe: owned by the worker that runs the pipeline; of `results` see there.
    """

    _log = Logger()

    def __init__(self, kernels: Kernels | None = None) -> None:
        """``kernels``: where compiled kernels come from; without them every kernel is interpreted."""
        self._kernels = kernels
        self._begin(_NOTHING)
        self.dirty = False
        """True if anything changed since the last `save`."""
        self._is_new = False
        self._is_stale = False
        self._base_bytes = 0

    def _begin(self, program: Program) -> None:
        self.program = program
        """Program of the views that are kept; all of them are of the express lane."""
        self.shard = ShardState(program, inputs="relations", kernels=self._kernels)
        self.results = Results(program.views, self._kernels)
        """Results of the program's views."""

    @property
    def failed(self) -> dict[str, str]:
        """View → reason for its failure."""
        return self.shard.failed

    def begin(self, program: Program) -> None:
        """Forget everything: a program whose views hold nothing yet."""
        self._begin(program)
        self._is_new = self.dirty = True

    def migrate(self, program: Program) -> None:
        """Another program: what stays keeps its state and its result, and what is new is empty until it is filled."""
        self.shard.migrate(program)
        self.program = program
        self.results.migrate(program.views)
        self._is_new = self.dirty = True

    def close(self, changes: Mapping[str, PendingChanges], *, is_dirty: bool = True) -> Closed:
        """Close an epoch with these changes of views; ``is_dirty``: rows were added in it."""
        self.dirty = self.dirty or is_dirty or bool(changes)
        return self.results.close(changes)

    def stepped(self) -> None:
        """Note that the shard has added rows; if they are more than it keeps, as with a market's, a base is smaller."""
        if self.shard.keeps_taken and self.shard.taken_bytes > self._base_bytes:
            self.shard.forget_taken()
            self._is_new = True

    @property
    def wants_base(self) -> bool:
        """See `RunHolder`."""
        return self._is_new

    def save(self) -> Run:
        """See `RunHolder`; everything if the program is another one, or a save has failed."""
        return self.save_all() if self._is_new else self._run(b"", self.shard.capture(), self.results)

    def save_all(self) -> Run:
        """See `RunHolder`."""
        run = self._run(encode_program(self.program), self.shard.capture_all(), self.results)
        self._base_bytes = run.nbytes
        self.shard.keeps_taken = True
        return run

    def _run(self, program: bytes, shard: Run, results: Results) -> Run:
        """With a program a base. What changes from now on is of the next one; other results may begin meanwhile."""
        self._is_new = self.dirty = False

        def encode() -> bytes:
            run = results.save(is_base=bool(program))
            return msgspec.msgpack.encode(
                _Run(_RUN_FORMAT, program, shard.encode(), run.first_string, run.strings, run.results)
            )

        return Run(shard.nbytes + (results.nbytes if program else 0), encode)

    def on_saved(self) -> None:
        """See `RunHolder`."""
        self.results.on_saved()

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
        if run.format != _RUN_FORMAT:
            raise CorruptStateError(f"expected a run of format {_RUN_FORMAT}, was format {run.format}")
        self.results.apply_run(ResultsRun(run.first_string, run.strings, run.results))
        self.shard.apply_run(run.shard)
        self._is_new = self.dirty = False
