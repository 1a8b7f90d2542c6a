"""The view program: output of the compiler, and only input of an executor.

A program is data, never code. It is stored in the epoch log as MessagePack, and each process that executes the program
loads it from there. The parts of a program are *maps* (keyed aggregates over one relation, maintained by adding up
deltas) and *views* that read maps.

Numbers are exact. Integer expressions are evaluated on scaled integers: ``scale`` is the number of decimal digits of a
column after the point (value = integer / 10**scale). The compiler brings all operands of a sum or comparison to one
scale, so that an executor only adds, subtracts and multiplies integers.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from runtime.plan.algebra import Column, Map, Relation
from runtime.plan.body import Joined, Linear, Reevaluated, Selected
from runtime.plan.flow import Flow

__all__ = [
    "FORMAT_VERSION",
    "DerivedInput",
    "DerivedStream",
    "Lane",
    "Program",
    "View",
    "ViewBody",
    "ViewClass",
    "decode_program",
    "encode_program",
]


class DerivedInput(msgspec.Struct, frozen=True):
    """A relation that a derived stream reads."""

    relation: Relation
    """Name of the relation, and the columns that the stream may use."""
    time: str = ""
    """Name of the relation's time column; empty for a table: its rows change and are looked up."""

    @property
    def is_table(self) -> bool:
        """True if the rows of the relation are looked up, not streamed."""
        return not self.time


class DerivedStream(msgspec.Struct, frozen=True):
    """A derived stream of a catalogue."""

    name: str
    """Name in lower case, which no view and no other relation has."""
    sql: str
    """The SELECT as it was written."""
    columns: tuple[Column, ...]
    """Columns of its rows."""
    time: str
    """Name of the column with the time of a row."""
    inputs: tuple[DerivedInput, ...]
    """Relations that the stream reads; derived streams among these precede the stream in the program."""
    retain_rows: int
    """Number of newest rows that are retained."""
    retain_ns: int
    """Greatest age of a retained row, in nanoseconds before the newest row."""
    lateness_ns: int = 0
    """Longest time in nanoseconds by which a row may be behind the watermark."""
    home: int = 0
    """Unique number among the streams of the catalogue, in the order of their creation."""

    @property
    def relation(self) -> Relation:
        """Relation that views and other streams read."""
        return Relation(self.name, self.columns)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(each.relation.name for each in self.inputs)


FORMAT_VERSION: Final = 3
"""Format of the programs that this version writes."""
_OLDEST_FORMAT: Final = 2
"""Oldest format that can be read. Its programs lack `View.on_spark`: Spark maintains none of their express views."""

ViewBody = Linear | Joined | Selected | Flow | Reevaluated
ViewClass = Literal["linear", "multilinear", "ordered", "reevaluated", "stream"]
"""Cost class of a batch; a derived stream that is shown as a view has the class ``stream``."""
Lane = Literal["spark", "express", "stream"]
"""Lane of a view: Spark updates views epoch by epoch, the express lane updates them message by message.

A derived stream that is shown as a view has the lane ``stream``: its rows are emitted at the end of an epoch.
"""


class View(msgspec.Struct, frozen=True):
    """A continuous query."""

    name: str
    """Name in lower case, unique in the program."""
    columns: tuple[Column, ...]
    """Columns of a result row."""
    body: ViewBody
    """Plan by which the view is kept up to date."""
    view_class: ViewClass
    """Cost class of a batch."""
    reason: str
    """Reason for the class, for `explain`."""
    sql: str
    """The SELECT as it was written, for people; never executed."""
    ordered: bool = False
    """True if the SELECT has an ORDER BY. Rows are stored without an order; code that prints the rows sorts them."""
    home: int = 0
    """Number that never changes; modulo the number of shards, it is the shard of a view that is in one shard."""
    lane: Lane = "spark"
    """Lane whose versions subscribers and cursors read; it never changes."""
    on_spark: bool = False
    """True if Spark also maintains this view of the express lane; Spark's version is then the authoritative one."""
    readers: tuple[str, ...] = ()
    """Readers named in the request for the view. The view uses only relations of these readers, and no such reader can
    be removed while the view exists.
    """
    reads: tuple[str, ...] = ()
    """The relations and views that the SELECT names, in the order of its text; empty in records of earlier versions."""


class Program(msgspec.Struct, frozen=True):
    """Everything that executors of one catalogue of views need."""

    relations: tuple[Relation, ...]
    """The relations that the maps read."""
    maps: tuple[Map, ...]
    """Maps by id: ``maps[i].id == i``."""
    views: tuple[View, ...]
    """Views in the order of their definition."""
    mode: Literal["sql", "dbtoaster"] = "sql"
    """Dialect, which determines the value of SUM over no rows: NULL in ``sql``, 0 in ``dbtoaster``."""
    format_version: int = FORMAT_VERSION
    """Format of this record."""
    streams: tuple[DerivedStream, ...] = ()
    """Derived streams; each stream follows the streams that it reads."""
    dropped_streams: tuple[Relation, ...] = ()
    """Relations of dropped derived streams. The log still has their rows, so a new stream with the name of a dropped
    one must have the same columns.
    """


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Program)


def encode_program(program: Program) -> bytes:
    """Encode the program as MessagePack; equal programs have equal bytes."""
    return _encoder.encode(program)


def decode_program(data: bytes) -> Program:
    """Decode a program; raise `ValueError` for bytes that are not a program, or for an unknown format."""
    program = _decoder.decode(data)
    if not _OLDEST_FORMAT <= program.format_version <= FORMAT_VERSION:
        raise ValueError(
            f"expected a view program of format {_OLDEST_FORMAT} to {FORMAT_VERSION}, was {program.format_version}"
        )
    return msgspec.structs.replace(program, format_version=FORMAT_VERSION)
