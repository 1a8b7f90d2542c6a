"""A node: one kernel, the table that it is called with, and the loop that makes room for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

import numpy as np

from runtime.native.structures import Batch, Structure
from runtime.native.tiers import plain_kernel
from runtime.views.emission.kernel import KernelSource
from runtime.views.errors import ViewOverflowError

__all__ = ["Node"]

_FAILED: Final = -1


class Node:
    """One kernel of a graph, in its present tier."""

    def __init__(self, source: KernelSource, views: Collection[str], inputs: Iterable[Batch] = ()) -> None:
        """``views``: those that fail with the node; ``inputs``: it has nothing to do while none of these has rows."""
        source.resolve()
        self._source = source
        self.views = frozenset(views)
        self.text = source.text()
        """Its kernel source."""
        self._table = Structure(1 + len(source.links))
        self._table.put(0, np.zeros(source.numbers, np.int64))
        for place, structure in enumerate(source.links, 1):
            self._table.link(place, structure)
        self._numbers = self._table.views[0]
        self.kernel: Callable[..., int] = plain_kernel(self.text)
        """Its kernel in its present tier."""
        self._argument: object = self._table.views
        self._error: Exception | None = None
        self.is_compiled = False
        """True if it runs compiled."""
        self.address = self._table.address
        """The table that its compiled kernel is called with."""
        self.inputs = tuple(dict.fromkeys(inputs))
        """It has nothing to do while none of these has rows; empty: it runs in every step."""

    @property
    def numbers(self) -> memoryview:
        """The kernel's own numbers."""
        numbers: memoryview = self._numbers
        return numbers

    def use(self, kernel: Callable[[int], int]) -> None:
        """Run compiled from now on; everything held stays as it is."""
        self.kernel, self._argument, self.is_compiled = kernel, self._table.address, True

    def resolve(self) -> None:
        """Update constants after strings were renumbered."""
        self._source.resolve()

    def run(self) -> None:
        """Take in what the inputs hold; raise `ViewOverflowError` where a number passes its limit."""
        if not self.inputs or any(batch.rows for batch in self.inputs):
            while status := self.call():
                self.attend(status)

    def call(self, _: object = None) -> int:
        """Call the kernel once; return its status, which `attend` takes unless it is 0."""
        try:
            return self.kernel(self._argument)
        except Exception as error:  # noqa: BLE001 (an interpreted kernel has a mistake: `attend` raises it)
            self._error = error
            return _FAILED

    def attend(self, status: int) -> None:
        """Make the room that the kernel has asked for; raise why it has failed if it has."""
        if status > 0:
            self._source.rooms[status - 1]()
            return
        self._numbers[0] = 0
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise ViewOverflowError(
            "expected integers of at most 126 bits, and of 64 in columns of that size, was a larger one"
        )
