"""Graphs of operators on rows: every operator turns the changes of its inputs into the change of its output."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, Self

import msgspec

from runtime.plan.algebra import EPOCH_TIME, Col, Column, ColumnType, Expr, Key, Map
from runtime.plan.body import Body
from runtime.plan.notation import expression

__all__ = [
    "Aggregate",
    "BoundNode",
    "DistinctNode",
    "Flow",
    "GroupNode",
    "JoinNode",
    "Node",
    "Operator",
    "Quantile",
    "RankingKind",
    "ScanNode",
    "SelectNode",
    "SemiNode",
    "SetNode",
    "TopNode",
    "UnionNode",
    "WindowFunction",
    "WindowNode",
]

Placing = tuple[bool, ...]
"""A flag for each column of a node: true if the value of the column determines the shard of the row."""
Placed = tuple[tuple[str, ...], Placing | None]
"""Names of a node's columns, and the columns' flags; the flags are None if the node needs rows of several shards."""
_EVERYWHERE: Final[Placed] = ((), ())
"""Placement of a node that reads only `EPOCH_TIME`: every shard has all rows of this relation, and of the node."""

_EXACT: Final = frozenset({"int64", "string"})
"""Types in which equal values have equal bits, so that rows with equal values are in one shard."""
_AGGREGATES: Final = {
    "count_rows": "COUNT(*)",
    "count": "COUNT({})",
    "sum": "SUM({})",
    "min": "MIN({})",
    "max": "MAX({})",
    "count_distinct": "COUNT(DISTINCT {})",
    "sum_distinct": "SUM(DISTINCT {})",
    "quantile": "the value of {} at ",
}


class Operator(msgspec.Struct, frozen=True):
    """An operator of a flow; it has the numbers of the earlier operators that it reads."""

    @abstractmethod
    def reads(self) -> tuple[int, ...]:
        """Return the numbers of the nodes that the operator reads."""

    @abstractmethod
    def reading(self, places: Mapping[int, int]) -> Self:
        """Return the same operator, with other numbers of the nodes that it reads."""

    @abstractmethod
    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        """Return the names of the output's columns, and which of them place the output's rows.

        A column places rows if its value determines their shard; ``key`` places the rows of base maps. Every shard can
        run the operator separately if the operator works on single rows, or if one of the columns that it compares
        places rows. ``inputs`` has the results of this method for the nodes that the operator reads, in order.
        """

    @abstractmethod
    def line(self, maps: Sequence[Map]) -> str:
        """Return the line that describes the operator."""


class _Unary(Operator, frozen=True):
    """An operator on one input."""

    input: int
    """Number of an earlier node."""

    def reads(self) -> tuple[int, ...]:
        return (self.input,)

    def reading(self, places: Mapping[int, int]) -> Self:
        return msgspec.structs.replace(self, input=places[self.input])


class _Binary(Operator, frozen=True):
    """An operator on two inputs."""

    left: int
    """Number of an earlier node."""
    right: int
    """Number of an earlier node."""

    def reads(self) -> tuple[int, ...]:
        return (self.left, self.right)

    def reading(self, places: Mapping[int, int]) -> Self:
        return msgspec.structs.replace(self, left=places[self.left], right=places[self.right])


class ScanNode(Operator, frozen=True, tag="scan"):
    """The rows of a base map: its keys are the columns, and each row is repeated ``weight`` times."""

    map: int
    """Number of the base map, which has no sums."""

    def reads(self) -> tuple[int, ...]:
        return ()

    def reading(self, places: Mapping[int, int]) -> Self:
        return self

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        names = tuple(each.name for each in maps[self.map].keys)
        return names, tuple(name == key.name for name in names)

    def line(self, maps: Sequence[Map]) -> str:
        return f"rows of map {self.map}: {', '.join(key.name for key in maps[self.map].keys) or 'no column'}"


class SelectNode(_Unary, frozen=True, tag="select"):
    """Filter and project."""

    where: Expr | None
    """Condition; rows for which it is not true are dropped. None: no row is dropped."""
    columns: tuple[Column, ...]
    """Columns of the output."""
    outputs: tuple[Expr, ...]
    """One expression per column."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        given = _by_name(inputs[0])
        placing = tuple(
            isinstance(output, Col) and given[output.name] and column.type == key.type
            for column, output in zip(self.columns, self.outputs, strict=True)
        )
        return tuple(column.name for column in self.columns), placing

    def line(self, maps: Sequence[Map]) -> str:
        columns = []
        for column, output in zip(self.columns, self.outputs, strict=True):
            text = expression(output)
            columns.append(text if text == column.name else f"{column.name} := {text}")
        where = f" where {expression(self.where)}" if self.where is not None else ""
        return f"{self.input}{where}: {', '.join(columns)}"


