"""Base class of operators, which take and yield batches and advance event time at every barrier; and their errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from runtime.engine.errors import EngineError

__all__ = [
    "ENDED",
    "MOST_HELD",
    "MOST_ROWS",
    "Batches",
    "HeldTooMuchError",
    "Operator",
    "OperatorError",
    "OtherPlanError",
    "pieces",
]


class OperatorError(EngineError):
    """Error of an operator that cannot continue; the message has the expected and the actual value."""


class HeldTooMuchError(OperatorError):
    """Error of a query that would have to hold more rows than it may; rows are held in memory only."""


class OtherPlanError(OperatorError):
    """Error of a query whose state was saved by operators of another plan."""


Batches = Iterator[pa.RecordBatch]
"""Output batches of a call: made lazily, each of at most `Operator.most_rows` rows, never empty."""

ENDED: Final = 2**63 - 1
"""Watermark of an input that has ended: every time has passed."""
MOST_ROWS: Final = 1 << 16
"""Greatest number of rows in an output batch, by default."""
MOST_HELD: Final = 1 << 23
"""Greatest number of rows that a query may hold, by default."""


class Operator(ABC):
    """Operator of a plan.

    Every call returns an iterator of output batches. The iterator is lazy: each batch is made when it is taken, so that
    the output of input that expands a thousandfold is never held as a whole. The caller exhausts the iterator before
    the next call. An operator is owned by one caller at a time and has no locks.

    Operators that read one row at a time (filter, project, unnest, windows) take rows as they arrive. All others take
    rows in order of event time, then arrival, after the watermark has passed them; `advance` follows at each barrier.
    So their output depends on the rows and their order alone, not on where epochs are cut. Their state is in the object
    space.
    """

    ports: int = 1
    """Number of inputs; they are numbered from 0."""
    keeps: str = ""
    """Description, for people, of the state that stays across barriers; empty if there is none."""
    holds_state: bool = False
    """True if the held rows are compared with later rows; False if they only wait to be yielded."""
    drops: tuple[bool, ...] = ()
    """Flag of each port: True if its rows are useless once every other input has ended and holds no row."""
    most_rows: int = MOST_ROWS
    """Greatest number of rows in an output batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        """Schema of the output."""

    @abstractmethod
    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        """Add rows of an input and return output; raise `OperatorError` for rows that the operator cannot take."""

    def advance(self, bound: int) -> Batches:
        """Return the output that is complete after every row earlier than ``bound`` of each input has been added.

        The operator's state is in the object space when the iterator is exhausted.
        """
        return iter(())

    def watermark(self, bound: int) -> int:
        """Return the time before which there will be no output row after a call of `advance` with this bound."""
        return bound

    def held_rows(self) -> int:
        """Return the number of rows, keys or groups that are held."""
        return 0


def pieces(batch: pa.RecordBatch, most: int) -> Batches:
    """Yield the batch in slices of at most ``most`` rows; nothing for an empty batch."""
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most)
