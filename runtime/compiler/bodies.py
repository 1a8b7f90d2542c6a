"""How a view is kept: the five forms that a body can have, with their parts."""

from __future__ import annotations

from typing import Literal

import msgspec

from runtime.compiler.algebra import Column, ColumnType, Expr

__all__ = [
    "Aggregate",
    "Auxiliary",
    "Branch",
    "DistinctNode",
    "Factor",
    "Flow",
    "GroupNode",
    "Input",
    "JoinNode",
    "Joined",
    "Linear",
    "Lookup",
    "Nested",
    "Node",
    "Occurrence",
    "Range",
    "Reevaluated",
    "ScanNode",
    "SelectNode",
    "Selected",
    "SemiNode",
    "SetNode",
    "Statement",
    "Term",
    "TopNode",
    "UnionNode",
]


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
    having: Expr | None = None
    """Over the same as ``outputs``; a group for which it is not true has no row."""


class Linear(msgspec.Struct, frozen=True, tag="linear"):
    """SUM, COUNT, AVG over select-project-group-by of one relation, or a UNION ALL of such."""

    branches: tuple[Branch, ...]
    """At least one."""


class Range(msgspec.Struct, frozen=True):
    """An interval of an ordered key, counted ``sign`` times; a bound that is None is open."""

    sign: int
    """1 or -1: a disjunction of intervals is their sum less their overlaps."""
    low: Expr | None = None
    """Integer, over bound columns."""
    low_strict: bool = False
    """True: the key is greater than the bound; False: or equal."""
    high: Expr | None = None
    """Integer, over bound columns."""
    high_strict: bool = False
    """True: the key is less than the bound; False: or equal."""


class Lookup(msgspec.Struct, frozen=True):
    """What a statement reads of another map, for each of its rows.

    Without ``binds``: one row per row, the sums over all keys that match (the row goes if no key does). With them: one
    row for every key that matches (fan-out). The read sums and weight become bound columns ``name.sum``.
    """

    name: str
    """Prefix of what it binds; the alias of an occurrence, or the name of an auxiliary map."""
    source: int
    """Number of a base map, or of an auxiliary map of the view."""
    auxiliary: bool
    """Which of the two."""
    on: tuple[tuple[str, str], ...]
    """(key of the map, bound column) pairs that are equal; NULL equals nothing."""
    binds: tuple[str, ...] = ()
    """Keys of the map that become bound columns ``name.key``; all keys that are not in ``on``, or none."""
    ordered: str | None = None
    """The key that ``ranges`` are about; then every other key is in ``on``, and ``binds`` is empty."""
    ranges: tuple[Range, ...] = ()
    """Which part of the ordered key counts; none: all of it."""


class Term(msgspec.Struct, frozen=True):
    """``factor × Π columns``, integers."""

    factor: int
    """Constant."""
    columns: tuple[str, ...]
    """Bound columns: ``alias.sum``, ``alias.weight``, or a numeric ``alias.key``."""


class Statement(msgspec.Struct, frozen=True):
    """What a delta of one occurrence does to an auxiliary map: look up, multiply, add up by key."""

    occurrence: str
    """Alias whose delta triggers it; its keys, sums and weight are bound as ``alias.name``."""
    lookups: tuple[Lookup, ...]
    """In order; a later one may use what an earlier one bound."""
    where: Expr | None
    """Further condition over bound columns."""
    keys: tuple[str, ...]
    """Bound columns that give the auxiliary map's keys, in its order."""
    weight: Term
    """The rows' weight: the product of the weights of all that was joined."""
    sums: tuple[tuple[Term, ...], ...]
    """One sum of terms per sum of the auxiliary map."""


class Occurrence(msgspec.Struct, frozen=True):
    """A base map in FROM; the same one may occur more than once."""

    alias: str
    """Unique in the view."""
    map: int
    """The base map."""


