"""Joins of a flow: inner, semi and anti, over the rows of each side by the key of the join.

State of a side: `JoinRows`. A record has the words of the key, the words of the other columns, and the row's weight,
which may be negative for a while. The key of a record is never NULL, and its types can represent the values of both
sides.

**Inner join** (`lower_inner_join`)

Algebra: the join is bilinear, Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR (Gupta, Mumick, Subrahmanian: *Maintaining Views
Incrementally*, SIGMOD 1993). A pair's weight is the product of its rows' weights, of any sign. NULL equals nothing: a
row with NULL in its key is neither stored nor joined.

State: one `JoinRows` per side.

Code: one kernel per side. It finds or adds a row's record, reads the other side's list of the key, and then adds the
row's weight to the record. If the batch has no room, the kernel stops within the list (``s[2]``: the next record + 1).

**Semi and anti join** (`lower_semi_join`)

Algebra: the semi join is linear in its left input. It depends on the right input only through the set of keys whose
weight is positive. A key that enters or leaves this set adds or removes all of its left rows (Griffin, Libkin:
*Incremental Maintenance of Views with Duplicates*, SIGMOD 1995). The right input is applied first. NULL equals nothing,
so that a left row with NULL in its key passes the anti join only.

State: `JoinRows` of the left input; `Totals` (weight by key) of the right one, which remember the weights before the
step, so that a key counts once however often its weight changes within the step.

Code: one kernel per input. The kernel of the right input has two loops: over its rows (``s[0]``), and over the keys
that these rows have touched (``s[2]``; ``s[3]``: the next left record + 1).
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from runtime.native.indexes import Members
from runtime.native.library import hashing
from runtime.views.emission.expressions import Emitter
from runtime.views.emission.values import (
    Field,
    Value,
    load_fields,
    may_be_direct,
    nullable_places,
    string_places,
    words_of,
)
from runtime.views.feeds import ColumnBatch, Row, Rows, stop
from runtime.views.nodes.flow import BatchRows, FlowContext, reserve
from runtime.views.nodes.select import wider
from runtime.views.nodes.totals import Totals, put_key, put_locate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from runtime.plan import JoinNode, SemiNode
    from runtime.views.emission.kernel import KernelSource

__all__ = ["JoinRows", "JoinSide", "join_keys", "lower_inner_join", "lower_semi_join"]


_PADDING: Final = Field("padding", "int64")
"""The one field of a record if the rows have no columns."""


def join_keys(left: Rows, right: Rows, on: Sequence[tuple[str, str]]) -> tuple[Field, ...]:
    """Return the key of a join: columns without NULL, in types that can represent the values of both sides."""
    return tuple(
        Field(f"k{place}", wider(left.field(mine), right.field(theirs)).type) for place, (mine, theirs) in enumerate(on)
    )


class JoinSide:
    """One input of a join: its changes, and the records of its rows."""

    def __init__(self, ctx: FlowContext, rows: Rows, on: Sequence[str], keys: Sequence[Field]) -> None:
        """Describe one input. ``on`` has for each key the column that is compared with it."""
        self._ctx = ctx
        self.rows = rows
        self.on = tuple(on)
        self.keys = tuple(keys)
        self.rest = tuple(field for field in rows.fields if field.name not in on)
        """Columns that are not part of the key."""
        self.record = (*self.keys, *self.rest) or (_PADDING,)
        """Fields of a record."""

    def row_table(self, name: str) -> JoinRows:
        """Return the side's records: the structure of this name."""
        return self._ctx.structure(name, lambda: JoinRows(self))

    def key_of(self, k: KernelSource, row: Row) -> list[Value]:
        """Return the key of a row, whose values may be NULL."""
        return [Emitter(k).cast(row.values[name], key.type) for name, key in zip(self.on, self.keys, strict=True)]

    @contextmanager
    def matching(self, k: KernelSource, key: Sequence[Value]) -> Iterator[None]:
        """Open the block that runs only for a key without NULL."""
        nulls = list(dict.fromkeys(value.null for value in key if value.null is not None))
        with k.block(f"if not ({' or '.join(nulls)}):") if nulls else nullcontext():
            yield

    def load_columns(self, k: KernelSource, key: Sequence[Value], cells: str, place: str) -> list[Value]:
        """Write the lines that read a record with a known key; return the columns of the row."""
        values = load_fields(k, self.rest, cells, f"{place} + {words_of(self.keys)}")
        return self.columns(k, key, {field.name: value for field, value in zip(self.rest, values, strict=True)})

    def columns(self, k: KernelSource, key: Sequence[Value], rest: Mapping[str, Value]) -> list[Value]:
        """Return the columns of a row, given its key and its other columns."""
        values = dict(rest)
        for name, value in zip(self.on, key, strict=True):
            # The key of a record came from this column, so its value fits.
            is_narrower = value.type == "int128" and self.rows.field(name).type == "int64"
            values[name] = Value(k.assign("v", f"narrow({value.text})"), "int64") if is_narrower else value
        return [values[field.name] for field in self.rows.fields]


