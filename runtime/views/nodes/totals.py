"""Totals: a table of keys with weight and sums, maintained by adding up the deltas of a map.

Algebra: SUM and COUNT are linear, so the totals of a sum of multisets are the sum of their totals; a delta of weight w
adds w times its values. A table that is a result (`is_result`) remembers each group as it was before the step, and
`show` derives from this the rows that a view removes and adds (Gupta, Mumick: *Maintenance of Materialized Views*,
1995).

State: `HashTable`; a record is the key's words, the weight, and two words a sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from runtime.native.library import hashing
from runtime.native.structures import HashTable
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import (
    Field,
    Value,
    may_be_direct,
    nullable_places,
    store_field,
    string_places,
    words_of,
)
from runtime.views.feeds import Feed, stop
from runtime.views.nodes.node import Node
from runtime.views.strings import Strings

__all__ = ["RecordTable", "Totals", "put_add", "put_key", "put_locate", "put_slot", "put_touch", "totals_node"]

_PREFETCHED_ROWS: Final = 8
"""Distance, in rows, from the current row to the later row whose index cell is prefetched."""


class RecordTable(HashTable):
    """Hash table whose key has fields."""

    def __init__(
        self, keys: Sequence[Field], value_words: int, *, is_result: bool = False, is_direct: bool = False
    ) -> None:
        super().__init__(words_of(keys), value_words, is_result=is_result, is_direct=is_direct)
        self.keys = tuple(keys)
        """Fields of the key."""
        self.string_places = string_places(keys)
        self.nullable_places = nullable_places(keys)


class Totals(RecordTable):
    """Table from keys to weight and sums."""

    def __init__(self, keys: Sequence[Field], sums: Sequence[str], *, is_result: bool = False) -> None:
        super().__init__(keys, 1 + 2 * len(sums), is_result=is_result, is_direct=may_be_direct(keys))
        self.sums = tuple(sums)
        """Names of the sums."""


def put_key(k: KernelSource, table: HashTable, keys: Sequence[Field], values: Sequence[Value]) -> None:
    """Write the lines that store a key in the table's scratch key."""
    cells = k.cells(table, hashing.KEY) if keys else ""
    place = 0
    for field, value in zip(keys, values, strict=True):
        store_field(k, field, value, cells, str(place))
        place += field.words


def put_slot(k: KernelSource, table: HashTable, keys: Sequence[Field], values: Sequence[Value], call: str) -> str:
    """Write the lines that find the slot of a key, by a direct index or by a call; return the slot's identifier.

    ``call`` is the source of a call that finds the slot of the scratch key.
    """
    if not table.may_be_direct:
        return _put_hashed_slot(k, table, keys, values, call)
    index, meta = k.cells(table, hashing.INDEX), hashing.META
    is_direct, base, mask = (k.fixed(table, meta, number) for number in (hashing.DIRECT, hashing.BASE, hashing.MASK))
    slot, offset = k.assign("slot", "-1"), k.assign("i", f"{values[0].word()} - {base}")
    with k.block(f"if {is_direct} and 0 <= {offset} <= {mask}:"):
        k.put(f"{slot} = {index}[{offset}] - 1")
    with k.block(f"if {slot} < 0:"):
        put_key(k, table, keys, values)
        k.put(f"{slot} = {call}")
    return slot


def _put_hashed_slot(
    k: KernelSource, table: HashTable, keys: Sequence[Field], values: Sequence[Value], call: str
) -> str:
    """Write the lines of `put_slot` for a hashed index; its first cell finds most keys."""
    if not keys or any(field.words > 1 or field.type == "bool" for field in keys):
        put_key(k, table, keys, values)
        return k.assign("slot", call)
    index, cells = k.cells(table, hashing.INDEX), k.cells(table, hashing.CELLS)
    words = [k.assign("k", value.word()) for value in values]
    state = "0"
    for word in words:
        state = f"mix({state}, {word})"
    slot = k.assign("slot", f"{index}[{state} & {k.fixed(table, hashing.META, hashing.MASK)}] - 1")
    differs = [f"{cells}[{slot} * {table.stride} + {place}] != {word}" for place, word in enumerate(words)]
    with k.block(f"if {slot} < 0 or {' or '.join(differs)}:"):
        put_key(k, table, keys, values)
        k.put(f"{slot} = {call}")
    return slot


