"""A formatter's place in the engine: the raw buffers that wait for it, and the tasks that take them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from runtime.engine.errors import EngineError
from runtime.engine.ingest._queue import TaskQueue
from runtime.formats import (
    FormatError,
    Formatted,
    FormattedBatch,
    InputFormatter,
    Pending,
    RawBuffer,
)

__all__ = ["FormatStage"]

_CODEC_SHARE: Final = 4  # compressed text decodes to some four to eight times as much

Accept = Callable[[list[FormattedBatch], list[RawBuffer]], None]


class FormatStage:
    """One input formatter and what waits for it, of all origins that share it: those of a union.

    A task takes up to the formatter's `block_bytes`, neighbours together, so that many small buffers are formatted as
    one; what comes while all workers are busy waits and becomes a larger task. Buffers out of the formatter's range are
    kept aside until others have been formatted, and then repeated. Thread-safe.

    A stream that is compressed as a whole has a stage of its own, with ``takes_turns``: a worker that decodes has it
    for itself, and the next one decodes what follows while the first one parses. Otherwise one worker would decode all
    that the others bring, and they would have nothing to do.
    """

    def __init__(
        self,
        formatter: InputFormatter,
        queue: TaskQueue,
        workers: int,
        accept: Accept,
        name: Callable[[int], str],
        *,
        takes_turns: bool = False,
    ) -> None:
        """``accept`` takes what a task completed, and the buffers that are thereby done; ``name`` names an origin."""
        self.formatter = formatter
        self._queue = queue
        self._workers = workers
        self._accept = accept
        self._name = name
        self._takes_turns = takes_turns
        self._task_bytes = formatter.block_bytes // (_CODEC_SHARE if takes_turns else 1)
        self._pending = Pending()
        self._lock = threading.Lock()
        self._planned = 0
        self._running = 0
        self._has_turn = False
        self._aside: list[RawBuffer] = []
        self._repeats: Counter[int] = Counter()

    def add(self, raw: RawBuffer) -> None:
        """A buffer that was admitted."""
        self._pending.add(raw)
        self._plan()

    def __len__(self) -> int:
        """Buffers that wait."""
        return len(self._pending) + len(self._aside)

    def repeats(self, origin_id: int) -> int:
        """How many buffers of an origin had to be repeated, over all its streams."""
        return self._repeats[origin_id]

    def _plan(self) -> None:
        """See that there are tasks for what waits: at least one, at most one for each worker."""
        with self._lock:
            most = 1 if self._takes_turns else self._workers
            if self._has_turn or self._planned >= min(most, 1 + self._pending.bytes // self._task_bytes):
                return
            self._planned += 1
        self._queue.admit(self._run)

    def _run(self) -> None:
        with self._lock:
            self._planned -= 1
            self._running += 1
            self._has_turn = self._takes_turns
        raws = self._pending.take(self._task_bytes)
        if not self._takes_turns:
            self._plan_rest()
        elif not raws:
            self._give_turn()
        if not raws:
            self._end(is_progress=False)
            return
        formatted = self._format(raws)
        if formatted.again:
            again = {id(raw) for raw in formatted.again}
            raws = [raw for raw in raws if id(raw) not in again]
            with self._lock:
                self._aside += formatted.again
                self._repeats.update([raw.origin_id for raw in formatted.again])
        self._accept(formatted.batches, raws)
        self._end(is_progress=bool(raws))

    def _plan_rest(self) -> None:
        if len(self._pending):
            self._plan()

    def _give_turn(self) -> None:
        """The next worker may decode."""
        with self._lock:
            self._has_turn = False
        self._plan_rest()

    def _format(self, raws: list[RawBuffer]) -> Formatted:
        try:
            return self.formatter.format(raws, self._give_turn if self._takes_turns else None)
        except FormatError as error:
            at_fault = {raw.origin_id for raw in raws} if error.origin_id is None else {error.origin_id}
            names = ", ".join(sorted(map(self._name, at_fault)))
            raise EngineError(f"origin {names}: {error}") from error

    def finish(self, origin_id: int) -> list[FormattedBatch]:
        """The end of an origin's stream, see `InputFormatter.finish`."""
        try:
            return self.formatter.finish(origin_id)
        except FormatError as error:
            raise EngineError(f"origin {self._name(origin_id)}: {error}") from error

    def _end(self, *, is_progress: bool) -> None:
        """Repeat what was out of range once something else was formatted, or nothing else is under way."""
        with self._lock:
            self._running -= 1
            if not self._aside or not (is_progress or not self._running):
                return
            again, self._aside = self._aside, []
        self._pending.put_back(again)
        self._plan()
