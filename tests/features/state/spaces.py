"""Objects that the tests of the rows share: a space over a store that remembers the edits of the last commit."""

from __future__ import annotations

from typing import Any

import msgspec

from runtime.state import MemoryStore, ObjectSpace
from tests.generators.stores import UnreliableStore

__all__ = ["Bench", "edits_of"]


class Bench:
    """An object space, its store, and restarts."""

    def __init__(self) -> None:
        self.store = UnreliableStore(MemoryStore())
        self.space = ObjectSpace(self.store)

    def commit(self, *, full: bool = False) -> dict[tuple[str, int], Any]:
        """Commit; what was written, see `edits_of`."""
        self.space.commit(full=full)
        return edits_of(self.store)

    def restart(self) -> ObjectSpace:
        """Forget what was not committed."""
        self.space = ObjectSpace(self.store)
        return self.space


def edits_of(store: UnreliableStore) -> dict[tuple[str, int], Any]:
    """The last commit's edits: (table, key) → value, None for a delete; each place may be written once."""
    places = [(edit.table, edit.key) for edit in store.edits]
    assert len(set(places)) == len(places), "a place is written twice in one commit"
    return {place: _value(edit.data) for place, edit in zip(places, store.edits, strict=True)}


def _value(data: bytes | None) -> Any:
    """What was written, where that is MessagePack; runs are not."""
    if data is None:
        return None
    try:
        return msgspec.msgpack.decode(data)
    except msgspec.DecodeError:
        return data