class JoinRows(Members):
    """Rows of one side with their weights, listed by key."""

    def __init__(self, side: JoinSide) -> None:
        self._keys, self._rest, self._record = side.keys, side.rest, side.record
        super().__init__(words_of(side.keys), words_of(side.record), 1, is_direct=may_be_direct(side.keys))
        self.string_places = string_places(self._record)
        self.nullable_places = nullable_places(self._record)

    def put_locate(self, k: KernelSource, key: Sequence[Value], row: Row) -> str:
        """Write the lines that find or add the record of a row whose key is not NULL; return its slot."""
        k.use("members", "locate_member")
        values = [*key, *(row.values[field.name] for field in self._rest)] or [Value("0", "int64")]
        put_key(k, self.records, self._record, values)
        slot = k.assign("slot", f"locate_member({k.table(self)})")
        status = k.need(self.make_room)
        with k.block(f"if {slot} < 0:"):
            stop(k, status)
        return slot

    def put_add(self, k: KernelSource, slot: str, weight: str) -> None:
        """Write the lines that add to the weight of a record; a record whose weight becomes 0 is removed."""
        k.use("members", "drop_member_if_zero")
        cells = k.cells(self.records, hashing.CELLS)
        at = k.assign("c", f"{slot} * {self.records.stride} + {self.records.key_words}")
        k.put(f"{cells}[{at}] += {weight}")
        with k.block(f"if {cells}[{at}] == 0:"):
            k.put(f"drop_member_if_zero({k.table(self)}, {slot})")

    @contextmanager
    def put_matches(self, k: KernelSource, key: Sequence[Value], *, cursor: int) -> Iterator[tuple[str, str, str]]:
        """Write the loop over the records of a key that is not NULL; yield cells, a record's place there, and its slot.

        The kernel's number at ``cursor`` is 1 + the slot at which the loop resumes, or 0 to start at the first record.
        """
        k.use("members", "first_member", "next_member")
        put_key(k, self.heads, self._keys, key)
        slot = k.assign("slot", f"s[{cursor}] - 1 if s[{cursor}] > 0 else first_member({k.table(self)})")
        cells = k.cells(self.records, hashing.CELLS)
        with k.block(f"while {slot} >= 0:"):
            place = k.assign("c", f"{slot} * {self.records.stride}")
            yield cells, place, slot
            k.put(f"{slot} = next_member({k.table(self)}, {slot})")


