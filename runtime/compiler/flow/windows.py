"""Window functions of one SELECT, as columns that are added to its rows.

All functions with the same PARTITION BY and ORDER BY form one node. An aggregate over whole partitions is a group that
is joined to the rows. The result must not depend on the order in which rows arrive. So ties of an ORDER BY are broken
by the columns that SELECT and QUALIFY name, in the order of the text (`tie_columns`). Rows that are equal in all of
these columns cannot be distinguished in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from runtime.compiler.flow.blocks import Block, QueryBuilder, outermost_queries
from runtime.compiler.flow.graph import free_name
from runtime.compiler.flow.groups import AggregateKind, GroupAggregates
from runtime.compiler.flow.joining import attach, paired
from runtime.compiler.lower import lower
from runtime.compiler.operands import Lowered, NotIncremental, call, choose
from runtime.compiler.parse import tie_columns
from runtime.compiler.sums import Accumulator, Extreme, accumulate
from runtime.compiler.types import BOOL, INT, Type
from runtime.plan import Col, Lit, WindowFunction

__all__ = ["attach_windows", "windows_of"]

_MOST_ROWS = 1000
"""Greatest distance in rows of LAG, LEAD and the ends of frames: a change takes time in proportion to the distance."""
_RANKINGS: dict[type[exp.Expr], Literal["row_number", "rank", "dense_rank"]] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
}
_NO_AGGREGATES = (exp.CumeDist, exp.IgnoreNulls, exp.NthValue, exp.Ntile, exp.PercentRank, exp.RespectNulls)
"""Window functions that the parser classifies as aggregates."""
_Frame = tuple[int | None, int | None]
"""Numbers of rows before and after the row; None for the first or the last of the partition."""
_WHOLE: _Frame = (None, None)
"""Frame that is the whole partition."""


def windows_of(nodes: Sequence[exp.Expr]) -> list[exp.Window]:
    """Return the window functions in expressions, except window functions in subqueries."""

    def stops(part: exp.Expr) -> bool:
        return isinstance(part, (exp.Query, exp.Window))

    return [part for node in nodes for part in node.walk(prune=stops) if isinstance(part, exp.Window)]


def attach_windows(queries: QueryBuilder, block: Block, select: exp.Select, nodes: Sequence[exp.Expr]) -> None:
    """Add the window functions of these expressions of a SELECT to its rows, so that `Block.leaf` resolves them."""
    windows = windows_of(nodes)
    if not windows:
        return
    if block.links:
        raise NotIncremental("a window function in a subquery that depends on the query around it")
    ties = [] if select.args.get("group") is not None else tie_columns(select)
    specs: dict[str, list[exp.Window]] = {}
    for window in windows:
        specs.setdefault(_spec_text(window), []).append(window)
    # Windows over the opposite order are added last, so that the results of all other windows also break ties in them.
    for members in sorted(specs.values(), key=lambda windows: _is_reversed(windows[0])):
        _Windows(queries, block, members[0], ties).add(members)


def _spec_text(window: exp.Window) -> str:
    """Return a text that is equal for two windows if one node can compute the functions of both."""
    partition = ", ".join(part.sql() for part in window.args.get("partition_by") or [])
    order = window.args.get("order")
    return f"{partition} {'' if order is None else order.sql()} {_is_reversed(window)}"


def _is_reversed(window: exp.Window) -> bool:
    """Return True if the function is computed in the opposite order, from the partition's last row to its first."""
    function, frame = _function(window), _frame(window)
    if frame is None or frame == _WHOLE:
        return isinstance(function, exp.LastValue) and frame == _WHOLE
    return isinstance(function, (exp.LastValue, exp.AggFunc)) and frame[1] is None


def _function(window: exp.Window) -> exp.Expr:
    """Return the function under OVER, without its FILTER."""
    inner: exp.Expr = window.this
    if isinstance(inner, (exp.Filter, exp.RespectNulls)):  # NULLs are respected unless they are ignored
        inner = inner.this
    return inner


def _frame(window: exp.Window) -> _Frame | None:
    """Return the frame in rows; None for no frame, or for the default frame."""
    spec = window.args.get("spec")
    if spec is None:
        return None
    kind = str(spec.args.get("kind") or "").upper()
    ends = (_bound(spec, "start", "PRECEDING"), _bound(spec, "end", "FOLLOWING"))
    if spec.args.get("exclude"):
        raise NotIncremental("a frame with EXCLUDE")
    if None not in ends and sum(ends) < 0:  # type: ignore[arg-type]  # neither is None
        raise NotIncremental("a frame that ends before it begins")
    if kind == "ROWS" or ends == (None, None):
        return ends
    if kind == "RANGE" and ends == (None, 0):
        return None
    raise NotIncremental(f"a frame by {kind}: ROWS BETWEEN … is incremental")