class JoinNode(_Binary, frozen=True, tag="join"):
    """Inner join by equality, or the product if ``on`` is empty. The output has the left and then the right columns; no
    name occurs on both sides.
    """

    on: tuple[tuple[str, str], ...]
    """Pairs of a left and a right column; NULL equals nothing."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        (left, left_placing), (right, right_placing) = inputs
        assert left_placing is not None
        assert right_placing is not None
        return (*left, *right), (*left_placing, *right_placing) if _meet(self.on, inputs) else None

    def line(self, maps: Sequence[Map]) -> str:
        return f"{self.left} join {self.right}{_on(self.on)}" if self.on else f"{self.left} times {self.right}"


class SemiNode(_Binary, frozen=True, tag="semi"):
    """Left rows that have a match on the right or, with ``anti``, that have no match; NULL matches nothing."""

    on: tuple[tuple[str, str], ...]
    """Pairs of a left and a right column."""
    anti: bool
    """True to keep the rows without a match."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        names, placing = inputs[0]
        return names, placing if _meet(self.on, inputs) else None

    def line(self, maps: Sequence[Map]) -> str:
        return f"{self.left} {'without' if self.anti else 'with'} a match in {self.right}{_on(self.on)}"


class BoundNode(_Binary, frozen=True, tag="bound"):
    """Left rows whose value is on one side of a bound. The bound is in the only row of the right input.

    A row with a NULL value never passes. If the bound follows from `EPOCH_TIME`, the operator is a temporal filter.
    """

    value: str
    """Column of the left input: an integer of 64 bits, a date or a timestamp."""
    op: Literal["lt", "le", "gt", "ge"]
    """Comparison of the value with the bound; rows for which it is true pass."""
    bound: str
    """Column of the right input, of the same type."""
    rises: bool = False
    """True if the bound never falls; left rows whose value the bound has passed are then dropped from the state."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        names, placing = inputs[0]
        return names, placing if inputs[1] is _EVERYWHERE else None

    def line(self, maps: Sequence[Map]) -> str:
        sign = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}[self.op]
        kept = f", kept from {self.bound} on" if self.rises else ""
        return f"{self.left} where {self.value} {sign} {self.bound} of {self.right}, in the order of {self.value}{kept}"


class Quantile(msgspec.Struct, frozen=True):
    """A place among n values in ascending order, determined by the fraction ``part / whole`` of n or of n - 1."""

    kind: Literal["disc", "floor", "ceil"]
    """Kind of place:

    * ``disc``: the first value for which the number of values up to it is at least the fraction of n.
    * ``floor``, ``ceil``: the value whose number, counted from 0, is the fraction of n - 1, rounded down or up.
    """
    part: int
    """Numerator, at least 0."""
    whole: int
    """Denominator, at least as large as the numerator, and at most a million."""


class Aggregate(msgspec.Struct, frozen=True):
    """One aggregate of a `GroupNode`, over a column of its input; NULLs are ignored."""

    name: str
    """Name of the result's column."""
    kind: Literal["count_rows", "count", "sum", "min", "max", "count_distinct", "sum_distinct", "quantile"]
    """Function. If there are no values, sum, min, max and quantile are NULL; ``sum`` is for integers only."""
    column: str | None
    """Aggregated column; None for count_rows."""
    type: ColumnType
    """Type of the result."""
    quantile: Quantile | None = None
    """Quantile to compute; only for the kind ``quantile``."""


