"""Interface to compiled kernels for their users, and the wait for them that is worth while."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from runtime.native.tiers import MachineKernel

__all__ = ["Kernels", "await_kernels"]

_FEW_ROWS: Final = 20_000
_INTERPRETED_S: Final = 5e-6
"""Rough time that an interpreted kernel takes for a row."""
_LONGEST_WAIT_S: Final = 60.0


class Kernels(Protocol):
    """Provider of compiled kernels: see `runtime.native.cache.KernelCache`."""

    def get(self, source: str) -> MachineKernel | None:
        """Return the compiled kernel of a source, or None."""

    def request(self, sources: Sequence[str]) -> None:
        """Compile these in the background."""

    def wait(self, sources: Sequence[str], timeout_s: float) -> bool:
        """Request these, and wait until all are compiled or cannot be; return whether all are compiled."""


def await_kernels(kernels: Kernels, sources: Sequence[str], rows: int) -> bool:
    """Wait for kernels before many rows, at most as long as interpreting them would take; return whether it waited."""
    if rows <= _FEW_ROWS:
        return False
    kernels.wait(sources, min(_LONGEST_WAIT_S, rows * _INTERPRETED_S))
    return True
