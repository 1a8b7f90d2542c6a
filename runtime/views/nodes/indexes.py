"""Indexes that nodes share: records by a part of their key or in an order, and weights and sums by ranges of a key.

Algebra: SUM and COUNT are linear, as for `totals`, so the index of a delta is added to the index of the map.

`MemberIndex` finds records by a part of their key. A record whose weight and sums are all 0 is removed. State:
`native.indexes.Members`; a record has the words of the given keys, of the other keys, the weight, and two words for
each sum.

`MapOrder` finds weight and sums over a range of one key, as differences of prefix sums. State:
`native.ordered.OrderedIndex`; a record is the words of the group keys, the ordered key, the weight, and two words a
sum. Rows in which one of these keys is NULL match nothing and are left out.

`SortedTable` finds records in an order. State: a table, and the slots of its records in a `native.indexes.SortedRows`.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.native.indexes import Members, SortedRows
from runtime.native.library import dense, entries, hashing
from runtime.native.library import sorted_rows as kernel
from runtime.native.ordered import OrderedIndex
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, Value, may_be_direct, nullable_places, string_places, words_of
from runtime.views.errors import ViewError
from runtime.views.feeds import Feed, stop
from runtime.views.nodes.node import Node
from runtime.views.nodes.totals import RecordTable, put_add, put_key, put_slot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from runtime.plan import View
    from runtime.views.emission.order_words import OrderKey
    from runtime.views.graph import GraphBuilder
    from runtime.views.strings import Strings

__all__ = [
    "MapOrder",
    "MemberIndex",
    "SortedTable",
    "members_node",
    "members_of",
    "order_of",
    "ordered_index",
    "ordered_node",
    "put_entry",
    "put_group",
]

Words = npt.NDArray[np.int64]

_STALE: Final = -1
"""Generation of an order that must be rebuilt."""


class MemberIndex(Members):
    """Records of a map with weight and sums, found by some of the keys; a given key that is NULL matches nothing."""

    def __init__(self, given: Sequence[Field], rest: Sequence[Field], sums: Sequence[str]) -> None:
        self.given = tuple(msgspec.structs.replace(field, nullable=False) for field in given)
        """Given keys, which are never NULL."""
        self.rest = tuple(rest)
        """Other keys, which a look-up finds."""
        self.keys = (*self.given, *self.rest)
        self.sums = tuple(sums)
        is_direct = may_be_direct(self.given)
        super().__init__(words_of(self.given), words_of(self.keys), 1 + 2 * len(sums), is_direct=is_direct)
        self.string_places = string_places(self.keys)
        self.nullable_places = nullable_places(self.keys)


def members_of(feed: Feed, on: Collection[str]) -> MemberIndex:
    """Return an empty index over a map by the keys ``on``, in the order of the map's keys."""
    given = [key for key in feed.keys if key.name in on]
    return MemberIndex(given, [key for key in feed.keys if key.name not in on], feed.sums)


def members_node(feed: Feed, index: MemberIndex, strings: Strings, views: Collection[str]) -> Node:
    """Return the node that adds a feed's rows to an index."""
    k = KernelSource("keeps records by some of their keys", strings)
    k.use("members", "drop_member_if_zero", "locate_member")
    k.begin()
    t = k.table(index)
    status = k.need(index.make_room)
    with feed.open(k) as row:
        values = [row.values[field.name] for field in index.keys]
        nulls = [value.null for value in values[: len(index.given)] if value.null is not None]
        with k.block(f"if not ({' or '.join(nulls)}):" if nulls else "if True:"):
            put_key(k, index.records, index.keys, values)
            slot = k.assign("slot", f"locate_member({t})")
            with k.block(f"if {slot} < 0:"):
                stop(k, status)
            put_add(k, index.records, slot, row.weight, feed.sums_of(row))
            k.put(f"drop_member_if_zero({t}, {slot})")
    k.put("return -1 if bad else 0")
    return Node(k, views, feed.batches)