class GroupNode(_Unary, frozen=True, tag="group"):
    """Aggregates by key. The columns are the keys, then the aggregates; without keys there is always one row."""

    keys: tuple[str, ...]
    """Key columns; NULL is a key like any other."""
    aggregates: tuple[Aggregate, ...]
    """Aggregates, possibly none."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        given = _by_name(inputs[0])
        names = (*self.keys, *(aggregate.name for aggregate in self.aggregates))
        placing = (*(given[name] for name in self.keys), *(False for _ in self.aggregates))
        return names, placing if any(placing) else None

    def line(self, maps: Sequence[Map]) -> str:
        parts = [
            f"{each.name} := {_AGGREGATES[each.kind].format(each.column)}"
            + (
                f"{each.quantile.part}/{each.quantile.whole} ({each.quantile.kind})"
                if each.quantile is not None
                else ""
            )
            for each in self.aggregates
        ]
        by = f" by {', '.join(self.keys)}" if self.keys else " as one group"
        return f"{self.input} grouped{by}" + (f": {', '.join(parts)}" if parts else "")


class DistinctNode(_Unary, frozen=True, tag="distinct"):
    """Each distinct row once."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        names, placing = inputs[0]
        return names, placing if any(placing or ()) else None

    def line(self, maps: Sequence[Map]) -> str:
        return f"{self.input} distinct"


class UnionNode(Operator, frozen=True, tag="union"):
    """The rows of all inputs. The inputs' columns have equal types; the output has the column names of the first."""

    inputs: tuple[int, ...]
    """Numbers of earlier nodes."""

    def reads(self) -> tuple[int, ...]:
        return self.inputs

    def reading(self, places: Mapping[int, int]) -> Self:
        return msgspec.structs.replace(self, inputs=tuple(places[number] for number in self.inputs))

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        return inputs[0][0], _common(inputs)

    def line(self, maps: Sequence[Map]) -> str:
        return " union all ".join(str(number) for number in self.inputs)


class SetNode(_Binary, frozen=True, tag="set"):
    """EXCEPT or INTERSECT; columns match by position, and NULLs are equal here."""

    kind: Literal["except", "except_all", "intersect", "intersect_all"]
    """Set operation, named as in SQL; with ``_all`` equal rows are counted."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        placing = _common(inputs)
        return inputs[0][0], placing if any(placing) else None

    def line(self, maps: Sequence[Map]) -> str:
        return f"{self.left} {self.kind.replace('_', ' ')} {self.right}"


class TopNode(_Unary, frozen=True, tag="top"):
    """ORDER BY … LIMIT … OFFSET; ties are broken by all columns in their order, ascending, NULLs last."""

    order: tuple[tuple[str, bool, bool], ...]
    """Criteria: (column, descending, NULLs first)."""
    limit: int | None
    """Number of rows that are kept; None for no limit."""
    offset: int = 0
    """Number of rows that are skipped."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        return inputs[0][0], None

    def line(self, maps: Sequence[Map]) -> str:
        limit = f", {self.limit} rows" if self.limit is not None else ""
        offset = f" after {self.offset}" if self.offset else ""
        return f"{self.input} ordered by {_criteria(self.order) or 'its columns'}{limit}{offset}"


RankingKind = Literal["row_number", "rank", "dense_rank"]
"""Window functions that number the rows of a partition."""


