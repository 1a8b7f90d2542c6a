"""Any delimiters, any order, any ring: the spans are those of the sequence read from the start."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from runtime.formats import SequenceShredder, Span


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
            found = shredder.process(number, delimiters[number - 1])
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