def _bound(spec: exp.WindowSpec, name: str, outward: str) -> int | None:
    """Return the distance in rows from the row to an end of its frame; None if the frame ends with the partition.

    The distance is positive in the direction ``outward``: before the row for the start, after it for the end.
    """
    value, side = spec.args.get(name), str(spec.args.get(f"{name}_side") or "").upper()
    if value is None or value == "CURRENT ROW":
        return 0
    if value == "UNBOUNDED":
        if side != outward:
            raise NotIncremental("a frame that begins after the last row or ends before the first one")
        return None
    rows = _whole_number(value, "a frame of a number of rows that is not a constant")
    return rows if side == outward else -rows


def _whole_number(node: exp.Expr, reason: str) -> int:
    is_negative = isinstance(node, exp.Neg)
    literal = node.this if is_negative else node
    if not (isinstance(literal, exp.Literal) and literal.is_int):
        raise NotIncremental(reason)
    number = int(literal.name)
    if number > _MOST_ROWS:
        raise NotIncremental(f"a window function that reads rows {number} away: at most {_MOST_ROWS} are incremental")
    return -number if is_negative else number


@dataclass(slots=True)
class _Windows:
    """Window functions with one PARTITION BY and ORDER BY."""

    queries: QueryBuilder
    block: Block
    first: exp.Window
    """First of the functions."""
    ties: Sequence[exp.Column]
    """Columns that break ties, before all other columns."""
    functions: list[tuple[WindowFunction, Type]] = field(default_factory=list)
    """Functions of the node, with the types of their results."""
    results: list[tuple[exp.Window, Lowered]] = field(default_factory=list)
    """Expression for each function of the query."""

    def add(self, windows: Sequence[exp.Window]) -> None:
        """Add the functions to the rows."""
        partition = [self._column(part) for part in self.first.args.get("partition_by") or []]
        order = self.first.args.get("order")
        criteria = []
        for part in order.expressions if order is not None else []:
            term = (self._column(part.this), bool(part.args.get("desc")), bool(part.args.get("nulls_first")))
            criteria.append(term)
        peers = len(criteria)
        names = [self._column(column) for column in self.ties]
        for name in dict.fromkeys([*names, *self.block.rows.columns]):
            if name not in partition and name not in [known for known, _, _ in criteria]:
                criteria.append((name, False, False))
        if _is_reversed(self.first):
            criteria = [(name, not down, not first) for name, down, first in criteria]
        for window in windows:
            self.results.append((window, self._result(window, partition, has_order=order is not None)))
        if self.functions:
            self.block.rows = self.queries.graph.window(self.block.rows, partition, criteria, peers, self.functions)
        for window, value in self.results:
            self.block.known[id(window)] = value

    def _column(self, node: exp.Expr) -> str:
        return self.place(lower(node, self.block.leaf))

    def place(self, value: Lowered) -> str:
        """Return the column of the rows that has this value."""
        if value.type.kind in ("null", "other"):
            raise NotIncremental(f"a window over {value.type}")
        self.block.rows, (name,) = self.queries.graph.extended(self.block.rows, [value])
        return name

    def make(
        self,
        kind: str,
        value: Lowered | None,
        result: Type,
        *,
        offset: int = 0,
        frame: tuple[int | None, int] | None = None,
    ) -> Lowered:
        """Return the result of a function; add the function if it is missing."""
        column = None if value is None else self.place(value)
        for function, known in self.functions:
            if (function.kind, function.column, function.offset, function.frame) == (kind, column, offset, frame):
                return Lowered(Col(function.name), known)
        # Columns that are added for further arguments must not have the name of a function.
        name = f"window_{kind}"
        graph_names = {*self.block.rows.columns, *(function.name for function, _ in self.functions)}
        name = free_name(name, graph_names)
        made = WindowFunction(name, kind, column, result.column(name).type, offset, frame)  # type: ignore[arg-type]  # it is a kind
        self.functions.append((made, result))
        return Lowered(Col(name), result)

    def _result(self, window: exp.Window, partition: Sequence[str], *, has_order: bool) -> Lowered:
        function = _function(window)
        if window.args.get("alias") is not None:
            raise NotIncremental("a named window")
        if outermost_queries(window):
            raise NotIncremental("a subquery in a window function")
        if type(function) in _RANKINGS:
            return self.make(_RANKINGS[type(function)], None, INT)
        if isinstance(function, (exp.Lag, exp.Lead)):
            return self._neighbour(function)
        if isinstance(function, (exp.FirstValue, exp.LastValue)):
            return self._end(window, function)
        if isinstance(function, exp.AggFunc) and not isinstance(function, _NO_AGGREGATES):
            return self._aggregate(window, partition, has_order=has_order)
        if isinstance(function, exp.IgnoreNulls):
            raise NotIncremental("IGNORE NULLS, with which a row reads rows at any distance")
        raise NotIncremental(
            f"the window function {function.sql_name() if isinstance(function, exp.Func) else function}"
        )

    def _neighbour(self, node: exp.Lag | exp.Lead) -> Lowered:
        offset = node.args.get("offset")
        rows = 1 if offset is None else _whole_number(offset, f"{node.key.upper()} by a number that is not a constant")
        value = lower(node.this, self.block.leaf)
        kind = ("lag" if rows > 0 else "lead") if isinstance(node, exp.Lag) else ("lead" if rows > 0 else "lag")
        if rows == 0:
            return value
        neighbour = self.make(kind, value, value.type.with_null(), offset=abs(rows))
        default = node.args.get("default")
        if default is None:
            return neighbour
        presence = self.make(kind, Lowered(Lit(True), BOOL), BOOL.with_null(), offset=abs(rows))
        return choose(Lowered(call("is_null", presence.expr), BOOL), lower(default, self.block.leaf), neighbour)

    def _end(self, window: exp.Window, node: exp.FirstValue | exp.LastValue) -> Lowered:
        value, frame = lower(node.this, self.block.leaf), _frame(window)
        if isinstance(node, exp.FirstValue):
            if frame is not None and (frame[0] is not None or (frame[1] is not None and frame[1] < 0)):
                raise NotIncremental("FIRST_VALUE of a frame that begins at a row: LAG is incremental")
        elif frame is None:
            return value  # ties are broken, so the row is the last row of its frame
        elif frame[1] is not None or (frame[0] is not None and frame[0] < 0):
            raise NotIncremental("LAST_VALUE of a frame that ends at a row: LEAD is incremental")
        return self.make("first_value", value, value.type.with_null())

    # --- aggregates

    def _aggregate(self, window: exp.Window, partition: Sequence[str], *, has_order: bool) -> Lowered:
        frame = _frame(window)
        if frame is None and not has_order:
            frame = _WHOLE
        if frame == _WHOLE:
            return self._of_partition(window, partition)
        if frame is not None and frame[1] is None:
            frame = (None, frame[0])  # the same frame in the opposite order
        into = _FrameAggregates(self, frame, zero=self.queries.zero)  # type: ignore[arg-type]  # its end is not None
        return accumulate(window.this, self.block.leaf, into)

    def _of_partition(self, window: exp.Window, partition: Sequence[str]) -> Lowered:
        """Build an aggregate over whole partitions: a group, joined to its rows."""
        into = _PartitionAggregates(self, zero=self.queries.zero)
        value = accumulate(window.this, self.block.leaf, into)
        graph, rows = self.queries.graph, self.block.rows
        keys = [rows.column(name) for name in partition]
        groups = graph.group(graph.keep(rows, {*partition, *into.columns}), partition, into.made)
        mine, theirs = paired(keys, [groups.column(name) for name in partition])
        groups, names = graph.extended(groups, theirs)
        results = [part.name for part, _ in into.made]
        groups = graph.keep(groups, {*names, *results})
        self.block.rows, called = attach(graph, rows, groups, list(zip(mine, names, strict=True)), None)
        assert all(called[name] == name for name in results)
        return value


