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
    """Its time column; empty for a table, whose rows come and go and are looked up."""

    @property
    def is_table(self) -> bool:
        """True if its rows are looked up, and not streamed."""
        return not self.time


class DerivedStream(msgspec.Struct, frozen=True):
    """A derived stream of a catalogue."""

    name: str
    """Lower case; no view and no other relation has it."""
    sql: str
    """The SELECT as it was written."""
    columns: tuple[Column, ...]
    """Columns of its rows."""
    time: str
    """The column with the time of a row."""
    inputs: tuple[DerivedInput, ...]
    """The relations that it reads; derived streams among them stand before it in the program."""
    retain_rows: int
    """Number of rows that are retained, the newest."""
    retain_ns: int
    """Greatest age of a retained row, against the newest row."""
    lateness_ns: int = 0
    """Greatest time by which a row may come later than the watermark."""
    home: int = 0
    """Unique number among the streams of the catalogue, in the order of their creation."""

    @property
    def relation(self) -> Relation:
        """The relation that views and other streams read."""
        return Relation(self.name, self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of its inputs."""
        return tuple(each.relation.name for each in self.inputs)
