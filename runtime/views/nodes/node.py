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
    """One kernel of a graph, which is interpreted until it is compiled."""

    def __init__(self, source: KernelSource, views: Collection[str], inputs: Iterable[Batch] = ()) -> None:
        """Make a node of a kernel.

        ``views`` are those that fail with the node. The node runs in each step in which one of ``inputs`` has rows; if
        there are no ``inputs``, it runs in every step.
        """
        source.resolve()
        self._source = source
        self.views = frozenset(views)
        self.text = source.text()
        """Source of the kernel."""
        self._table = Structure(1 + len(source.links))
        self._table.put(0, np.zeros(source.numbers, np.int64))
        for place, structure in enumerate(source.links, 1):
            self._table.link(place, structure)
        self._numbers = self._table.views[0]
        self.kernel: Callable[..., int] = plain_kernel(self.text)
        """The kernel: interpreted, or compiled after `use`."""
        self._argument: object = self._table.views
        self._error: Exception | None = None
        self.is_compiled = False
        """True if the kernel is compiled."""
        self.address = self._table.address
        """Address of the table with which the compiled kernel is called."""
        self.inputs = tuple(dict.fromkeys(inputs))
        """Batches that the node reads: it runs in each step in which one of them has rows. Without inputs, it runs in
        every step."""

    @property
    def numbers(self) -> memoryview:
        """The kernel's own numbers."""
        numbers: memoryview = self._numbers
        return numbers

    def use(self, kernel: Callable[[int], int]) -> None:
        """Use the compiled kernel from now on; the state does not change."""
        self.kernel, self._argument, self.is_compiled = kernel, self._table.address, True

    def resolve(self) -> None:
        """Update constants after strings were renumbered."""
        self._source.resolve()

    def run(self) -> None:
        """Process the rows of the inputs; raise `ViewOverflowError` if a number passes its limit."""
        if not self.inputs or any(batch.rows for batch in self.inputs):
            while status := self.call():
                self.attend(status)

    def call(self, _: object = None) -> int:
        """Call the kernel once; return its status, which must be passed to `attend` unless it is 0."""
        try:
            return self.kernel(self._argument)
        except Exception as error:  # noqa: BLE001 (an interpreted kernel has a mistake: `attend` raises it)
            self._error = error
            return _FAILED

    def attend(self, status: int) -> None:
        """Make the room that the kernel needs; if the kernel has failed, raise the reason."""
        if status > 0:
            self._source.rooms[status - 1]()
            return
        self._numbers[0] = 0
        error, self._error = self._error, None
        if error is not None:
            raise error
        raise ViewOverflowError(
            "expected integers of at most 126 bits, of 64 in columns of that size, and of the digits of a CAST to "
            "DECIMAL, was a larger one"
        )
