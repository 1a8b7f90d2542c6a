"""Any delimiters, any order, any ring: the spans are those of the sequence read from the start.

Numbers of rows are those of docs/features/formats.md.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import runtime.formats.assembly.shredder as shredder_module
from runtime.formats import SequenceShredder, Span
from tests.harness.examples import examples


@given(st.data(), st.lists(st.booleans(), min_size=1, max_size=400), st.sampled_from([2, 4, 8]))
def test_every_span_exactly_once(data: st.DataObject, delimiters: list[bool], slots: int) -> None:
    """Rows 1, 2, 3, 11: whatever the order of arrival, every span is found once, and the rest stays open."""
    displacement = st.lists(st.integers(0, 300), min_size=len(delimiters), max_size=len(delimiters))
    shift = data.draw(displacement)
    todo = sorted(range(1, len(delimiters) + 1), key=lambda number: number + shift[number - 1])
    shredder = SequenceShredder(slots=slots, max_slots=8, growth_after=4)
    spans: list[Span] = []
    while todo:
        again = []
        for number in todo:
            found = shredder.process(number, number, delimiters[number - 1])
            shredder._check()
            if found is None:
                again.append(number)
                continue
            spans += [*([found.ending] if found.ending else []), *found.others]
        assert len(again) < len(todo)
        todo = again
    places = [0, *[number for number, has_delimiter in enumerate(delimiters, 1) if has_delimiter]]
    assert sorted(spans, key=lambda span: span.first) == [Span(*pair) for pair in itertools.pairwise(places)]
    assert shredder.open_span() == Span(places[-1], len(delimiters))


@given(st.data(), st.lists(st.booleans(), min_size=1, max_size=400), st.sampled_from([2, 4, 8]))
def test_neighbours_entered_as_one(data: st.DataObject, delimiters: list[bool], slots: int) -> None:
    """Rows 1, 2, 16: runs of any length, the last of each with the delimiter of all, join without holes."""
    borders = sorted(data.draw(st.sets(st.integers(1, len(delimiters)), max_size=40)) | {len(delimiters)})
    firsts = [1, *[border + 1 for border in borders]]
    runs = [(first, last, any(delimiters[first - 1 : last])) for first, last in zip(firsts, borders, strict=False)]
    shredder = SequenceShredder(slots=slots, max_slots=8)
    spans: list[Span] = []
    todo = data.draw(st.permutations(runs))
    while todo:
        again = []
        for first, last, has_delimiter in todo:
            if first != last and last >= shredder.limit:
                again += [(first, first, False), (first + 1, last, has_delimiter)]  # in part: it may never fit as one
                continue
            assert not shredder.holds(first, last)
            found = shredder.process(first, last, has_delimiter)
            shredder._check()
            if found is None:
                again.append((first, last, has_delimiter))
                continue
            assert shredder.holds(first, last) or last < shredder._tail * 64
            spans += [*([found.ending] if found.ending else []), *found.others]
        todo = again
    places = [0, *[last for _, last, has_delimiter in runs if has_delimiter]]
    assert sorted(spans, key=lambda span: span.first) == [Span(*pair) for pair in itertools.pairwise(places)]
    assert shredder.open_span() == Span(places[-1], len(delimiters))
    assert shredder.watermark() == len(delimiters)


class InterruptedLock:
    """A lock that lets other work in whenever it is released: every place where a thread may be overtaken."""

    def __init__(self, interrupt: Callable[[], None]) -> None:
        self._interrupt = interrupt
        self._held = False

    def __enter__(self) -> None:
        assert not self._held
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        self._interrupt()


@settings(max_examples=examples(300))
@given(st.data(), st.lists(st.booleans(), min_size=2, max_size=60), st.integers(1, 3))
def test_any_interleaving_of_calls(data: st.DataObject, delimiters: list[bool], slots_log: int) -> None:
    """Row 5: calls that overtake each other wherever no lock is held still find every span exactly once."""
    shift = data.draw(st.lists(st.integers(0, 12), min_size=len(delimiters), max_size=len(delimiters)))
    todo = sorted(range(1, len(delimiters) + 1), key=lambda number: -number - shift[number - 1])
    generator = random.Random(data.draw(st.integers(0, 2**32)))
    spans: list[Span] = []
    depth = 0

    def step() -> None:
        nonlocal depth
        if not todo or depth > 8:
            return
        number = todo.pop()
        depth += 1
        found = shredder.process(number, number, delimiters[number - 1])
        depth -= 1
        if found is None:
            todo.insert(0, number)
            return
        spans.extend([*([found.ending] if found.ending else []), *found.others])

    def interrupt() -> None:
        if generator.random() < 0.3:
            step()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shredder_module, "SLOT_BITS", 8)  # small slots: many borders within few buffers
        patch.setattr(shredder_module, "_FULL", 0xFF)
        shredder = SequenceShredder(slots=2, max_slots=2**slots_log, growth_after=3)
        patch.setattr(shredder, "_lock", InterruptedLock(interrupt))
        for _ in range(100 * len(delimiters)):
            step()
        assert not todo
        shredder._check()
    places = [0, *[number for number, has_delimiter in enumerate(delimiters, 1) if has_delimiter]]
    assert sorted(spans, key=lambda span: span.first) == [Span(*pair) for pair in itertools.pairwise(places)]
