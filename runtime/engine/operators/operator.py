"""What an operator is: batches in, batches out, and a drain at every barrier."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

__all__ = ["MOST_ROWS", "Batches", "Operator", "pieces"]

Batches = Iterator[pa.RecordBatch]
"""What a call gives out: lazily made, each of at most `Operator.most_rows` rows, never empty."""

MOST_ROWS: Final = 1 << 16
"""Rows of an output batch at most, where nothing else is said."""


class Operator(ABC):
    """One operator of a plan.

    Every call gives an iterator of output batches. It is lazy: output is made as it is taken, so that a batch that
    expands a thousandfold is never held as a whole. Whoever calls takes all of it before the next call; only what
    `add_input` gives may be closed early, where nothing downstream wants more. An operator is owned by one caller at a
    time and has no locks.

    The calls of one epoch are `add_input` in any number, `drain_input` at most once per port when nothing more comes on
    that port before the barrier, and `start_drain` once when that holds for all ports: then everything held is given
    out and the operator is as new, except for what it `keeps`. So output is never merged across a barrier.
    `end_of_input` is `drain_input` for ever; when it was called for every port, nothing is held any more.
    """

    ports: int = 1
    """How many inputs it has; they are numbered from 0."""
    cannot_drain: str = ""
    """Why a barrier is refused by a plan with this operator; empty: it can drain."""
    keeps: str = ""
    """What it keeps over a barrier, in words; empty: nothing. What is kept lies in the object space."""
    most_rows: int = MOST_ROWS
    """Rows of an output batch at most."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        """Of the output."""

    @abstractmethod
    def add_input(self, batch: pa.RecordBatch, port: int = 0) -> Batches:
        """Rows of an input; raises `OperatorError` for rows that the operator cannot take."""

    def drain_input(self, port: int = 0) -> Batches:
        """Nothing more comes on this port before the barrier."""
        return iter(())

    def start_drain(self) -> Batches:
        """A barrier: everything that is held; the operator starts afresh. What it keeps is in the object space now."""
        return iter(())

    def end_of_input(self, port: int = 0) -> Batches:
        """Nothing more ever comes on this port; after the last one, nothing is held."""
        return iter(())

    def drops_input(self, port: int = 0) -> bool:
        """Whether rows of this port cannot change the output any more before the next barrier."""
        return False

    def held_rows(self) -> int:
        """How many rows are held for later output."""
        return 0


def pieces(batch: pa.RecordBatch, most: int) -> Batches:
    """The batch in slices of at most so many rows; nothing for an empty one."""
    for start in range(0, batch.num_rows, most):
        yield batch.slice(start, most)
