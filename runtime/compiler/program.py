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

__all__ = [
    "FORMAT_VERSION",
    "Branch",
    "Call",
    "Col",
    "Column",
    "ColumnType",
    "Expr",
    "Input",
    "Key",
    "Linear",
    "Lit",
    "Map",
    "Program",
    "Reevaluated",
    "Relation",
    "Sum",
    "View",
    "decode_program",
    "encode_program",
]

FORMAT_VERSION: Final = 1

ColumnType = Literal["int64", "int128", "float64", "string", "bool", "date", "timestamp"]
"""int128 travels as Arrow decimal128(38, 0): SUMs and products, which can pass int64."""


class Column(msgspec.Struct, frozen=True):
    """A column of a relation or of a view."""

    name: str
    """Lower case."""
    type: ColumnType
    """See `ColumnType`."""
    nullable: bool = False
    """Whether NULL may stand in it."""
    scale: int = 0
    """Integers only: digits behind the decimal point."""


class Relation(msgspec.Struct, frozen=True):
    """A named multiset of rows that changes by deltas."""

    name: str
    """Lower case."""
    columns: tuple[Column, ...]
    """In the order of its deltas."""
    grows: bool = False
    """True where rows are only added and no retention takes them away again."""


class Col(msgspec.Struct, frozen=True, tag="col"):
    """The value of a column (of a relation in a map; of a map in a view)."""

    name: str
    """Column, key, sum, or ``weight`` for the number of rows."""


class Lit(msgspec.Struct, frozen=True, tag="lit"):
    """A constant, already scaled."""

    value: int | float | str | bool | None
    """The constant."""


class Call(msgspec.Struct, frozen=True, tag="call"):
    """An operation.

    ``add sub mul neg`` on integers (exact, widened or refused, never wrapped) or floats; ``eq ne lt le gt ge and or
    not`` with SQL's three-valued logic; ``floordiv mod`` on integers, rounding towards zero as SQL does; ``div`` (only
    in a view's outputs) gives a float64, NULL when the divisor is 0.
    """

    op: Literal[
        "add", "sub", "mul", "neg", "floordiv", "mod", "div", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not"
    ]
    """Which operation."""
    args: tuple[Col | Lit | Call, ...]
    """Its operands."""


Expr = Col | Lit | Call


class Key(msgspec.Struct, frozen=True):
    """One key column of a map."""

    name: str
    """Unique within the map."""
    type: ColumnType
    """Type of the key."""
    expr: Expr
    """Over the relation's columns."""


class Sum(msgspec.Struct, frozen=True):
    """One maintained sum of a map: SUM(weight × expr), exact up to 95 bits or refused with an error."""

    name: str
    """Unique within the map."""
    expr: Expr
    """Over the relation's columns, never NULL, integer."""


class Map(msgspec.Struct, frozen=True):
    """A keyed aggregate over one relation; every map also counts its rows as ``weight``."""

    id: int
    """Number within the program; equal maps of several views are one."""
    relation: str
    """Where its deltas come from."""
    where: Expr | None
    """Only rows for which this is true."""
    keys: tuple[Key, ...]
    """Empty for one global group."""
    sums: tuple[Sum, ...]
    """Empty where only the multiplicity of the keys is wanted."""


class Branch(msgspec.Struct, frozen=True):
    """One SELECT of a linear view (several are a UNION ALL)."""

    map: int
    """The map it reads."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over the map's keys, sums and ``weight``."""
    bag: bool = False
    """True for a SELECT without aggregates: each group stands for ``weight`` equal rows."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """For a SELECT with aggregates and no GROUP BY: its row while no row is in the group."""


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """SUM, COUNT, AVG over select-project-group-by of one relation, or a UNION ALL of such."""

    branches: tuple[Branch, ...]
    """At least one."""


class Input(msgspec.Struct, frozen=True):
    """A table of a re-evaluated query: a map's keys as columns, each group standing for ``weight`` equal rows."""

    table: str
    """Name of the table in the query."""
    map: int
    """The map that fills it."""


class Reevaluated(msgspec.Struct, frozen=True, tag="reevaluated"):
    """Any other SQL: recomputed by DuckDB over maintained maps; the change is the difference to the last result."""

    inputs: tuple[Input, ...]
    """Its tables."""
    query: str
    """DuckDB SQL over them, integers widened; yields the view's columns in order."""


class View(msgspec.Struct, frozen=True):
    """A continuous query."""

    name: str
    """Lower case, unique in the program."""
    columns: tuple[Column, ...]
    """What a result row looks like."""
    body: Linear | Reevaluated
    """How it is kept up to date; the tag is the view's class."""
    reason: str
    """Why it is in this class, for `explain`."""
    sql: str
    """The SELECT as it was written, for people; never executed."""
    ordered: bool = False
    """True where the SELECT has an ORDER BY (the rows are kept as a set; a printer sorts them)."""

    @property
    def view_class(self) -> str:
        """linear or reevaluated."""
        return "linear" if isinstance(self.body, Linear) else "reevaluated"


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


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Program)


def encode_program(program: Program) -> bytes:
    """The program as MessagePack; equal programs give equal bytes."""
    return _encoder.encode(program)


def decode_program(data: bytes) -> Program:
    """The program of these bytes; raises `ValueError` for another format version or anything else."""
    program = _decoder.decode(data)
    if program.format_version != FORMAT_VERSION:
        raise ValueError(f"expected a view program of format {FORMAT_VERSION}, was {program.format_version}")
    return program
