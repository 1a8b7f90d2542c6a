"""How calls take what waits for a formatter: early buffers again, failing origins apart, streams in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from runtime.engine.ingest.deltas import Completed, Mark, MarkKind
from runtime.engine.ingest.formatting import Formatting
from runtime.engine.plan import Context
from runtime.formats import (
    CodecError,
    FormatError,
    Formatted,
    FormattedBatch,
    InputFormatter,
    RawBuffer,
    SequenceGapError,
)
from runtime.relations import FEED_SCHEMA


class Recording(InputFormatter):
    """Writes down what it is given; buffers beyond a number are out of range until that one was there."""

    def __init__(self, most: int = 1 << 60) -> None:
        super().__init__(FEED_SCHEMA)
        self.calls: list[list[int]] = []
        self.most = most
        self.errors: list[FormatError] = []

    def format(
        self,
        raws: Sequence[RawBuffer],
        on_admitted: Callable[[], None] | None = None,
        failed: list[FormatError] | None = None,
    ) -> Formatted:
        if on_admitted is not None:
            on_admitted()
        numbers = sorted(raw.sequence_number for raw in raws)
        self.calls.append(numbers)
        assert failed is not None
        failed += self.errors
        self.errors = []
        again = [raw for raw in raws if raw.sequence_number > self.most]
        if self.most in numbers:
            self.most = 1 << 60
        return Formatted([], again)

    def finish(self, origin_id: int) -> list[FormattedBatch]:
        raise SequenceGapError(f"{origin_id} is short")


class Recorder(Context):
    """A call's context whose traces can be looked at."""

    def __init__(self) -> None:
        self.query_id, self.name, self.worker, self.port, self.successors = "q", "format", 0, 0, 1
        self.completed: list[Completed] = []
        self.again: list[object] = []
        self.turns = 0

    def now_s(self) -> float:
        return 0.0

    def emit(self, item: object, successor: int | None = None, size: int = 1) -> None:
        assert isinstance(item, Completed)
        assert (successor, size) == (None, 0)
        self.completed.append(item)

    def repeat(self, inputs: Sequence[object], after_s: float = 0.0) -> None:
        assert not after_s
        self.again += inputs

    def begin_barrier(self, barrier: object = None, payload: object = None) -> None:  # type: ignore[override]
        pytest.fail("no cut point")

    def give_turn(self) -> None:
        self.turns += 1


def raw(number: int, origin_id: int = 0) -> RawBuffer:
    return RawBuffer(origin_id, number, b"x", 0)


def failing(text: str, origin_id: int | None) -> CodecError:
    error = CodecError(text)
    error.origin_id = origin_id
    return error


def test_a_call_takes_about_a_block_and_many_small_buffers() -> None:
    formatter = InputFormatter(FEED_SCHEMA)
    plain, in_turns = Formatting(formatter, 3), Formatting(formatter, 3, takes_turns=True)
    assert (plain.concurrency, plain.most_size, plain.takes_turns) == (3, formatter.block_bytes, False)
    assert plain.most_inputs > 10_000
    assert (in_turns.concurrency, in_turns.takes_turns) == (3, True)
    assert in_turns.most_size == 2 * formatter.block_bytes, "a quarter of a block, each byte of which counts as eight"


def test_buffers_out_of_range_come_again_and_are_counted() -> None:
    formatter = Recording(most=2)
    formatting, context = Formatting(formatter, 1), Recorder()
    early = [raw(3), raw(4)]
    formatting.execute([raw(1), *early], context)
    assert context.again == early
    assert formatting.repeats(0) == 2
    formatting.execute(early, context)
    assert (context.again, formatting.repeats(0)) == ([*early, *early], 4)
    formatting.execute([raw(2)], context)
    formatting.execute(early, context)
    assert (len(context.again), formatting.repeats(0)) == (4, 4)
    assert formatter.calls == [[1, 3, 4], [3, 4], [2], [3, 4]]
    assert context.completed == [], "nothing was completed"


def test_one_worker_decodes_while_another_parses() -> None:
    """Of a stream that is compressed as a whole."""
    context = Recorder()
    Formatting(Recording(), 2).execute([raw(1)], context)
    assert context.turns == 0
    Formatting(Recording(), 2, takes_turns=True).execute([raw(1)], context)
    assert context.turns == 1


def test_an_origin_that_cannot_be_decoded_fails_alone() -> None:
    """Its buffers are done with, those that come later too; early ones of it do not come again."""
    formatter = Recording(most=2)
    formatting, context = Formatting(formatter, 1), Recorder()
    formatter.errors = [failing("no frame", 7)]
    formatting.execute([raw(1), raw(5, 7)], context)
    assert context.completed[0].failed == ((7, "no frame"),)
    assert context.again == []
    formatting.execute([raw(6, 7), raw(2)], context)
    assert formatter.calls[1] == [2]
    formatting.execute([Mark(7, MarkKind.ENDED), raw(7, 7)], context)
    assert context.completed[1].marks == (Mark(7, MarkKind.FAILED, "no frame"),)
    assert len(formatter.calls) == len(context.completed) == 2


def test_an_error_of_no_origin_is_raised() -> None:
    formatter = Recording()
    formatter.errors = [failing("of all", None)]
    with pytest.raises(CodecError, match=r"^of all$"):
        Formatting(formatter, 1).execute([raw(1)], Recorder())


def test_a_stream_that_is_not_whole_at_its_end_has_failed() -> None:
    context = Recorder()
    marks = [Mark(7, MarkKind.ENDED), Mark(8, MarkKind.LOST, "cable"), Mark(9, MarkKind.FAILED, "gone")]
    Formatting(Recording(), 1).execute(marks, context)
    assert context.completed[0].marks == (Mark(7, MarkKind.FAILED, "7 is short"), *marks[1:])
