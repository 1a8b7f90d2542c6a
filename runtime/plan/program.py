"""The view program: what the compiler makes of SQL, and all that an executor ever sees of it.

A program is data, never code: it is stored in the epoch log as MessagePack and loaded by whatever hosts it. Its parts
are *maps* (keyed aggregates over one relation, maintained by adding up deltas) and *views* that read maps.

Numbers are exact. An integer expression is evaluated on scaled integers: the compiler brings every operand of a sum or
comparison to one scale, so that an executor only adds, subtracts and multiplies integers; ``scale`` says how many
decimal digits of a column lie behind the point (value = integer / 10**scale).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from runtime.plan.algebra import Column, Map, Relation
from runtime.plan.body import Joined, Linear, Reevaluated, Selected
from runtime.plan.derived import DerivedStream
from runtime.plan.flow import Flow

__all__ = ["FORMAT_VERSION", "Lane", "Program", "View", "ViewBody", "ViewClass", "decode_program", "encode_program"]

FORMAT_VERSION: Final = 3
_OLDEST_FORMAT: Final = 2
"""Programs of that format have no `View.on_spark`: their express views are kept by the express lane alone."""

ViewBody = Linear | Joined | Selected | Flow | Reevaluated
ViewClass = Literal["linear", "multilinear", "ordered", "reevaluated", "stream"]
"""What a batch costs; ``stream`` is said of a derived stream that is shown as if it were a view."""
Lane = Literal["spark", "express", "stream"]
"""Spark, version by version, or the in-process engine, message by message. The rows of derived streams, which come at
the end of an epoch, are of the lane ``stream``."""


class View(msgspec.Struct, frozen=True):
    """A continuous query."""

    name: str
    """Lower case, unique in the program."""
    columns: tuple[Column, ...]
    """What a result row looks like."""
    body: ViewBody
    """How it is kept up to date."""
    view_class: ViewClass
    """What a batch costs: see `runtime.compiler`."""
    reason: str
    """Why it is in this class, for `explain`."""
    sql: str
    """The SELECT as it was written, for people; never executed."""
    ordered: bool = False
    """True where the SELECT has an ORDER BY (the rows are kept as a set; a printer sorts them)."""
    home: int = 0
    """Which shard has the view if it is not spread: this modulo their number; it never changes in a view's life."""
    lane: Lane = "spark"
    """The lane whose versions subscribers and cursors read; it never changes in a view's life."""
    on_spark: bool = False
    """Of a view of the express lane: Spark keeps it as well, and its version is the one of record."""
    readers: tuple[str, ...] = ()
    """The readers of a running runtime that it names: it uses no other's relations, and they stay while it is there."""
    reads: tuple[str, ...] = ()
    """The relations and views that its SELECT names, in the order of the text; none in records of earlier versions."""


class Program(msgspec.Struct, frozen=True):
    """Everything that executors of one catalogue of views need."""

    relations: tuple[Relation, ...]
    """The relations that the maps read."""
    maps: tuple[Map, ...]
    """By id: ``maps[i].id == i``."""
    views: tuple[View, ...]
    """In the order of their definition."""
    mode: Literal["sql", "dbtoaster"] = "sql"
    """What SUM of nothing is: NULL, or 0."""
    format_version: int = FORMAT_VERSION
    """Of this record."""
    streams: tuple[DerivedStream, ...] = ()
    """Derived streams; each stands behind those that it reads."""
    dropped_streams: tuple[Relation, ...] = ()
    """Relations of derived streams that are no more: the log has rows of them, so their columns are theirs for good."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Program)


def encode_program(program: Program) -> bytes:
    """The program as MessagePack; equal programs give equal bytes."""
    return _encoder.encode(program)


def decode_program(data: bytes) -> Program:
    """The program of these bytes; raises `ValueError` for a format that this release cannot read or anything else."""
    program = _decoder.decode(data)
    if not _OLDEST_FORMAT <= program.format_version <= FORMAT_VERSION:
        raise ValueError(
            f"expected a view program of format {_OLDEST_FORMAT} to {FORMAT_VERSION}, was {program.format_version}"
        )
    return msgspec.structs.replace(program, format_version=FORMAT_VERSION)