def put_locate(
    k: KernelSource, table: RecordTable, values: Sequence[Value], stops: Callable[[int], None] | None = None
) -> str:
    """Write the lines that find or add the record of a key; return its slot.

    ``stops`` writes the lines that end the kernel if there is no room; by default `feeds.stop`.
    """
    if not table.keys:
        return "0"
    k.use("hashing", "locate")
    slot = put_slot(k, table, table.keys, values, f"locate({k.table(table)})")
    status = k.need(table.make_room)
    with k.block(f"if {slot} < 0:"):
        if stops is None:
            stop(k, status)
        else:
            stops(status)
    return slot


def put_touch(k: KernelSource, table: HashTable, slot: str) -> None:
    """Write the lines that save a record as it was before the step, unless it has already changed in this step."""
    k.use("hashing", "touch")
    with k.block(f"if {k.cells(table, hashing.STAMPS)}[{slot}] != {k.fixed(table, hashing.META, hashing.STEP)}:"):
        k.put(f"touch({k.table(table)}, {slot})")


def put_add(k: KernelSource, table: HashTable, slot: str, weight: str, sums: Sequence[Value]) -> None:
    """Write the lines that add a weight and sums to a record; a sum past its limit sets ``bad``."""
    cells = k.cells(table, hashing.CELLS)
    place = k.assign("c", f"{slot} * {table.stride} + {table.key_words}")
    k.put(f"{cells}[{place}] += {weight}")
    for number, value in enumerate(sums):
        at = f"{place} + {1 + 2 * number}"
        total = k.assign("x", f"load_wide({cells}, {at}) + {value.wide_text}")
        k.put(f"bad |= outside({total})", f"store_wide({cells}, {at}, {total})")


def totals_node(feed: Feed, table: Totals, on: Sequence[str], strings: Strings, views: Collection[str]) -> Node:
    """Return the node that adds a feed's rows to a table by some of the feed's keys (``on``, in the table's order)."""
    k = KernelSource("adds rows up by key", strings)
    k.use("hashing", "touch", "drop_if_zero")
    k.begin()
    if not table.keys:
        _put_single(k, feed, table)
    else:
        with feed.open(k, [*on, *(field.name for field in feed.sum_fields)]) as row:
            _put_prefetch(k, feed, table, on)
            values = [row.values[name] for name in on]
            known = [value.null for value, field in zip(values, table.keys, strict=True)
                     if value.null is not None and not field.nullable]  # fmt: skip
            with k.block(f"if not ({' or '.join(known)}):" if known else "if True:"):
                slot = put_locate(k, table, values)
                if table.is_result:
                    put_touch(k, table, slot)
                put_add(k, table, slot, row.weight, feed.sums_of(row))
                if not table.is_result:
                    _put_drop(k, table, slot)
    k.put("return -1 if bad else 0")
    return Node(k, views, feed.batches)


def _put_prefetch(k: KernelSource, feed: Feed, table: HashTable, on: Sequence[str]) -> None:
    """Write the lines that prefetch the index cell of a later row, if its key consists of columns of the batch."""
    places = [place for name in on if (place := feed.key_place(name)) is not None]
    if table.may_be_direct or len(places) < len(on):
        return
    ahead, state = k.assign("ahead", f"e + {_PREFETCHED_ROWS}"), "0"
    with k.block(f"if {ahead} < rows:"):
        for place in places:
            state = f"mix({state}, {k.cells(feed.batch, place)}[{ahead}])"
        k.put(f"prefetch({k.cells(table, hashing.INDEX)}, {state} & {k.fixed(table, hashing.META, hashing.MASK)})")


def _put_drop(k: KernelSource, table: HashTable, slot: str) -> None:
    """Write the lines that remove an empty record, unless `HashTable.make_room` does that."""
    weight = f"{k.cells(table, hashing.CELLS)}[{slot} * {table.stride} + {table.key_words}]"
    with k.block(f"if {k.fixed(table, hashing.META, hashing.DROPS)} and {weight} == 0:"):
        k.put(f"drop_if_zero({k.table(table)}, {slot})")


def _put_single(k: KernelSource, feed: Feed, table: Totals) -> None:
    """Write the loop for a table without keys, whose one record is added up in local variables."""
    names = [k.assign("total", "wide(0)") for _ in table.sums]
    k.put("count = 0")
    with feed.open(k, [field.name for field in feed.sum_fields]) as row:
        k.put(f"count += {row.weight}")
        for name, value in zip(names, feed.sums_of(row), strict=True):
            k.put(f"{name} = {name} + {value.wide_text}", f"bad |= outside({name})")
    with k.block("if rows > 0:"):
        if table.is_result:
            k.put(f"touch({k.table(table)}, 0)")
        put_add(k, table, "0", "count", [Value(name, "int128") for name in names])
