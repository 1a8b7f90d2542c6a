"""Checks of a formatter's batches: for any file, for a valid file, and against a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.formats import RawBuffer
from tests.conformance.formats.drive import COUNTS, Outcome
from tests.conformance.formats.sample import Expected

__all__ = ["check_chain", "check_same", "check_spans", "check_valid"]


def _same(what: str, expected: Any, was: Any) -> None:
    """Check that two values are equal; the error names their first difference."""
    if expected == was:
        return
    if isinstance(expected, list) and isinstance(was, list):
        pairs = zip(expected, was, strict=False)
        at = next((n for n, (left, right) in enumerate(pairs) if left != right), min(len(expected), len(was)))
        raise AssertionError(
            f"expected {len(expected)} {what}, was {len(was)}; the first difference is at {at}:\n"
            f"  expected {expected[at : at + 2]!r}\n  was      {was[at : at + 2]!r}"
        )
    raise AssertionError(f"expected {what} {expected!r}, was {was!r}")


def check_chain(outcome: Outcome, length: int, start: int = 0) -> None:
    """Check that places, offsets and numbers are consecutive and end where the stream ends."""
    place, offset, number = 0, start, 0
    for batch in outcome.batches:
        where = f"in the batch {batch.from_place} to {batch.to_place}"
        _same(f"from_place {where}", place, batch.from_place)
        assert batch.to_place > batch.from_place, f"expected a later place {where}, was {batch.to_place}"
        _same(f"offset {where}", offset, batch.offset)
        _same(f"first tuple {where}", number, batch.first_tuple)
        _same(f"end_offset {where}", batch.offset + batch.length, batch.end_offset)
        if batch.failure is None:
            counted = batch.rows.num_rows + batch.bad + batch.filtered
            _same(f"rows, bad and filtered tuples {where}", batch.tuples, counted)
        ends, numbers = batch.row_ends.tolist(), batch.tuple_numbers.tolist()
        for what, values, low, high in (
            ("row_ends", ends, batch.offset + 1, batch.end_offset),
            ("tuple_numbers", numbers, number, number + batch.tuples - 1),
        ):
            _same(f"{what} {where}", batch.rows.num_rows, len(values))
            assert values == sorted(set(values)), f"expected rising {what} {where}, was {values}"
            assert not values or low <= values[0] <= values[-1] <= high, (
                f"expected {what} from {low} to {high} {where}, was {values[0]} to {values[-1]}"
            )
        place, offset, number = batch.to_place, batch.end_offset, number + batch.tuples
    if outcome.failure is None and (outcome.batches or length > start):
        _same("the end of the last batch", length, offset)


def check_spans(outcome: Outcome, raws: Sequence[RawBuffer]) -> None:
    """Check that spans are contiguous, and that each batch ends within the last raw buffer of its span.

    ``raws`` are in stream order, with numbers that do not wrap. The first raw buffer of a span is less exact, since
    adjacent buffers that were formatted together count as one buffer with the last number.
    """
    stops = {raw.sequence_number: raw.offset + len(raw.data) for raw in raws}
    stops[0] = raws[0].offset if raws else 0
    reached = 0
    for batch in outcome.batches:
        span = f"{batch.first_sequence} to {batch.last_sequence}"
        assert reached <= batch.last_sequence >= batch.first_sequence, f"expected a span after {reached}, was {span}"
        assert batch.first_sequence <= reached + 1, f"expected a span from {reached} on, was {span}"
        reached = batch.last_sequence
        assert batch.end_offset <= stops[batch.last_sequence], (
            f"expected the end of {span} at {stops[batch.last_sequence]} at most, was {batch.end_offset}"
        )


def check_valid(outcome: Outcome, expected: Expected) -> None:
    """Check that the rows are those that the library read, that no tuple is bad, and that each row has its end."""
    _same("dead letters", [], [str(letter) for letter in outcome.letters[:3]])
    _same("a failure", None, outcome.failure)
    _same("rows", expected.rows, outcome.rows)
    _same("row ends", expected.ends, outcome.ends)
    _same("tuple numbers", expected.numbers, outcome.numbers)
    _same("tuples", expected.tuples, outcome.total("tuples"))
    _same("bad tuples", 0, outcome.total("bad"))
    _same("values made NULL", 0, outcome.total("nulled"))
    _same("filtered tuples", expected.tuples - len(expected.rows), outcome.total("filtered"))


def check_same(outcome: Outcome, reference: Outcome) -> None:
    """Check that rows, places, counts and dead letters equal those of a reference with other cuts, order or workers."""
    _same("rows", reference.rows, outcome.rows)
    _same("row ends", reference.ends, outcome.ends)
    _same("tuple numbers", reference.numbers, outcome.numbers)
    for count in COUNTS:
        _same(count, reference.total(count), outcome.total(count))
    _same("dead letters", *[[_letter(letter) for letter in side.letters] for side in (reference, outcome)])
    _same("a failure", _letter(reference.failure), _letter(outcome.failure))


def _letter(letter: Any) -> Any:
    """Return the parts of a dead letter that do not depend on the cuts."""
    if letter is None:
        return None
    return (letter.row, letter.byte_offset, letter.field, letter.expected, letter.reason, letter.data)