def lower_inner_join(node: JoinNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add an inner join to the graph; return its rows."""
    keys = join_keys(inputs[0], inputs[1], node.on)
    left = JoinSide(ctx, inputs[0], [pair[0] for pair in node.on], keys)
    right = JoinSide(ctx, inputs[1], [pair[1] for pair in node.on], keys)
    batch = ctx.batch([*inputs[0].fields, *inputs[1].fields])
    _add_kernel(ctx, (left, left.row_table("left")), (right, right.row_table("right")), batch, is_left=True)
    _add_kernel(ctx, (right, right.row_table("right")), (left, left.row_table("left")), batch, is_left=False)
    return BatchRows(batch)


def _add_kernel(
    ctx: FlowContext,
    own: tuple[JoinSide, JoinRows],
    opposite: tuple[JoinSide, JoinRows],
    batch: ColumnBatch,
    *,
    is_left: bool,
) -> None:
    """Add the kernel that joins the changes of one side with the rows of the other side."""
    (mine, my_rows), (other, other_rows) = own, opposite
    k = ctx.kernel("joins the changes of an input with the rows of another one")
    k.begin()
    with mine.rows.open(k) as row:
        key = mine.key_of(k, row)
        with mine.matching(k, key):
            key = [Value(value.text, value.type) for value in key]
            slot = my_rows.put_locate(k, key, row)
            with other_rows.put_matches(k, key, cursor=2) as (cells, place, member):
                reserve(k, batch, saves=[f"s[2] = {member} + 1"])
                ours = mine.columns(k, key, row.values)
                theirs = other.load_columns(k, key, cells, place)
                weight = k.assign("x", f"wide({row.weight}) * wide({cells}[{place} + {other_rows.records.key_words}])")
                k.put(f"bad |= not fits({weight})")
                batch.put_append(k, [*ours, *theirs] if is_left else [*theirs, *ours], f"narrow({weight})")
            k.put("s[2] = 0")
            my_rows.put_add(k, slot, row.weight)
    k.put("return -1 if bad else 0")
    ctx.add(k, mine.rows)


def lower_semi_join(node: SemiNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Add a semi or anti join to the graph; return its rows."""
    keys = join_keys(inputs[0], inputs[1], node.on)
    left = JoinSide(ctx, inputs[0], [pair[0] for pair in node.on], keys)
    right = JoinSide(ctx, inputs[1], [pair[1] for pair in node.on], keys)
    right_keys = ctx.structure("right", lambda: Totals(keys, [], is_result=True))
    batch = ctx.batch(inputs[0].fields)
    _add_right_kernel(ctx, left, right, right_keys, batch, is_anti=node.anti)
    _add_left_kernel(ctx, left, right_keys, batch, is_anti=node.anti)
    return BatchRows(batch)


def _add_right_kernel(
    ctx: FlowContext, left: JoinSide, right: JoinSide, right_keys: Totals, batch: ColumnBatch, *, is_anti: bool
) -> None:
    """Add the kernel that counts keys of the right input, and emits the left rows of keys that appear or disappear."""
    k = ctx.kernel("emits left rows whose key appears or disappears on the right")
    left_rows = left.row_table("left")
    k.use("hashing", "settle", "touch")
    k.begin()
    t, cells = k.table(right_keys), k.cells(right_keys, hashing.CELLS)
    with right.rows.open(k, right.on, stays_at_end=True) as row:
        key = right.key_of(k, row)
        with right.matching(k, key):
            slot = put_locate(k, right_keys, key)
            k.put(f"touch({t}, {slot})")
            k.put(f"{cells}[{slot} * {right_keys.stride} + {right_keys.key_words}] += {row.weight}")
    touched, old = k.cells(right_keys, hashing.TOUCHED), k.cells(right_keys, hashing.OLD)
    k.put("i = s[2]", f"count = {k.cells(right_keys, hashing.META)}[{hashing.CHANGED}]")
    with k.block("while i < count:"):
        place = k.assign("c", f"{touched}[i] * {right_keys.stride}")
        now, was = f"{cells}[{place} + {right_keys.key_words}] > 0", f"{old}[i] > 0"
        with k.block(f"if ({now}) != ({was}):"):
            sign = k.assign("x", f"{-1 if is_anti else 1} if {now} else {1 if is_anti else -1}")
            fields = load_fields(k, right.keys, cells, place)
            with left_rows.put_matches(k, fields, cursor=3) as (left_cells, at, member):
                reserve(k, batch, saves=["s[2] = i", f"s[3] = {member} + 1"])
                weight = f"{left_cells}[{at} + {left_rows.records.key_words}] * {sign}"
                batch.put_append(k, left.load_columns(k, fields, left_cells, at), weight)
            k.put("s[3] = 0")
        k.put("i += 1")
    k.put("s[0] = 0", "s[2] = 0", f"settle({t})", "return -1 if bad else 0")
    ctx.add(k, right.rows)


def _add_left_kernel(
    ctx: FlowContext, left: JoinSide, right_keys: Totals, batch: ColumnBatch, *, is_anti: bool
) -> None:
    """Add the kernel that passes on changes of the left input with a match; for an anti join, those without a match."""
    k = ctx.kernel("passes on rows that the right input does not have" if is_anti else "passes on rows with a match")
    left_rows = left.row_table("left")
    k.use("hashing", "find")
    k.begin()
    cells = k.cells(right_keys, hashing.CELLS)
    with left.rows.open(k) as row:
        reserve(k, batch)
        key = left.key_of(k, row)
        passes = k.assign("b", str(is_anti))
        with left.matching(k, key):
            key = [Value(value.text, value.type) for value in key]
            left_rows.put_add(k, left_rows.put_locate(k, key, row), row.weight)
            put_key(k, right_keys, left.keys, key)
            slot = k.assign("slot", f"find({k.table(right_keys)})")
            there = f"{slot} >= 0 and {cells}[{slot} * {right_keys.stride} + {right_keys.key_words}] > 0"
            k.put(f"{passes} = not ({there})" if is_anti else f"{passes} = {there}")
        with k.block(f"if {passes}:"):
            batch.put_append(k, [row.values[field.name] for field in left.rows.fields], row.weight)
    k.put("return -1 if bad else 0")
    ctx.add(k, left.rows)
