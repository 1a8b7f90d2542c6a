"""Formatting step: the pipeline that formats raw buffers with an input formatter."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Final

from runtime.engine.ingest.deltas import Completed, Mark, MarkKind
from runtime.engine.plan import Context, Pipeline
from runtime.formats import FormatError, Formatted, FormattedBatch, InputFormatter, RawBuffer

__all__ = ["CODEC_WEIGHT", "Formatting"]

CODEC_WEIGHT: Final = 8
"""A byte of compressed text counts as this number of bytes, because it decodes to about eight bytes."""
_CODEC_SHARE: Final = 4
"""Ratio of a block's size to a call's compressed bytes, because text decodes to four to eight times as many bytes."""
_MOST_BUFFERS: Final = 16_384
"""Greatest number of buffers of a call."""


class Formatting(Pipeline):
    """Step of one input formatter, which may be shared by several origins; runs on all workers.

    A call takes up to the formatter's `block_bytes`, so that many small buffers are formatted as one; buffers that
    arrive while all workers are busy wait and become a larger call. Buffers that are ahead of the formatter's range are
    repeated later. An origin whose bytes cannot be decoded fails alone: its later buffers are dropped.

    A stream that is compressed as a whole has its own formatter, which ``takes_turns``: one worker at a time decodes,
    and the next worker decodes the following buffers while the first one parses. Otherwise one worker would decode all
    buffers while the others are idle.

    `_repeats` is changed with `_lock` held; an origin is put into `_failed` by any worker, and never taken out.
    """

    def __init__(self, formatter: InputFormatter, workers: int, *, takes_turns: bool = False) -> None:
        self.formatter = formatter
        self.concurrency = workers
        self.takes_turns = takes_turns
        self.most_inputs = _MOST_BUFFERS
        self.most_size = formatter.block_bytes * CODEC_WEIGHT // _CODEC_SHARE if takes_turns else formatter.block_bytes
        self._lock = threading.Lock()
        self._repeats: Counter[int] = Counter()
        self._failed: dict[int, str] = {}

    def __str__(self) -> str:
        return type(self.formatter.schema.format).__name__

    def repeats(self, origin_id: int) -> int:
        """Return the number of buffers of an origin that were repeated, over all its streams."""
        return self._repeats[origin_id]

    def execute(self, inputs: Sequence[object], context: Context) -> None:
        """Format buffers together, and end the origins whose marks are among them."""
        raws = [each for each in inputs if type(each) is RawBuffer and each.origin_id not in self._failed]
        marks = [each for each in inputs if type(each) is Mark] if len(raws) < len(inputs) else []
        errors: list[FormatError] = []
        batches: list[FormattedBatch] = []
        if raws:
            formatted = self.formatter.format(raws, context.give_turn if self.takes_turns else None, errors)
            if errors:
                formatted = self._without_fault(raws, formatted, errors)
            batches = formatted.batches
            if formatted.again:
                context.repeat(formatted.again)
                with self._lock:
                    self._repeats.update([raw.origin_id for raw in formatted.again])
        failed = self._at_fault(errors)
        ends = tuple([self._end(mark, batches) for mark in marks])
        if batches or failed or ends:
            tuples = sum([batch.tuples for batch in batches])
            context.emit(Completed(batches, tuples, failed, ends), size=tuples)

    def _at_fault(self, errors: list[FormatError]) -> tuple[tuple[int, str], ...]:
        """Return the failed origins and the reasons; drop their later input.

        Raise an error that belongs to no origin.
        """
        failed: list[tuple[int, str]] = []
        for error in errors:
            if error.origin_id is None:
                raise error
            failed.append((error.origin_id, str(error)))
            self._failed.setdefault(error.origin_id, str(error))
        return tuple(failed)

    def _end(self, mark: Mark, batches: list[FormattedBatch]) -> Mark:
        """Return the mark to emit; at the end of a stream, append its last tuple to ``batches`` first.

        The last tuple may have no delimiter. If the stream is incomplete, the returned mark reports a failure.
        """
        if mark.kind is not MarkKind.ENDED:
            return mark
        reason = self._failed.get(mark.origin_id)
        if reason is None:
            try:
                batches += self.formatter.finish(mark.origin_id)
            except FormatError as error:
                reason = str(error)
        return mark if reason is None else Mark(mark.origin_id, MarkKind.FAILED, reason)

    def _without_fault(self, raws: list[RawBuffer], formatted: Formatted, errors: list[FormatError]) -> Formatted:
        """Return all formatted batches, including those of failed origins before their error, each batch once."""
        at_fault = {error.origin_id for error in errors}
        batches = formatted.batches
        for origin_id in at_fault:
            batches += self._before_fault([raw for raw in raws if raw.origin_id == origin_id])
        return Formatted(batches, [raw for raw in formatted.again if raw.origin_id not in at_fault])

    def _before_fault(self, raws: list[RawBuffer]) -> list[FormattedBatch]:
        """Format the failed origin's buffers one by one, and return the batches that are complete before the error."""
        batches: list[FormattedBatch] = []
        errors: list[FormatError] = []
        for raw in sorted(raws, key=lambda each: each.sequence_number) if len(raws) > 1 else ():
            formatted = self.formatter.format([raw], None, errors)
            if errors or formatted.again:
                break
            batches += formatted.batches
        return batches
