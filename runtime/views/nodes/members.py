"""Members: the records of a map by some of its keys, for joins that find several records for a row.

Algebra: as of totals; the index of a delta is added to the index. A record whose weight and sums are all 0 is gone.

State: `native.members.Members`; a record is the words of the keys that are given, of those that are found, the weight,
and two words a sum.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from runtime.native.members import Members
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import Field, may_be_direct, nullable_places, string_places, words_of
from runtime.views.feeds import Feed, stop
from runtime.views.nodes.node import Node
from runtime.views.nodes.totals import put_add, put_key
from runtime.views.strings import Strings

__all__ = ["MemberIndex", "members_node", "members_of"]


class MemberIndex(Members):
    """Records of a map with weight and sums: some keys are given (a NULL in them matches nothing), others are found."""

    def __init__(self, given: Sequence[Field], rest: Sequence[Field], sums: Sequence[str]) -> None:
        self.given = tuple(msgspec.structs.replace(field, nullable=False) for field in given)
        """Never NULL."""
        self.rest = tuple(rest)
        """Match of a look-up."""
        self.keys = (*self.given, *self.rest)
        self.sums = tuple(sums)
        is_direct = may_be_direct(self.given)
        super().__init__(words_of(self.given), words_of(self.keys), 1 + 2 * len(sums), is_direct=is_direct)
        self.string_places = string_places(self.keys)
        self.nullable_places = nullable_places(self.keys)


def members_of(feed: Feed, on: Collection[str]) -> MemberIndex:
    """Return an empty index over a map; the keys ``on`` are given, in the order of the map's keys."""
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
