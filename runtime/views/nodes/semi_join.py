"""Semi join and anti join: rows of the left input that have, or do not have, a match on the right.

Algebra: the semi join is linear in its left input, and depends on the right one only by the set of its keys, whose
change is what `Distinct` emits: a key whose weight becomes positive, or no longer is. Such a key adds or removes all of
its left rows (Griffin, Libkin: *Incremental Maintenance of Views with Duplicates*, SIGMOD 1995). The right input is
applied first. NULL equals nothing, so that a left row with NULL in its key passes the anti join only.

State: `JoinRows` of the left input; `Totals` (weight by key) of the right one, which remember what they were before the
step, so that a key counts once however often its weight changes within the step.

Code: one kernel per input. That of the right input has two loops: over its rows (``s[0]``), and over the keys that they
have touched (``s[2]``; ``s[3]``: the next left record + 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.native.library import hashing
from runtime.plan import SemiNode
from runtime.views.emission.values import Value, load_fields
from runtime.views.feeds import ColumnBatch, Rows
from runtime.views.nodes.flow import BatchRows, FlowContext, reserve
from runtime.views.nodes.join_rows import JoinSide, join_keys
from runtime.views.nodes.totals import Totals, put_key, put_locate

__all__ = ["lower"]


def lower(node: SemiNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Put a semi or anti join into the graph."""
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
    """Add the kernel that counts keys of the right input, and emits the left rows of those that come or go."""
    k = ctx.kernel("emits rows whose key comes or goes on the right")
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
                batch.put_append(k, left.load_column(k, fields, left_cells, at), weight)
            k.put("s[3] = 0")
        k.put("i += 1")
    k.put("s[0] = 0", "s[2] = 0", f"settle({t})", "return -1 if bad else 0")
    ctx.add(k, right.rows)


def _add_left_kernel(
    ctx: FlowContext, left: JoinSide, right_keys: Totals, batch: ColumnBatch, *, is_anti: bool
) -> None:
    """Add the kernel that passes on the changes of the left input whose key is, or is not, on the right."""
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
