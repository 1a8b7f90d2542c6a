"""Owner of a table whose records are also found by a part of their key: it makes room, and reads and restores them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing, members
from runtime.native.structures import HashTable, RecordStructure

__all__ = ["Members"]

Words = npt.NDArray[np.int64]


class Members(RecordStructure):
    """Key → values, with a list of the records for each head (the first words of a key): see `library.members`."""

    def __init__(self, head_words: int, key_words: int, value_words: int, *, is_direct: bool = False) -> None:
        """``is_direct``: the head is one word, an integer that may be dense."""
        super().__init__(4)
        assert 0 <= head_words <= key_words > 0
        self.put(members.META, np.zeros(1, np.int64))
        self.records = HashTable(key_words, value_words)
        """The records; its scratch key is a whole key."""
        self.heads = HashTable(head_words, 1, is_direct=is_direct)
        """Head → slot of the first record + 1; its scratch key is a head."""
        self.link(members.RECORDS, self.records)
        self.link(members.HEADS, self.heads)
        self._extend_links()

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.records)

    def make_room(self) -> None:
        """Make room where `members.locate_member` found none."""
        if self.views[members.META][members.WANTED] == members.HEADS:
            self.heads.make_room()
        else:
            self.records.make_room()
            self._extend_links()

    def _extend_links(self) -> None:
        words = 2 * int(self.records.views[hashing.META][hashing.ROOM])
        links = self._arrays[members.LINKS]
        if links is None:
            self.put(members.LINKS, np.zeros(words, np.int64))
        elif len(self.array(members.LINKS)) < words:
            self.extend(members.LINKS, words)

    def dump(self) -> Words:
        """Return the records, shape (records, words of a record)."""
        return self.records.dump()

    def load(self, records: Words) -> None:
        """Make these the records; keys do not repeat."""
        self.records.load(records)
        head_words = self.heads.key_words
        heads = records[:, :head_words]
        # Equal heads become neighbours; the list of each one then goes from one slot to the next in this order.
        order = np.lexsort(heads.T) if head_words else np.arange(len(records))
        ordered = heads[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        first = order[begins]
        self.heads.load(np.column_stack([heads[first], first + 1]).astype(np.int64))
        self.put(members.LINKS, np.zeros(2 * int(self.records.views[hashing.META][hashing.ROOM]), np.int64))
        links = self.array(members.LINKS).reshape(-1, 2)
        follows = ~begins[1:]
        links[order[:-1][follows], 0] = order[1:][follows] + 1
        links[order[1:][follows], 1] = order[:-1][follows] + 1
        links[first, 1] = -1 - np.arange(len(first))

    def nbytes(self) -> int:
        """Return bytes of its own arrays and of its tables."""
        return super().nbytes() + self.records.nbytes() + self.heads.nbytes()

    def _check(self) -> None:
        """Assert every invariant."""
        self._check_nulls()
        self.records._check()
        self.heads._check()
        links = self.array(members.LINKS).reshape(-1, 2)
        cells, head_cells = self.records.records(), self.heads.records()
        seen: set[int] = set()
        heads = self.heads.slots().tolist() if self.heads.key_words else [0]
        assert len(heads) == len(self.heads)
        for head in heads:
            before, slot = -1 - head, int(head_cells[head, -1]) - 1
            while slot >= 0:
                assert slot not in seen
                seen.add(slot)
                assert links[slot, 1] == before
                assert (cells[slot, : self.heads.key_words] == head_cells[head, :-1]).all()
                before, slot = slot + 1, int(links[slot, 0]) - 1
        assert seen == set(self.records._live().tolist())
        assert len(seen) == len(self.records)
