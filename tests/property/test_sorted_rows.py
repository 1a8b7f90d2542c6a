"""Whatever is inserted and removed, sorted rows stand as in a sorted list."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.generators.sorted_rows_rig import Change, SortedRowsRig, small_nodes
from tests.harness.examples import examples

WORDS = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 2**63 - 1])


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_changes_keep_the_order(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 3), "words")
    with small_nodes(data.draw(st.integers(3, 5), "fan")):
        rig = SortedRowsRig(width)
        for _ in range(data.draw(st.integers(1, 6), "steps")):
            held = {record[-1] for record in rig.model}
            gone = data.draw(st.lists(st.sampled_from(sorted(held)), unique=True) if held else st.just([]), "removed")
            free = sorted(set(range(60)) - held)
            come = data.draw(st.lists(st.sampled_from(free), unique=True) if free else st.just([]), "inserted")
            changes: list[Change] = [(slot, None) for slot in gone]
            changes += [(slot, data.draw(st.tuples(*[WORDS] * width))) for slot in come]
            rig.apply(data.draw(st.permutations(changes), "changes") if changes else [])
            rig.check()