class SortedTable(RecordTable):
    """Records whose first value word is a count; the records with a positive count are in `rows`, in order.

    The order words of strings are their ranks, which must be written again when ranks are replaced. Ranks are replaced
    rarely, and the replacement sorts all strings, which costs more than writing the words. If the words were
    numbers of strings, they would never change, but each comparison would have to load the ranks.

    The order is derived from the records. After records were loaded or ranks were replaced, the order is stale; a
    kernel that finds it stale stops, so that `refresh` is called. Code that loads the groups must also load the
    records, because groups then have other slots.
    """

    def __init__(
        self,
        keys: Sequence[Field],
        value_words: int,
        order: Sequence[OrderKey],
        strings: Strings,
        *,
        group: RecordTable | None = None,
        is_result: bool = False,
    ) -> None:
        """Begin an empty table.

        ``group`` is the table of groups: the first key words of a record are a key of ``group``, and the first order
        word is the group's slot.
        """
        super().__init__(keys, value_words, is_result=is_result)
        self.order = tuple(order)
        """Criteria by which the records are ordered, after the group."""
        self._group = group
        self._strings = strings
        self._ranks = strings.ranks() if any(key.field.type == "string" for key in order) else None
        self.rows = SortedRows((group is not None) + sum(key.words for key in order))
        """Slots of the records in order."""
        self._is_loaded = False
        self.rows.views[kernel.META][kernel.GENERATION] = self._generation()
        self.rows.make_room(self._room())

    def _room(self) -> int:
        return int(self.views[hashing.META][hashing.ROOM])

    def _generation(self) -> int:
        return 0 if self._ranks is None else int(self._ranks.views[1][0])

    def _is_stale(self) -> bool:
        self._strings.refresh()
        return bool(self.rows.views[kernel.META][kernel.GENERATION] != self._generation())

    def make_room(self, records: int = 1) -> None:
        """Make room for the scratch key, for this many more records, and for their places in the order."""
        super().make_room(records)
        self.rows.make_room(self._room())

    def load(self, records: Words) -> None:
        """Replace the records; the order is built when a kernel needs it, after all tables are loaded."""
        super().load(records)
        self._is_loaded = True
        self.rows.views[kernel.META][kernel.GENERATION] = _STALE

    def refresh(self) -> None:
        """Rebuild the order."""
        records = self.records()
        if self._is_loaded:
            slots = self.slots()
            slots = slots[self._is_ordered(records[slots, self.key_words])]
        else:
            slots = self.rows.slots()
        self.rows.build(slots, self._order_words(records[slots]), rows=self._room(), is_sorted=not self._is_loaded)
        self.rows.make_room(self._room())
        self.rows.views[kernel.META][kernel.GENERATION] = self._generation()
        if self._is_loaded:
            self._is_loaded = False
            self._derive()

    def _is_ordered(self, counts: Words) -> npt.NDArray[np.bool_]:
        """Return an array that is True for the counts with which a record is in the order."""
        return counts > 0

    def _derive(self) -> None:
        """Derive the other data that depends on loaded records and their order."""

    def _order_words(self, records: Words) -> Words:
        columns = [] if self._group is None else [self._group.find_all(records[:, : self._group.key_words])]
        for key in self.order:
            columns += key.columns(records, self._strings)
        return np.stack(columns, axis=1)

    def put_refresh(self, k: KernelSource) -> None:
        """Write the lines at the head of a kernel that stop it while the order is stale."""
        generation = "0" if self._ranks is None else f"{k.cells(self._ranks, 1)}[0]"
        status = k.need(self.refresh)
        with k.block(f"if {k.cells(self.rows, kernel.META)}[{kernel.GENERATION}] != {generation}:"):
            k.put(f"return {status}")

    def put_locate(self, k: KernelSource, values: Sequence[Value]) -> str:
        """Write the lines that find or add a record, with room in the order; return its slot."""
        k.use("hashing", "locate")
        k.use("sorted_rows", "has_row_room")
        put_key(k, self, self.keys, values)
        slot, status = k.assign("slot", f"locate({k.table(self)})"), k.need(self.make_room)
        with k.block(f"if {slot} < 0 or not has_row_room({k.table(self.rows)}, {slot}):"):
            stop(k, status)
        return slot

    def put_order(self, k: KernelSource, slot: str, group: str | None = None) -> None:
        """Write the lines that set the order words of a record. ``group`` is the slot of its group."""
        cells, words = k.cells(self, hashing.CELLS), k.cells(self.rows, kernel.WORDS)
        record = k.assign("c", f"{slot} * {self.stride}")
        names = [] if group is None else [group]
        for key in self.order:
            names += key.put(k, cells, record, self._strings)
        place = k.assign("c", f"{slot} * {self.rows.width}")
        for number, name in enumerate(names):
            k.put(f"{words}[{place} + {number}] = {name}")

    def nbytes(self) -> int:
        """Return the size of the table's arrays and of the order, in bytes."""
        return super().nbytes() + self.rows.nbytes()

    def _check(self) -> None:
        """Assert every invariant."""
        super()._check()
        self.rows._check()
        if self._is_stale():
            return
        slots, records = self.slots(), self.records()
        slots = slots[self._is_ordered(records[slots, self.key_words])]
        assert sorted(self.rows.slots().tolist()) == slots.tolist()
        assert (self.rows.order_words()[slots] == self._order_words(records[slots])).all()


