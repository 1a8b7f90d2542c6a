"""Runs whose cut depends on what stood before them wait for it, whoever brings it.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools
import random

import pytest

from runtime.formats import DuplicateSequenceError, InputFormatter, Run, RunIndex, SequenceGapError, TupleRange
from runtime.formats.assembly.spanning import Unit
from runtime.formats.assembly.stream import Settling
from tests.generators.odd_formats import BYTE_PREFIXED, BYTE_PREFIXED_OR_FAIL, prefixed
from tests.generators.text_buffers import cut, format_all, format_with_threads, in_pieces, rows_of

WORDS = ["", "a", "bc", "", "", "d" * 60, "e", "f" * 200, "gh", "i"] * 4


class Table(RunIndex):
    """A cut for each of the states 0 to 2."""

    def __init__(self, cuts: list[TupleRange]) -> None:
        self.cuts = cuts

    @property
    def settled(self) -> TupleRange | None:
        return self.cuts[0] if len(set(self.cuts)) == 1 else None

    @property
    def end_state(self) -> int | None:
        return self.cuts[0].end_state if len({cut.end_state for cut in self.cuts}) == 1 else None

    def cut(self, state: int) -> TupleRange:
        return self.cuts[state]


def table(generator: random.Random) -> Table:
    """Settled; only its end state known; or nothing."""
    kind = generator.randrange(3)
    first = TupleRange(generator.randrange(5), generator.randrange(5, 9), generator.randrange(3))
    if kind == 0:
        return Table([first] * 3)
    if kind == 1:
        return Table([TupleRange(n, n, first.end_state) for n in generator.sample(range(9), 3)])
    return Table([TupleRange(n, n, generator.randrange(3)) for n in range(3)])


@pytest.mark.parametrize("seed", range(200))
def test_every_run_is_cut_by_the_state_at_its_start(seed: int) -> None:
    """Row 17: in any order and grouping each run is settled once, as in stream order, and nothing is left over."""
    generator = random.Random(seed)
    units, first, state, expected = [], 1, 1, {}
    for _ in range(generator.randrange(1, 12)):
        last = first + generator.randrange(3)
        unit = Unit(first, last, Run([b"x"], -1))
        unit.index = table(generator)
        expected[first] = unit.index.cut(state)
        state = expected[first].end_state
        units.append(unit)
        first = last + 1
    settling, settled = Settling(1), list[Unit]()
    todo = generator.sample(units, len(units))
    while todo:
        count = generator.randrange(1, 4)
        settled += settling.settle(todo[:count])
        todo = todo[count:]
    assert {unit.first: unit.cut for unit in settled} == expected
    assert len(settled) == len(units)
    assert settling.end_state(first - 1) == state
    assert (settling._waiting, settling._positions, settling._started) == ({}, set(), set())
    assert settling._states == {first: state}
    settling.check_empty()


def test_a_known_end_state_precedes_the_settling_of_the_run() -> None:
    """Row 17: who can tell what follows tells it, though its own cut waits."""
    settling = Settling(0)
    middle, last = Unit(5, 6, Run([b"x"], -1)), Unit(7, 7, Run([b"x"], -1))
    middle.index = Table([TupleRange(1, 1, 2), TupleRange(2, 2, 2), TupleRange(3, 3, 2)])
    last.index = Table([TupleRange(-1, -1, 0), TupleRange(-1, -1, 1), TupleRange(4, 4, 2)])
    assert settling.settle([middle]) == []
    assert settling.settle([last]) == [last]
    assert last.cut == TupleRange(4, 4, 2)
    assert settling.holds(6, 9)
    assert not settling.holds(7, 9)
    assert settling.held_bytes() == 1
    with pytest.raises(SequenceGapError, match="before 5"):
        settling.check_empty()


@pytest.mark.parametrize("size", [1, 3, 7, 64, 1_000])
@pytest.mark.parametrize("at_once", [1, 5, 1_000])
def test_length_prefixed_tuples_in_any_order(size: int, at_once: int) -> None:
    """Rows 1, 26: a format that only the past can cut; whole runs wait, and every tuple comes out in its place."""
    text = prefixed(WORDS)
    raws = in_pieces(text, size)
    for seed in range(3):
        shuffled = random.Random(seed).sample(raws, len(raws))
        formatter = InputFormatter(BYTE_PREFIXED)
        batches = format_all(formatter, shuffled, at_once=at_once)
        assert [row[0] for row in rows_of(batches)] == WORDS
        ends = list(itertools.accumulate(1 + len(word) for word in WORDS))
        assert [end for batch in batches for end in batch.row_ends.tolist()] == ends


def test_length_prefixed_tuples_on_threads() -> None:
    """Row 4: the same from eight threads."""
    for seed in range(5):
        raws = in_pieces(prefixed(WORDS), 2)
        batches = format_with_threads(InputFormatter(BYTE_PREFIXED), raws, threads=8, seed=seed, at_once=1 + 3 * seed)
        assert [row[0] for row in rows_of(batches)] == WORDS


def test_what_waits_is_held_once() -> None:
    """Row 12: a number that waits for its neighbour is there already; its bytes are counted until it goes."""
    raws = in_pieces(prefixed(WORDS), 50)
    formatter = InputFormatter(BYTE_PREFIXED)
    assert formatter.format(raws[1:4]).batches == []
    assert (formatter.held_bytes(), formatter.watermark(1)) == (150, 0)
    for again in (raws[1:2], raws[3:5]):
        with pytest.raises(DuplicateSequenceError):
            formatter.format(again)
    with pytest.raises(SequenceGapError):
        formatter.finish(1)
    formatter.format(raws[:1])
    assert formatter.watermark(1) == 4
    assert formatter.held_bytes() < 50 + 255


def test_runs_that_wait_are_bounded_by_the_ring() -> None:
    """Row 11: what is out of the ring's range does not even wait."""
    raws = in_pieces(prefixed(["x"] * 600), 1)
    formatter = InputFormatter(BYTE_PREFIXED, slots=2, max_slots=2)
    assert formatter.format(raws[1:]).again == raws[127:]
    formatter = InputFormatter(BYTE_PREFIXED, slots=2, max_slots=2)
    assert len(rows_of(format_all(formatter, raws[::-1], at_once=100))) == 600


def test_a_tuple_that_the_end_of_the_stream_cuts_short() -> None:
    """Rows 10, 23: where the length says that more should come, the rest is a bad tuple."""
    batches = format_all(InputFormatter(BYTE_PREFIXED), cut(prefixed(["ab", "cdef"])[:-1], [4]))
    assert [row[0] for row in rows_of(batches)] == ["ab"]
    (letter,) = batches[-1].dead
    assert (letter.data, letter.row, letter.byte_offset, letter.sequence_number) == (b"\4cde", 1, 3, 2)
    assert str(letter).startswith("expected a whole tuple at the end of the stream")


def test_a_failure_that_the_format_does_not_describe() -> None:
    """Row 23: the stream ends at the first bad tuple, though the format describes another one."""
    text = prefixed(["ab", "c?", "de", "f?"])
    (batch,) = format_all(InputFormatter(BYTE_PREFIXED_OR_FAIL), cut(text, []), finish=False)
    assert (rows_of([batch]), batch.tuples, batch.length) == ([("ab",)], 2, 3)
    assert batch.failure is not None
    assert (batch.failure.data, batch.failure.row, batch.failure.byte_offset) == (b"\2c?", 1, 3)
    (letter,) = format_all(InputFormatter(BYTE_PREFIXED), cut(text, []), finish=False)[0].dead
    assert (letter.data, letter.row) == (b"\2f?", 3)
