"""Show: derives the rows that a view removes and adds from the groups that a step has touched.

Algebra: a view over totals is a function of each group, so its change has, for every touched group, the row of the
group before the step (-1) and the row after the step (+1); equal rows cancel. A group of weight 0 or less has no row;
without GROUP BY the empty group has the row of an empty aggregate.

State: only whether the node has run before: a new view emits all of its rows in its first step.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from runtime.native.library import hashing
from runtime.plan import Col, Column, Expr, Lit
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, load_fields
from runtime.views.feeds import ColumnBatch
from runtime.views.nodes.node import Node
from runtime.views.nodes.totals import Totals
from runtime.views.strings import Strings

__all__ = ["BEGUN", "Shape", "Show", "output_fields", "settle_node"]

BEGUN: Final = 1
"""Place, in the kernel's numbers, of the flag that is 1 once the view has published its first rows."""


class Shape(msgspec.Struct, frozen=True):
    """Rows of a view, as expressions over totals."""

    columns: tuple[Column, ...]
    """Columns of the view."""
    outputs: tuple[Expr, ...]
    """One expression per column, over keys, sums and ``weight``."""
    having: Expr | None = None
    """Condition on groups; a group for which it is not true has no row."""
    empty: tuple[int | float | str | bool | None, ...] | None = None
    """Without GROUP BY, the row that is shown while the group is empty."""
    is_bag: bool = False
    """True if a group represents ``weight`` equal rows."""

    def shows_keys(self, keys: Sequence[Field]) -> bool:
        """Return True if every key is a column, so that rows of different groups are never equal."""
        return {expr.name for expr in self.outputs if isinstance(expr, Col)}.issuperset(key.name for key in keys)


def output_fields(columns: Sequence[Column]) -> tuple[Field, ...]:
    """Return a view's columns as fields of a batch, named by number because names may be repeated or reserved."""
    return tuple(Field(f"c{place}", column.type, True) for place, column in enumerate(columns))


class Show(Node):
    """Shows the groups of totals that were made with ``is_result`` as the rows of a view."""

    def __init__(
        self, table: Totals, shape: Shape, out: ColumnBatch, strings: Strings, views: Collection[str], *, settles: bool
    ) -> None:
        """Make the node.

        The rows are appended to ``out``. With ``settles`` no other node reads the table afterwards.
        """
        k = KernelSource("shows the rows of groups before and after the step", strings)
        k.use("hashing", "settle", "is_zero")
        _put_row_function(k, table, shape, out)
        k.begin()
        _put_loop(k, table, shape, out, settles=settles)
        super().__init__(k, views)


def _put_row_function(k: KernelSource, table: Totals, shape: Shape, out: ColumnBatch) -> None:
    """Write ``put(p, keys, place, values, at, n)``, which appends the row of a group to the batch.

    It returns 0 if the group has no row, 1 if it has one, and 2 if a number is too large.
    """
    k.begin("put", "p, keys, place, values, at, n")
    k.put("weight = values[at]")
    with k.block("if weight <= 0:"):
        if shape.empty is None:
            k.put("return 0")
        else:
            constants: list[Value] = []
            for column, constant in zip(shape.columns, shape.empty, strict=True):
                constants.append(Emitter(k).cast(Emitter(k).value(Lit(constant), {}), column.type))
            for field, value in zip(out.fields, constants, strict=True):
                out.store(k, field, value, "n")
            k.put("return 1")
    keys = load_fields(k, table.keys, "keys", "place")
    bound = {"weight": Value("weight", "int64"), **{key.name: v for key, v in zip(table.keys, keys, strict=True)}}
    for number, name in enumerate(table.sums):
        bound[name] = Value(k.assign("x", f"load_wide(values, at + {1 + 2 * number})"), "int128", None, 126)
    if shape.having is not None:
        with k.block(f"if not ({Emitter(k).truth(shape.having, bound)}):"):
            k.put("return 2 if bad else 0")
    for field, expr, column in zip(out.fields, shape.outputs, shape.columns, strict=True):
        value = Emitter(k).cast(Emitter(k).value(expr, bound), column.type)
        out.store(k, field, value, "n")
    k.put("return 2 if bad else 1")


def _put_loop(k: KernelSource, table: Totals, shape: Shape, out: ColumnBatch, *, settles: bool) -> None:
    """Write the loop over the groups that the step has touched or, in a view's first step, over all groups.

    Each group appends up to two rows, from ``first`` on: its row before the step (-1) and its row after it (+1).
    """
    t = k.table(table)
    meta, cells = k.cells(table, hashing.META), k.cells(table, hashing.CELLS)
    old, touched = k.cells(table, hashing.OLD), k.cells(table, hashing.TOUCHED)
    out_meta, weights = k.cells(out, 0), k.cells(out, 1)
    status = k.need(lambda: out.grow(2 * out.room + 2))
    k.put(
        f"n, room, begun = {out_meta}[{out.ROWS}], {out_meta}[{out.ROOM}], s[{BEGUN}]",
        f"count = {meta}[{hashing.CHANGED}] if begun else {meta}[{hashing.USED}]",
        "i = s[0]",
    )
    with k.block("while i < count:"):
        with k.block("if n + 2 > room:"):
            k.put("s[0] = i", f"{out_meta}[{out.ROWS}] = n", f"return -1 if bad else {status}")
        k.put(
            f"slot = {touched}[i] if begun else i",
            f"place = slot * {table.stride}",
            f"at = place + {table.key_words}",
            "was = 0",
        )
        k.put("first = n")
        with k.block("if begun:"):
            k.put(f"was = put(p, {cells}, place, {old}, i * {table.value_words}, n)")
            with k.block("if was:"):
                k.put(f"{weights}[n] = " + (f"-{old}[i * {table.value_words}]" if shape.is_bag else "-1"), "n += 1")
        k.put("now = 0")
        with k.block(f"if begun or {'True' if not table.keys else f'not is_zero({t}, slot)'}:"):
            k.put(f"now = put(p, {cells}, place, {cells}, at, n)")
        with k.block("if now:"):
            k.put(f"{weights}[n] = " + (f"{cells}[at]" if shape.is_bag else "1"), "n += 1")
        k.put("bad |= was == 2 or now == 2")
        with k.block("if was and now:"), k.block(f"if {_equal_rows(k, out)}:"):
            k.put(f"{weights}[first] += {weights}[first + 1]", f"n = first + 1 if {weights}[first] != 0 else first")
        k.put("i += 1")
    k.put("s[0] = 0", f"s[{BEGUN}] = 1", f"{out_meta}[{out.ROWS}] = n")
    if settles:
        k.put(f"settle({t})")
    k.put("return -1 if bad else 0")


def _equal_rows(k: KernelSource, out: ColumnBatch) -> str:
    """Return the expression that is true if the row at ``first`` and the row after it are equal."""
    tests: list[str] = []
    for place, width in enumerate(out.widths, 2):
        column = k.cells(out, place)
        tests += [
            f"{column}[{width} * first + {word}] == {column}[{width} * first + {width + word}]" for word in range(width)
        ]
    return " and ".join(tests) or "True"


def settle_node(table: Totals, strings: Strings, views: Collection[str]) -> Node:
    """Return the node that ends a step for a table that several views show."""
    k = KernelSource("ends a step", strings)
    k.use("hashing", "settle")
    k.begin()
    k.put(f"settle({k.table(table)})", "return 0")
    return Node(k, views)