class WindowFunction(msgspec.Struct, frozen=True):
    """One column of a `WindowNode`, computed over the rows of a partition in their order; aggregates ignore NULLs."""

    name: str
    """Name of the result's column."""
    kind: Literal[
        "row_number", "rank", "dense_rank", "lag", "lead", "first_value", "count_rows", "count", "sum", "min", "max"
    ]
    """Function; ``sum`` is for integers only, and NULL if there are no values."""
    column: str | None
    """Column that the function reads; None for rankings and count_rows."""
    type: ColumnType
    """Type of the result."""
    offset: int = 0
    """Distance in rows to the value, at least 1; only for lag and lead."""
    frame: tuple[int | None, int] | None = None
    """Frame of an aggregate: number of rows before the row (None: from the first row) and number of rows after it; a
    negative number means the opposite direction. Without a frame, the aggregate is over all rows from the first one to
    the last peer of the row.
    """

    @property
    def ahead(self) -> int:
        """Number of preceding rows whose results depend on a given row."""
        return self.offset if self.kind == "lead" else max(0, self.frame[1] if self.frame is not None else 0)

    @property
    def behind(self) -> int:
        """Number of following rows whose results depend directly on a given row, not only through other results."""
        return self.offset if self.kind == "lag" else max(0, (self.frame[0] or 0) if self.frame is not None else 0)

    @property
    def has_peers(self) -> bool:
        """True if the function has the same result for all peers."""
        return self.kind in ("count_rows", "count", "sum", "min", "max") and self.frame is None


class WindowNode(_Unary, frozen=True, tag="window"):
    """Window functions. The output has the columns of the input, then the functions.

    Ties are broken by all columns in their order, ascending, NULLs last. Rows that are equal in all columns are
    neighbours, and each of them has its own results.
    """

    partition: tuple[str, ...]
    """Columns of PARTITION BY; NULL is a partition like any other."""
    order: tuple[tuple[str, bool, bool], ...]
    """Criteria: (column, descending, NULLs first). Peers are equal in the first `peers` criteria; the other criteria
    break ties.
    """
    peers: int
    """Number of criteria in which peers are equal."""
    functions: tuple[WindowFunction, ...]
    """Functions; under a limit there may be none."""
    limit: tuple[RankingKind, int] | None = None
    """A ranking, and its greatest value in rows of the output; with a limit, no function depends on later rows."""

    def placed(self, key: Key, maps: Sequence[Map], inputs: Sequence[Placed]) -> Placed:
        given = _by_name(inputs[0])
        names, placing = inputs[0]
        assert placing is not None
        names = (*names, *(function.name for function in self.functions))
        placing = (*placing, *(False for _ in self.functions))
        return names, placing if any(given[name] for name in self.partition) else None

    def line(self, maps: Sequence[Map]) -> str:
        parts = [f"{function.name} := {_in_words(function)}" for function in self.functions]
        if self.limit is not None:
            parts.append(f"rows with {self.limit[0].upper()} <= {self.limit[1]}")
        by = f" in partitions by {', '.join(self.partition)}" if self.partition else " in one partition"
        return f"{self.input}{by} ordered by {_criteria(self.order) or 'its columns'}: {', '.join(parts)}"


Node = (
    ScanNode
    | SelectNode
    | JoinNode
    | SemiNode
    | BoundNode
    | GroupNode
    | DistinctNode
    | UnionNode
    | SetNode
    | TopNode
    | WindowNode
)


