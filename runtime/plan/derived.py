"""Derived streams: append-only relations that a SELECT computes from other streams and from tables."""

from __future__ import annotations

import msgspec

from runtime.plan.algebra import Column, Relation

__all__ = ["DerivedInput", "DerivedStream"]


class DerivedInput(msgspec.Struct, frozen=True):
    """A relation that a derived stream reads."""

    relation: Relation
    """Its name and the columns that the stream may use."""
    time: str = ""
    """Its time column; empty: it is a table, whose rows come and go and are looked up."""

    @property
    def is_table(self) -> bool:
        """Whether its rows are looked up, and not streamed."""
        return not self.time


class DerivedStream(msgspec.Struct, frozen=True):
    """A derived stream of a catalogue."""

    name: str
    """Lower case; no view and no other relation has it."""
    sql: str
    """The SELECT as it was written."""
    columns: tuple[Column, ...]
    """What its rows look like."""
    time: str
    """The column that says when a row is of."""
    inputs: tuple[DerivedInput, ...]
    """The relations that it reads; of derived streams only those that stand before it in the program."""
    retain_rows: int
    """At most so many rows stay, the newest."""
    retain_ns: int
    """No row stays that is older than this against the newest."""
    lateness_ns: int = 0
    """How much later than the watermark a row may come."""
    home: int = 0
    """A number of its own among the streams of the catalogue; the order in which they came to be."""

    @property
    def relation(self) -> Relation:
        """What views and other streams see of it."""
        return Relation(self.name, self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return tuple(each.relation.name for each in self.inputs)