class _FrameAggregates(Accumulator):
    """Accumulator of a frame's aggregates as functions of a window node."""

    def __init__(self, windows: _Windows, frame: tuple[int | None, int] | None, *, zero: bool) -> None:
        is_never_empty = frame is None or (frame[1] >= 0 and (frame[0] is None or frame[0] >= 0))
        super().__init__(may_be_empty=not is_never_empty, zero=zero)
        self._windows, self._frame = windows, frame

    def rows(self) -> Lowered:
        return self._windows.make("count_rows", None, INT, frame=self._frame)

    def count(self, value: Lowered) -> Lowered:
        return self._windows.make("count", value, INT, frame=self._frame)

    def total(self, value: Lowered) -> Lowered:
        kind = Type("int", value.type.scale, True, value.type.nullable or self.may_be_empty)
        summed = self._windows.make("sum", value, kind, frame=self._frame)
        if not self._zero:
            return summed
        return Lowered(call("coalesce", summed.expr, Lit(0)), kind.with_null(False))

    def extreme(self, kind: Extreme, value: Lowered) -> Lowered:
        return self._windows.make(kind, value, value.type.with_null(), frame=self._frame)


class _PartitionAggregates(GroupAggregates):
    """Accumulator of the aggregates of whole partitions."""

    def __init__(self, windows: _Windows, *, zero: bool) -> None:
        super().__init__(may_be_empty=False, zero=zero)
        self._windows = windows
        self.columns: list[str] = []
        """Columns that the aggregates read."""

    def argument(self, value: Lowered) -> str:
        self.columns.append(self._windows.place(value))
        return self.columns[-1]

    def new_name(self, kind: AggregateKind) -> str:
        taken = {*self._windows.block.rows.columns, *(part.name for part, _ in self.made)}
        return free_name(f"of_partition_{kind}", {*taken, *(part.name for part, _ in self._windows.functions)})