class MapOrder(OrderedIndex):
    """Entries of a map by group keys and an ordered key."""

    def __init__(self, keys: Sequence[Field], ordered: Field, sums: Sequence[str]) -> None:
        if ordered.type not in ("int64", "date", "timestamp"):
            raise ViewError(f"expected ranges of an integer key, was {ordered.type}")
        self.keys = tuple(msgspec.structs.replace(field, nullable=False) for field in keys)
        """Group keys, which are never NULL."""
        self.ordered = ordered.name
        """Name of the ordered key."""
        self.sum_names = tuple(sums)
        """Names of the sums of an entry."""
        super().__init__(words_of(self.keys), len(self.sum_names))
        self.string_places = string_places(self.keys)


def order_of(feed: Feed, on: Collection[str], ordered: str) -> MapOrder:
    """Return an empty index over a map, with the group keys in the order of the map's keys."""
    keys = [key for key in feed.keys if key.name in on]
    return MapOrder(keys, next(key for key in feed.keys if key.name == ordered), feed.sums)


def put_group(k: KernelSource, index: MapOrder, values: Sequence[Value], call: str) -> str:
    """Write the lines that find the number of a group, by a direct index or by a call; return its identifier.

    ``call`` is source that reads the scratch group key, such as a call of `ordered.group_of` or `ordered.locate_group`.
    """
    if not index.keys:
        return "0"
    return put_slot(k, index.groups, index.keys, values, call)


def put_entry(k: KernelSource, index: MapOrder, weight: str, sums: Sequence[Value]) -> None:
    """Write the lines that store the weight and sums to be added to an entry."""
    cells = k.cells(index, entries.VALUES)
    k.put(f"{cells}[0] = {weight}")
    for number, value in enumerate(sums):
        k.put(f"store_wide({cells}, {1 + 2 * number}, {value.wide_text})")


