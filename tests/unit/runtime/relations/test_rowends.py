"""Offsets behind rows, made only where they are looked at, against the arrays that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.formats import CsvFormat, Field, FormattedBatch, InOrder, InputFormatter, RawBuffer, Schema
from runtime.relations import RowEnds

SCHEMA = Schema((Field("n", "int64"),), CsvFormat())


def batches(*texts: bytes) -> list[FormattedBatch]:
    """One batch for each text, one behind the other in a stream."""
    formatter, order, found = InputFormatter(SCHEMA), InOrder(100), []
    offset = 0
    for number, text in enumerate(texts, 1):
        made = formatter.format([RawBuffer(0, number, text, offset)]).batches
        found += [batch for batch in order.add(made) if batch.rows.num_rows or batch.bad]
        offset += len(text)
    return found


@given(
    lines=st.lists(st.sampled_from(["1", "22", "x", "", "4444"]), max_size=30),
    cut=st.integers(0, 30),
    data=st.data(),
)
def test_it_is_the_array_that_it_stands_for(lines: list[str], cut: int, data: st.DataObject) -> None:
    """Whatever is joined, sliced and chosen; a place at the end of a batch may be behind what nobody wants there."""
    texts = ["".join(f"{line}\n" for line in part).encode() for part in (lines[:cut], lines[cut:])]
    ends, expected, wanted = RowEnds(()), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for batch in batches(*texts):
        ends = ends + RowEnds.of(batch)
        expected = np.concatenate([expected, batch.row_ends])
        wanted = np.concatenate([wanted, batch.tuple_numbers])
    for _ in range(data.draw(st.integers(0, 4))):
        if data.draw(st.booleans()):
            start, stop = data.draw(st.integers(-3, 33)), data.draw(st.integers(-3, 33))
            ends, expected, wanted = ends[start:stop], expected[start:stop], wanted[start:stop]
        else:
            mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(ends), max_size=len(ends))), np.bool_)
            ends, expected, wanted = ends[mask], expected[mask], wanted[mask]
    assert len(ends) == len(expected)
    assert np.asarray(ends).tolist() == expected.tolist()
    stream = b"".join(texts)
    for index in range(len(ends)):
        assert stream[expected[index] : ends[index]].strip() == b"", "only empty tuples in between"
        assert ends[index - len(ends)] == ends[index]
    if len(ends):
        assert ends.tuple_count() == wanted[-1] + 1


def test_a_batch_that_is_taken_whole_is_not_counted_through() -> None:
    (batch,) = batches(b"1\n2\n3\n")
    ends = RowEnds.of(batch)
    assert (ends[-1], ends[1:][-1], ends.tuple_count()) == (6, 6, 3)
    assert "row_ends" not in vars(batch)
    assert ends[0] == 2
    assert "row_ends" in vars(batch)


def test_it_takes_no_steps_and_no_rows_beyond_its_end() -> None:
    ends = RowEnds.of(batches(b"1\n2\n")[0])
    with pytest.raises(IndexError, match="expected neighbouring rows, was every 2th"):
        ends[::2]
    with pytest.raises(IndexError, match="expected a row below 2, was 2"):
        ends[2]
    with pytest.raises(IndexError, match="expected a mask of 2 rows, was one of 1"):
        ends[np.ones(1, np.bool_)]
    assert RowEnds(()).tuple_count() == 0
