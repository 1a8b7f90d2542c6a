"""What of the readers is durable: an object of the space, whose edits are of the epoch in which they came or went."""

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

__all__ = ["OWN_ADAPTOR", "KeptReader", "KeptReaders", "Left", "load", "own_relation", "space_of", "store"]

_NAME: Final = "readers"
OWN_ADAPTOR: Final = "orderbook"
"""Fills the market's relations; all other adaptors fill one of their own."""


class KeptReader(msgspec.Struct, frozen=True):
    """A reader that was added."""

    number: int
    """Its origin's; never given again."""
    wanted: NewReader
    """As it was asked for."""
    since: int
    """The epoch from which on it is there."""
    is_leaving: bool = False
    """It was dropped and reads no more; the rows of its relation have yet to go."""


class Left(msgspec.Struct, frozen=True):
    """A relation that no reader fills any more."""

    relation: Relation
    """Its columns are its own for good: the log has rows of it."""
    stays: bool
    """Whether its rows are still there."""


class KeptReaders(msgspec.Struct, frozen=True):
    """All readers but the runtime's own feed."""

    readers: tuple[KeptReader, ...] = ()
    """In the order in which they came."""
    left: tuple[Left, ...] = ()
    """Relations of those that have gone."""
    next: int = 1
    """The number of the next one; the feed is 0."""

    def find(self, name: str) -> KeptReader | None:
        """The reader of this name."""
        return next((reader for reader in self.readers if reader.wanted.name == name), None)

    def with_reader(self, reader: KeptReader) -> KeptReaders:
        """With one more."""
        return msgspec.structs.replace(self, readers=(*self.readers, reader), next=reader.number + 1)

    def leaving(self, name: str) -> KeptReaders:
        """With a reader that reads no more."""
        changed = [
            msgspec.structs.replace(reader, is_leaving=True) if reader.wanted.name == name else reader
            for reader in self.readers
        ]
        return msgspec.structs.replace(self, readers=tuple(changed))

    def without(self, name: str, *, stays: bool) -> KeptReaders:
        """Without a reader; ``stays``: the rows of its relation do."""
        gone = self.find(name)
        relation = own_relation(gone.wanted) if gone is not None else None
        left = self.left
        if relation is not None:
            left = (*[each for each in left if each.relation.name != relation.name], Left(relation, stays))
        return msgspec.structs.replace(
            self, readers=tuple([reader for reader in self.readers if reader is not gone]), left=left
        )

    def relations(self) -> tuple[Relation, ...]:
        """What views may use: the market's, those of readers that are not leaving, and those whose rows have stayed."""
        own = [own_relation(reader.wanted) for reader in self.readers if not reader.is_leaving]
        stayed = [left.relation for left in self.left if left.stays]
        relations_by_name = {
            relation.name: relation for relation in (*MARKET_RELATIONS, *stayed, *own) if relation is not None
        }
        return tuple(relations_by_name.values())

    def inputs(self) -> tuple[DerivedInput, ...]:
        """What derived streams may read: trades and touches, and what readers that are not leaving fill."""
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
        """Reader → the relations that it fills; ``inputs``, which the runtime was started with, are among them."""
        market = frozenset(relation.name for relation in MARKET_RELATIONS)
        filled = dict.fromkeys(inputs, market)
        for reader in self.readers:
            if not reader.is_leaving:
                own = own_relation(reader.wanted)
                filled[reader.wanted.name] = market if own is None else frozenset({own.name})
        return filled


def own_relation(wanted: NewReader) -> Relation | None:
    """The relation that a reader alone fills; None for a feed, which fills the market's."""
    if wanted.adaptor == OWN_ADAPTOR:
        return None
    columns = tuple(Column(each.name, each.type, each.nullable, each.scale) for each in wanted.columns)
    return Relation(wanted.relation or wanted.name, columns)


def space_of(number: int) -> str:
    """What the names of a reader's objects in the space begin with."""
    return f"reader/{number}"


def load(space: ObjectSpace) -> KeptReaders:
    """What is kept; of a directory that knows of no readers, nothing."""
    kept: KeptReaders = space.get_or_create(PersistedValue, _NAME, Schema(KeptReaders), initial=KeptReaders()).value
    return kept


def store(space: ObjectSpace, kept: KeptReaders) -> None:
    """Keep this from the epoch on that is open."""
    space.get(PersistedValue[KeptReaders], _NAME, Schema(KeptReaders)).value = kept