class Flow(Body, frozen=True, tag="flow"):
    """A graph of incremental operators; every node turns changes of its inputs into changes of its rows."""

    nodes: tuple[Node, ...]
    """Nodes; each reads only earlier nodes, and the last node has the columns of the view."""

    def renumbered(self, number: Callable[[int], int]) -> Self:
        nodes = tuple(
            msgspec.structs.replace(node, map=number(node.map)) if isinstance(node, ScanNode) else node
            for node in self.nodes
        )
        return msgspec.structs.replace(self, nodes=nodes)

    def shard_key(self, maps: Sequence[Map]) -> str | None:
        """Return the name of a key by which the graph can be sharded; None if there is no such key.

        Every base map has the key, except that of `EPOCH_TIME`. A string is preferred, because strings are usually
        names, such as symbols. A number may be a time, and all rows of the present time would be in one shard.
        """
        scanned = [maps[number].keys for number in sorted(self.maps()) if maps[number].relation != EPOCH_TIME.name]
        types = [{key.name: key.type for key in keys} for keys in scanned]
        for key in sorted(scanned[0] if scanned else (), key=lambda key: key.type != "string"):
            if key.type in _EXACT and all(each.get(key.name) == key.type for each in types) and self._meets(maps, key):
                return key.name
        return None

    def _meets(self, maps: Sequence[Map], key: Key) -> bool:
        """Return True if no operator needs rows of other shards, given that this key places the rows of base maps."""
        placements: list[Placed] = []
        for node in self.nodes:
            inputs = [placements[number] for number in node.reads()]
            whole = [each is _EVERYWHERE for each in inputs]
            is_clock = isinstance(node, ScanNode) and maps[node.map].relation == EPOCH_TIME.name
            if is_clock or (whole and all(whole)):
                placements.append(_EVERYWHERE)
                continue
            if any(whole) and not (isinstance(node, BoundNode) and whole == [False, True]):
                return False
            placed = node.placed(key, maps, inputs)
            if placed[1] is None:
                return False
            placements.append(placed)
        return bool(placements) and placements[-1] is not _EVERYWHERE

    def shard_keys(self, maps: Sequence[Map]) -> Mapping[int, int | None] | None:
        key = self.shard_key(maps)
        if key is None:
            return None
        return {
            number: None
            if maps[number].relation == EPOCH_TIME.name
            else next(place for place, each in enumerate(maps[number].keys) if each.name == key)
            for number in self.maps()
        }

    def placement(self, maps: Sequence[Map]) -> str:
        key = self.shard_key(maps)
        return "all of it in one" if key is None else f"spread by {key}"

    def extremes(self) -> list[str]:
        """Return which of MIN, MAX and quantiles the flow computes, by name."""
        groups = (node for node in self.nodes if isinstance(node, GroupNode))
        kinds = dict.fromkeys(each.kind for node in groups for each in node.aggregates)
        words = {"min": "MIN", "max": "MAX", "quantile": "quantiles"}
        return [words[kind] for kind in kinds if kind in words]

    def is_ordered(self) -> bool:
        """Return whether the flow stores rows in an order."""
        return bool(self.extremes()) or any(isinstance(node, (BoundNode, TopNode, WindowNode)) for node in self.nodes)

    def cost(self) -> str:
        joins = any(isinstance(node, (JoinNode, SemiNode)) for node in self.nodes)
        return f"changed rows{' × matching rows' if joins else ''}{' × log(rows)' if self.is_ordered() else ''}"

    def lines(self, columns: Sequence[Column], maps: Sequence[Map]) -> list[str]:
        return ["operators:", *(f"  {number}. {node.line(maps)}" for number, node in enumerate(self.nodes))]


def _by_name(placed: Placed) -> Mapping[str, bool]:
    names, placing = placed
    assert placing is not None
    return dict(zip(names, placing, strict=True))


def _meet(on: Sequence[tuple[str, str]], inputs: Sequence[Placed]) -> bool:
    """Return True if rows with equal values in these columns are in one shard."""
    left, right = _by_name(inputs[0]), _by_name(inputs[1])
    return any(left[mine] and right[theirs] for mine, theirs in on)


def _common(inputs: Sequence[Placed]) -> Placing:
    """Return the flags of columns that place rows in all inputs."""
    return tuple(all(marks) for marks in zip(*(placing or () for _, placing in inputs), strict=True))


def _on(pairs: Sequence[tuple[str, str]]) -> str:
    return f" on {' and '.join(f'{left} = {right}' for left, right in pairs)}" if pairs else ""


def _criteria(order: Sequence[tuple[str, bool, bool]]) -> str:
    return ", ".join(f"{name}{' DESC' if down else ''}{' NULLS FIRST' if first else ''}" for name, down, first in order)


def _in_words(function: WindowFunction) -> str:
    if function.offset:
        return f"{function.kind.upper()}({function.column}, {function.offset})"
    name = "COUNT(*)" if function.kind == "count_rows" else f"{function.kind.upper()}({function.column or ''})"
    if function.frame is None:
        return name
    before, after = function.frame
    first = "all" if before is None else f"{before} rows" if before >= 0 else f"from {-before} behind"
    last = "itself" if after == 0 else f"{after} behind it" if after > 0 else f"{-after} before it"
    return f"{name} of {first} before it to {last}" if before is None or before >= 0 else f"{name} {first} to {last}"
