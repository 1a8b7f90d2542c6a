"""Hash table of which the records with a positive count also stand in an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from runtime.native.library import hashing
from runtime.native.library import sorted_rows as kernel
from runtime.native.sorted_rows import SortedRows
from runtime.views.emission.kernel import KernelSource
from runtime.views.emission.order_words import OrderKey
from runtime.views.emission.values import Field, Value
from runtime.views.feeds import stop
from runtime.views.nodes.totals import RecordTable, put_key
from runtime.views.strings import Strings

__all__ = ["SortedTable"]

Words = npt.NDArray[np.int64]

_STALE: Final = -1


class SortedTable(RecordTable):
    """Records whose first value word is a count; those with a positive count stand in `rows`.

    The order words of strings are their ranks. An order by the strings' numbers would need no upkeep, but a comparison
    would then load the rank of each string that it passes; ranks are replaced rarely, and the replacement, which sorts
    all strings, costs more than to write the words again, which sorts nothing. The order is derived: after the records
    were loaded, or the ranks were replaced, it is stale, and a kernel that finds it so stops for `refresh`. Code that
    loads the groups loads the records too, as groups then have other slots.
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
        """``group``: the first key words of a record are a key of this table, whose slot is the first order word."""
        super().__init__(keys, value_words, is_result=is_result)
        self.order = tuple(order)
        """Criteria by which the records are ordered, after the group."""
        self._group = group
        self._strings = strings
        self._ranks = strings.ranks() if any(key.field.type == "string" for key in order) else None
        self.rows = SortedRows((group is not None) + sum(key.words for key in order))
        """The order."""
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
        """Make room for the scratch key, and for its place in the order."""
        super().make_room(records)
        self.rows.make_room(self._room())

    def load(self, records: Words) -> None:
        """Make these the records; the order is built when a kernel asks for it, when all tables are loaded."""
        super().load(records)
        self._is_loaded = True
        self.rows.views[kernel.META][kernel.GENERATION] = _STALE

    def refresh(self) -> None:
        """Build the order again."""
        records = self.records()
        if self._is_loaded:
            slots = self.slots()
            slots = slots[self._stands(records[slots, self.key_words])]
        else:
            slots = self.rows.slots()
        self.rows.build(slots, self._order_words(records[slots]), rows=self._room(), is_sorted=not self._is_loaded)
        self.rows.make_room(self._room())
        self.rows.views[kernel.META][kernel.GENERATION] = self._generation()
        if self._is_loaded:
            self._is_loaded = False
            self._derive()

    def _stands(self, counts: Words) -> npt.NDArray[np.bool_]:
        """Return True if records with these counts stand in the order."""
        return counts > 0

    def _derive(self) -> None:
        """Derive all else that follows from loaded records and their order."""

    def _order_words(self, records: Words) -> Words:
        columns = [] if self._group is None else [self._group.find_all(records[:, : self._group.key_words])]
        for key in self.order:
            columns += key.columns(records, self._strings)
        return np.stack(columns, axis=1)

    def put_refresh(self, k: KernelSource) -> None:
        """Write the lines that stop a kernel, at its head, while the order is stale."""
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
        """Write the lines that write the order words of a record; ``group``: the slot of its group."""
        cells, words = k.cells(self, hashing.CELLS), k.cells(self.rows, kernel.WORDS)
        record = k.assign("c", f"{slot} * {self.stride}")
        names = [] if group is None else [group]
        for key in self.order:
            names += key.put(k, cells, record, self._strings)
        place = k.assign("c", f"{slot} * {self.rows.width}")
        for number, name in enumerate(names):
            k.put(f"{words}[{place} + {number}] = {name}")

    def nbytes(self) -> int:
        """Return bytes of its own arrays and of the order."""
        return super().nbytes() + self.rows.nbytes()

    def _check(self) -> None:
        """Assert every invariant."""
        super()._check()
        self.rows._check()
        if self._is_stale():
            return
        slots, records = self.slots(), self.records()
        slots = slots[self._stands(records[slots, self.key_words])]
        assert sorted(self.rows.slots().tolist()) == slots.tolist()
        assert (self.rows.order_words()[slots] == self._order_words(records[slots])).all()
