"""Inner join: pairs of rows whose keys are equal; without keys the product.

Algebra: the join is bilinear, Δ(L ⋈ R) = ΔL ⋈ R + (L + ΔL) ⋈ ΔR (Gupta, Mumick, Subrahmanian: *Maintaining Views
Incrementally*, SIGMOD 1993). A pair's weight is the product of its rows' weights, of any sign. NULL equals nothing: a
row with NULL in its key is neither held nor joined.

State: one `JoinRows` per side.

Code: one kernel per side. It takes a row's record, walks along the other side's list of the key, and then adds the
row's weight to the record. Where the batch has no room it stops within the list (``s[2]``: the next record + 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.plan import JoinNode
from runtime.views.emission.values import Value
from runtime.views.feeds import ColumnBatch, Rows
from runtime.views.nodes.flow import BatchRows, FlowContext, reserve
from runtime.views.nodes.join_rows import JoinRows, JoinSide, join_keys

__all__ = ["lower"]


def lower(node: JoinNode, inputs: Sequence[Rows], ctx: FlowContext) -> Rows:
    """Put an inner join into the graph."""
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
    """Add the kernel that joins the changes of one side with the rows of the other one."""
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
                theirs = other.load_column(k, key, cells, place)
                weight = k.assign("x", f"wide({row.weight}) * wide({cells}[{place} + {other_rows.records.key_words}])")
                k.put(f"bad |= not fits({weight})")
                batch.put_append(k, [*ours, *theirs] if is_left else [*theirs, *ours], f"narrow({weight})")
            k.put("s[2] = 0")
            my_rows.put_add(k, slot, row.weight)
    k.put("return -1 if bad else 0")
    ctx.add(k, mine.rows)
