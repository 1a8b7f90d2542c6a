"""Installs the simulated disk in code that opens the real one in Spark's own processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

from runtime.compiler import compile_program, extend_program
from runtime.epochs import Disk, EpochLogReader, ResultLog, SnapshotDirectory, read_segment
from runtime.service import catalogue
from runtime.service.lanes import express
from runtime.service.rundir import upkeep
from runtime.spark import lane, planning, reading, source
from tests.simulation.memo import Memo
from tests.simulation.threads import Threads

__all__ = ["simulated_edges"]

_compiled = Memo(compile_program)
_extended = Memo(extend_program)


@contextmanager
def simulated_edges(disk: Disk, threads: Threads, used_bytes: Callable[[Path], int]) -> Iterator[None]:
    """Make the runtime use this disk and the world's threads, and compile nothing twice, in a `with` block.

    ``used_bytes`` returns the size of a directory as the runtime finds it.
    """

    class Results(ResultLog):
        @classmethod
        def versions_in(cls, directory, disk=disk):  # type: ignore[no-untyped-def]
            return super().versions_in(directory, disk)

    with ExitStack() as stack:
        for module in (lane, planning, reading, source, upkeep):
            stack.enter_context(patch.object(module, "EpochLogReader", partial(EpochLogReader, disk=disk)))
        for module in (source, upkeep):
            stack.enter_context(patch.object(module, "SnapshotDirectory", partial(SnapshotDirectory, disk=disk)))
        stack.enter_context(patch.object(express, "SnapshotDirectory", partial(SnapshotDirectory, disk=disk)))
        stack.enter_context(patch.object(upkeep, "threading", threads))
        stack.enter_context(patch.object(upkeep, "used_bytes", used_bytes))
        stack.enter_context(patch.object(source, "ResultLog", Results))
        for module in (planning, reading):
            stack.enter_context(patch.object(module, "read_segment", lambda path: read_segment(path, disk)))
        stack.enter_context(patch.object(catalogue, "compile_program", _compiled))
        stack.enter_context(patch.object(catalogue, "extend_program", _extended))
        planning.load_program.cache_clear()
        try:
            yield
        finally:
            planning.load_program.cache_clear()
