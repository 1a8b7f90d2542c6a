"""The tuple-wise kernel: executes a view program one delta at a time, for strategies that need microseconds.

::

    Program ──▶ kernel   one Python function a relation, generated             source, expressions, rows
                  │        linear: an entry before and after → rows
                  │        joined: statements as straight lines                joined
                  │        selected: conditions as functions                   selected
                  ▼
    apply(relation, row, ±1) ──▶ stores   dictionaries and ordered indexes     stores, blocked
                  │                └──▶ selections: bisection for thresholds   selection
                  ▼
             (view, row, ±1) …

`runtime.views.ShardState` is the kernel for batches: the same program, the same answers, a thousand rows for the price
of ten here, and ten for the price of a thousand.
"""

from __future__ import annotations

from runtime.views.tuplewise.errors import UnsupportedError
from runtime.views.tuplewise.program import TuplewiseProgram

__all__ = ["TuplewiseProgram", "UnsupportedError"]
