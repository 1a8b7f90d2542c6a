"""Durable list of readers: an object of the space, edited in the epoch in which a reader is added or dropped."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from deltabook.wire.readers import NewReader
from runtime.compiler import MARKET_RELATIONS
from runtime.plan import Column, DerivedInput, Relation
from runtime.service.inputs.event_time import MARKET_INPUTS, time_of
from runtime.service.inputs.feed import FEED
from runtime.state import ObjectSpace, PersistedValue, Schema

__all__ = ["FEED_ADAPTOR", "KeptReader", "KeptReaders", "Left", "load", "own_relation", "space_of", "store"]

_NAME: Final = "readers"
FEED_ADAPTOR: Final = "orderbook"
"""Adaptor of a feed, which fills the relations of the market; every other adaptor fills a relation of its own."""


class KeptReader(msgspec.Struct, frozen=True):
    """Reader that was added."""

    number: int
    """Number of the reader's origin; never reused."""
    wanted: NewReader
    """Request with which the reader was added."""
    since: int
    """First epoch in which the reader exists."""
    is_leaving: bool = False
    """True once the reader was dropped and reads no more, while the rows of its relation are still to be deleted."""


class Left(msgspec.Struct, frozen=True):
    """Relation that a dropped reader has filled, and that no reader fills any more."""

    relation: Relation
    """The relation; its columns cannot change, because the log has rows of it."""
    stays: bool
    """True if the rows of the relation still exist."""


class KeptReaders(msgspec.Struct, frozen=True):
    """All readers that were added, and the relations of dropped ones; immutable."""

    readers: tuple[KeptReader, ...] = ()
    """Readers in the order of their creation."""
    left: tuple[Left, ...] = ()
    """Relations of dropped readers."""
    next: int = 1
    """Number of the next reader; the feed has number 0."""

    def find(self, name: str) -> KeptReader | None:
        """Return the reader of this name; None if there is none."""
        return next((reader for reader in self.readers if reader.wanted.name == name), None)

    def with_reader(self, reader: KeptReader) -> KeptReaders:
        """Return a copy with one more reader."""
        return msgspec.structs.replace(self, readers=(*self.readers, reader), next=reader.number + 1)

    def leaving(self, name: str) -> KeptReaders:
        """Return a copy in which a reader is leaving."""
        changed = [
            msgspec.structs.replace(reader, is_leaving=True) if reader.wanted.name == name else reader
            for reader in self.readers
        ]
        return msgspec.structs.replace(self, readers=tuple(changed))

    def without(self, name: str, *, stays: bool) -> KeptReaders:
        """Return a copy without a reader; ``stays`` is True if the rows of its relation stay."""
        gone = self.find(name)
        relation = own_relation(gone.wanted) if gone is not None else None
        left = self.left
        if relation is not None:
            left = (*[each for each in left if each.relation.name != relation.name], Left(relation, stays))
        return msgspec.structs.replace(
            self, readers=tuple([reader for reader in self.readers if reader is not gone]), left=left
        )

    def relations(self) -> tuple[Relation, ...]:
        """Return the relations that views may use: those of the market, of readers, and of dropped readers whose rows
        stay."""
        own = [own_relation(reader.wanted) for reader in self.readers if not reader.is_leaving]
        stayed = [left.relation for left in self.left if left.stays]
        known = {relation.name: relation for relation in (*MARKET_RELATIONS, *stayed, *own) if relation is not None}
        return tuple(known.values())

    def inputs(self) -> tuple[DerivedInput, ...]:
        """Return the relations that derived streams may read: trades, touches, and those of readers."""
        readable = list(MARKET_INPUTS)
        for reader in self.readers:
            own = own_relation(reader.wanted)
            if own is not None and not reader.is_leaving:
                wanted = reader.wanted
                deletes = "deletions" in wanted.options
                kept = wanted.keep.time_column if wanted.keep is not None else None
                readable.append(DerivedInput(own, "" if deletes else time_of(own, wanted.options, kept)))
        return tuple(readable)

    def relations_of(self, inputs: Collection[str] = (FEED,)) -> dict[str, frozenset[str]]:
        """Return reader → the relations that it fills; ``inputs`` are the inputs with which the runtime was started."""
        market = frozenset(relation.name for relation in MARKET_RELATIONS)
        filled = dict.fromkeys(inputs, market)
        for reader in self.readers:
            if not reader.is_leaving:
                own = own_relation(reader.wanted)
                filled[reader.wanted.name] = market if own is None else frozenset({own.name})
        return filled


def own_relation(wanted: NewReader) -> Relation | None:
    """Return the relation that a reader alone fills; None for a feed, which fills the relations of the market."""
    if wanted.adaptor == FEED_ADAPTOR:
        return None
    columns = tuple(Column(each.name, each.type, each.nullable, each.scale) for each in wanted.columns)
    return Relation(wanted.relation or wanted.name, columns)


def space_of(number: int) -> str:
    """Return the prefix of the names of a reader's objects in the space."""
    return f"reader/{number}"


def load(space: ObjectSpace) -> KeptReaders:
    """Return the readers in the space; an empty record for a directory that has never had a reader."""
    kept: KeptReaders = space.get_or_create(PersistedValue, _NAME, Schema(KeptReaders), initial=KeptReaders()).value
    return kept


def store(space: ObjectSpace, kept: KeptReaders) -> None:
    """Record the readers in the open epoch."""
    space.get(PersistedValue[KeptReaders], _NAME, Schema(KeptReaders)).value = kept