@contextmanager
def _added_to_cell(
    k: KernelSource, index: MapOrder, group: str, key: str, row: tuple[str, Sequence[Value]]
) -> Iterator[None]:
    """Write the lines that add a weight and sums to a cell and its block; `finish` does the rest.

    Lines written within the context run for rows that are not added this way. As the numbers do not pass through
    memory, a batch takes a fifth less time than with `add`.
    """
    weight, sums = row
    base, beyond, window = (
        k.fixed(index, entries.META, number) for number in (entries.BASE, entries.BEYOND, entries.WINDOW)
    )
    cells, offset = k.cells(index, entries.CELLS), k.assign("i", f"{key} - {base}")
    with k.block(f"if is_lazy and {offset} & {beyond} == 0:"):
        cell = k.assign("cell", f"{group} * {window} + {offset}")
        at = k.assign("at", f"{cell} * {index.entry_words}")
        before, after = k.assign("b", f"{cells}[{at}]"), k.name("a")
        k.put(f"{after} = narrow(wide({before}) + wide({weight}))", f"{cells}[{at}] = {after}")
        for number, value in enumerate(sums):
            low, high = f"{at} + {1 + 2 * number}", f"{cells}[{at} + {2 + 2 * number}]"
            k.put(f"{before} |= {high}", f"store_wide({cells}, {low}, load_wide({cells}, {low}) + {value.wide_text})")
            k.put(f"{after} |= {high}")
        with k.block("if keeps_blocks:"):
            blocks, block = k.cells(index, entries.BLOCKS), k.name("block")
            k.put(f"{block} = ({cell} >> {dense.BLOCK_SHIFT}) * {index.entry_words}")
            k.put(f"{blocks}[{block}] = narrow(wide({blocks}[{block}]) + wide({weight}))")
            for number, value in enumerate(sums):
                low = f"{block} + {1 + 2 * number}"
                k.put(f"store_wide({blocks}, {low}, load_wide({blocks}, {low}) + {value.wide_text})")
        with k.block(f"if ({before} | {after}) >> {entries.LARGE_SHIFT} != 0:"):
            put_entry(k, index, weight, sums)
            k.put(f"note_added({k.table(index)}, {cell})")
    with k.block("else:"):
        yield


def ordered_node(feed: Feed, index: MapOrder, strings: Strings, views: Collection[str]) -> Node:
    """Return the node that adds a feed's rows to an index."""
    k = KernelSource("keeps entries in order", strings)
    k.use("ordered", "add", "begin", "finish", "locate_group")
    k.use("dense", "note_added")
    k.begin()
    t, meta = k.table(index), k.cells(index, entries.META)
    with k.block("if s[0] == 0:"):
        k.put(f"begin({t}, {k.cells(feed.batch, 0)}[0])")
    k.put(
        f"is_lazy = {meta}[{entries.DEFERRED}] > 0 and {meta}[{entries.LARGE}] == 0",
        f"keeps_blocks = {meta}[{entries.DEFERRED}] < {dense.DEFERRED_BLOCKS}",
    )
    status = k.need(index.make_room)
    wanted = [*(field.name for field in index.keys), index.ordered, *(field.name for field in feed.sum_fields)]
    with feed.open(k, wanted) as row:
        key = row.values[index.ordered]
        values = [row.values[field.name] for field in index.keys]
        nulls = [value.null for value in (*values, key) if value.null is not None]
        with k.block(f"if not ({' or '.join(nulls)}):" if nulls else "if True:"):
            group = put_group(k, index, values, f"locate_group({t})")
            with k.block(f"if {group} < 0:"):
                stop(k, status)
            sums = feed.sums_of(row)
            with _added_to_cell(k, index, group, key.text, (row.weight, sums)):
                put_entry(k, index, row.weight, sums)
                with k.block(f"if add({t}, {group}, {key.text}, {index.sums}) < 0:"):
                    stop(k, status)
    k.put(f"finish({t})", f"return -1 if bad or {meta}[{entries.BAD}] else 0")
    return Node(k, views, feed.batches)


def ordered_index(builder: GraphBuilder, view: View, number: int, on: Collection[str], ordered: str) -> MapOrder:
    """Return the index of a map's entries by group keys and an ordered key; views share it."""
    names = [key.name for key in builder.program.maps[number].keys if key.name in on]
    return builder.indexed(
        view,
        number,
        f"ordered {','.join(names)};{ordered}",
        lambda feed: order_of(feed, names, ordered),
        lambda feed, index: ordered_node(feed, index, builder.strings, [view.name]),
    )
