"""Rows of one side of a join, found by the key of the join.

State: `native.members.Members`. A record is the words of the key, in a type that both sides have, then the words of the
other columns, and the row's weight, which may be negative for a while. The key of a record is never NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final

from runtime.native.library import hashing
from runtime.native.members import Members
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.values import (
    Field,
    Value,
    load_fields,
    may_be_direct,
    nullable_places,
    string_places,
    words_of,
)
from runtime.views.feeds import Row, Rows, stop
from runtime.views.nodes.flow import FlowContext
from runtime.views.nodes.select import wider
from runtime.views.nodes.totals import put_key

__all__ = ["JoinRows", "JoinSide", "join_keys"]

_PADDING: Final = Field("padding", "int64")
"""The record of a row without columns."""


def join_keys(left: Rows, right: Rows, on: Sequence[tuple[str, str]]) -> tuple[Field, ...]:
    """Return the key of a join: columns in types that both sides have, none of which is NULL."""
    return tuple(
        Field(f"k{place}", wider(left.field(mine), right.field(theirs)).type) for place, (mine, theirs) in enumerate(on)
    )


class JoinSide:
    """One input of a join: its changes, and the records of its rows."""

    def __init__(self, ctx: FlowContext, rows: Rows, on: Sequence[str], keys: Sequence[Field]) -> None:
        """``on``: the column that each key is compared with."""
        self._ctx = ctx
        self.rows = rows
        self.on = tuple(on)
        self.keys = tuple(keys)
        self.rest = tuple(field for field in rows.fields if field.name not in on)
        """Columns that are not in the key."""
        self.record = (*self.keys, *self.rest) or (_PADDING,)
        """Fields of a record."""

    def row_table(self, name: str) -> JoinRows:
        """Return the side's records, a structure with a name."""
        return self._ctx.structure(name, lambda: JoinRows(self))

    def key_of(self, k: KernelSource, row: Row) -> list[Value]:
        """Return the key of a row, perhaps NULL."""
        return [k.emitter.cast(row.values[name], key.type) for name, key in zip(self.on, self.keys, strict=True)]

    @contextmanager
    def matching(self, k: KernelSource, key: Sequence[Value]) -> Iterator[None]:
        """Open the block for keys that are not NULL."""
        nulls = list(dict.fromkeys(value.null for value in key if value.null is not None))
        with k.block(f"if not ({' or '.join(nulls)}):") if nulls else nullcontext():
            yield

    def load_column(self, k: KernelSource, key: Sequence[Value], cells: str, place: str) -> list[Value]:
        """Write the lines that read a record with a known key; return the columns of the row."""
        values = load_fields(k, self.rest, cells, f"{place} + {words_of(self.keys)}")
        return self.columns(k, key, {field.name: value for field, value in zip(self.rest, values, strict=True)})

    def columns(self, k: KernelSource, key: Sequence[Value], rest: Mapping[str, Value]) -> list[Value]:
        """Return the columns of a row, by its key and its other columns."""
        values = dict(rest)
        for name, value in zip(self.on, key, strict=True):
            # A key that a record has came from this column, so that it fits.
            is_narrower = value.type == "int128" and self.rows.field(name).type == "int64"
            values[name] = Value(k.assign("v", f"narrow({value.text})"), "int64") if is_narrower else value
        return [values[field.name] for field in self.rows.fields]


class JoinRows(Members):
    """The rows of one side with their weights, listed by key."""

    def __init__(self, side: JoinSide) -> None:
        self._keys, self._rest, self._record = side.keys, side.rest, side.record
        super().__init__(words_of(side.keys), words_of(side.record), 1, is_direct=may_be_direct(side.keys))
        self.string_places = string_places(self._record)
        self.nullable_places = nullable_places(self._record)

    def put_locate(self, k: KernelSource, key: Sequence[Value], row: Row) -> str:
        """Write the lines that take the record of a row, whose key is not NULL; return its slot."""
        k.use("members", "locate_member")
        values = [*key, *(row.values[field.name] for field in self._rest)] or [Value("0", "int64")]
        put_key(k, self.records, self._record, values)
        slot = k.assign("slot", f"locate_member({k.table(self)})")
        status = k.need(self.make_room)
        with k.block(f"if {slot} < 0:"):
            stop(k, status)
        return slot

    def put_add(self, k: KernelSource, slot: str, weight: str) -> None:
        """Write the lines that add to the weight of a record; without weight it is removed."""
        k.use("members", "drop_member_if_zero")
        cells = k.cells(self.records, hashing.CELLS)
        at = k.assign("c", f"{slot} * {self.records.stride} + {self.records.key_words}")
        k.put(f"{cells}[{at}] += {weight}")
        with k.block(f"if {cells}[{at}] == 0:"):
            k.put(f"drop_member_if_zero({k.table(self)}, {slot})")

    @contextmanager
    def put_matches(self, k: KernelSource, key: Sequence[Value], *, cursor: int) -> Iterator[tuple[str, str, str]]:
        """Write the loop over the records of a key; gives their cells, a record's place in them, and its slot.

        ``cursor``: the kernel's number that holds the slot + 1 at which the loop resumes, or 0. The key is not NULL.
        """
        k.use("members", "first_member", "next_member")
        put_key(k, self.heads, self._keys, key)
        slot = k.assign("slot", f"s[{cursor}] - 1 if s[{cursor}] > 0 else first_member({k.table(self)})")
        cells = k.cells(self.records, hashing.CELLS)
        with k.block(f"while {slot} >= 0:"):
            place = k.assign("c", f"{slot} * {self.records.stride}")
            yield cells, place, slot
            k.put(f"{slot} = next_member({k.table(self)}, {slot})")