class Auxiliary(msgspec.Struct, frozen=True):
    """A map of a join of some of the occurrences, kept by statements."""

    name: str
    """Unique in the view."""
    covers: tuple[str, ...]
    """Aliases that are joined in it."""
    keys: tuple[tuple[str, ColumnType], ...]
    """Names and types; a NULL is a key like any other."""
    sums: tuple[str, ...]
    """Names of its sums; it has a weight besides."""
    statements: tuple[Statement, ...]
    """One per occurrence it covers, where a delta of it changes the map."""


class Joined(msgspec.Struct, frozen=True, tag="joined"):
    """Sums over a join of maps, by equality and ranges, kept by higher-order deltas.

    Occurrences are processed one after the other, in their order: all statements of an occurrence read the state in
    which the earlier occurrences are new and it and the later ones old; then its delta is applied to its base map and
    to the auxiliary maps. The last auxiliary map is the result that ``branches`` read.
    """

    occurrences: tuple[Occurrence, ...]
    """At least two; two of one base map follow one another, and no base map occurs three times."""
    auxiliaries: tuple[Auxiliary, ...]
    """The last one is the result."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over the result's keys, sums and ``weight``."""
    having: Expr | None = None
    """Over the same; groups for which it is not true have no row."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """Without GROUP BY: the row while no row is in the group."""
    partition: tuple[str, ...] = ()
    """Per occurrence, the key whose equal values always meet, and which the result has: the view is sharded by it."""


class Nested(msgspec.Struct, frozen=True):
    """An aggregate over the part of a map on one side of a value of the ordered key; no keys but that one."""

    name: str
    """Binds ``name.sum`` and ``name.weight`` in conditions; a sum over no rows (weight 0) is NULL (0 in dbtoaster)."""
    map: int
    """Base map whose only key is ``ordered``."""
    ordered: str
    """That key."""
    compare: Literal["lt", "le", "gt", "ge"]
    """Keys of the map that count: ``key compare value``."""
    value: Expr
    """Over the factor's ordered key (``alias.key``), strictly growing in it: the key itself, or plus a constant."""


class Factor(msgspec.Struct, frozen=True):
    """A relation of a selected view: groups × an ordered key, restricted by conditions on that key."""

    alias: str
    """Binds ``alias.key``, ``alias.sum``, ``alias.weight``."""
    map: int
    """Base map; its keys are the group keys and ``ordered``."""
    ordered: str | None
    """The key that the conditions are about (None: no condition)."""
    nested: tuple[Nested, ...]
    """What the conditions read besides scalars."""
    conditions: tuple[Expr, ...]
    """Three-valued, over ``alias.ordered``, nested sums, and scalars ``mN.sum`` / ``mN.weight`` of keyless base maps
    N, in exact integers (NULL where there is nothing); a value of the ordered key is selected if all are true."""
    monotone: bool
    """Whether each condition is true in one interval of the key, if no weight or sum of a key of the nested maps is
    negative: where one of its nested sums is NULL (in mode sql: below or above all keys of the nested map) it is not
    true, and everywhere else, which is one interval too, it changes its truth at most once along the key."""


class Selected(msgspec.Struct, frozen=True, tag="selected"):
    """Sums over the product of relations of which conditions on aggregates select a part (as VWAP, MST and PSP do).

    Evaluated anew at each version from ordered indexes: per factor the range of its ordered key that is selected, then
    each group's sums in that range, then the product over the factors.
    """

    factors: tuple[Factor, ...]
    """At least one; joined by nothing but their product."""
    scalars: tuple[int, ...]
    """Keyless base maps that conditions read."""
    keys: tuple[str, ...]
    """Group keys ``alias.key``; every key of every factor that is not its ordered one."""
    sums: tuple[tuple[str, tuple[Term, ...]], ...]
    """Named sums over ``alias.sum`` and ``alias.weight``, one of each factor in every term."""
    outputs: tuple[Expr, ...]
    """One per column of the view, over ``keys``, the names of ``sums``, and ``weight``."""
    having: Expr | None = None
    """As in `Joined`."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """As in `Joined`."""


class ScanNode(msgspec.Struct, frozen=True, tag="scan"):
    """The rows of a base map: its keys as columns, ``weight`` equal rows each."""

    map: int
    """The base map; it has no sums."""


class SelectNode(msgspec.Struct, frozen=True, tag="select"):
    """Filter and project."""

    input: int
    """Number of an earlier node."""
    where: Expr | None
    """Rows for which it is true stay."""
    columns: tuple[Column, ...]
    """What comes out."""
    outputs: tuple[Expr, ...]
    """One per column."""


class JoinNode(msgspec.Struct, frozen=True, tag="join"):
    """Inner join by equality (by nothing: the product); columns are the left ones, then the right ones."""

    left: int
    """Number of an earlier node."""
    right: int
    """Number of an earlier node; names of columns of the two differ."""
    on: tuple[tuple[str, str], ...]
    """(left column, right column); NULL equals nothing."""


class SemiNode(msgspec.Struct, frozen=True, tag="semi"):
    """Left rows that have a match on the right, or (anti) that have none; NULL matches nothing."""

    left: int
    """Number of an earlier node."""
    right: int
    """Number of an earlier node."""
    on: tuple[tuple[str, str], ...]
    """(left column, right column)."""
    anti: bool
    """Which of the two."""


class Aggregate(msgspec.Struct, frozen=True):
    """One aggregate of a `GroupNode`, over a column of its input; NULLs are left out."""

    name: str
    """Its column."""
    kind: Literal["count_rows", "count", "sum", "min", "max", "count_distinct", "sum_distinct"]
    """``sum`` of integers only, NULL (in dbtoaster mode: NULL or 0) over nothing; min and max: NULL over nothing."""
    column: str | None
    """None for count_rows."""
    type: ColumnType
    """Of the result."""


class GroupNode(msgspec.Struct, frozen=True, tag="group"):
    """Aggregates by key: the keys, then the aggregates; with no keys always one row."""

    input: int
    """Number of an earlier node."""
    keys: tuple[str, ...]
    """Columns; NULL is a key like any other."""
    aggregates: tuple[Aggregate, ...]
    """Perhaps none."""


class DistinctNode(msgspec.Struct, frozen=True, tag="distinct"):
    """Every row once."""

    input: int
    """Number of an earlier node."""


class UnionNode(msgspec.Struct, frozen=True, tag="union"):
    """The rows of all inputs; columns have the names of the first and equal types."""

    inputs: tuple[int, ...]
    """Numbers of earlier nodes."""


class SetNode(msgspec.Struct, frozen=True, tag="set"):
    """EXCEPT or INTERSECT; NULLs are equal here."""

    left: int
    """Number of an earlier node."""
    right: int
    """Number of an earlier node; columns match by position."""
    kind: Literal["except", "except_all", "intersect", "intersect_all"]
    """Which."""


class TopNode(msgspec.Struct, frozen=True, tag="top"):
    """ORDER BY … LIMIT … OFFSET; ties are broken by all columns in their order, ascending, NULLs last."""

    input: int
    """Number of an earlier node."""
    order: tuple[tuple[str, bool, bool], ...]
    """(column, descending, NULLs first)."""
    limit: int | None
    """Rows kept."""
    offset: int = 0
    """Rows passed over."""


Node = (
    ScanNode | SelectNode | JoinNode | SemiNode | GroupNode | DistinctNode | UnionNode | SetNode | TopNode
)  # fmt: skip


class Flow(msgspec.Struct, frozen=True, tag="flow"):
    """A graph of incremental operators; every node turns changes of its inputs into changes of its rows."""

    nodes: tuple[Node, ...]
    """Each reads earlier ones only; the last one's columns are the view's."""


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
