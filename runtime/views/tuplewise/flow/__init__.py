"""Views of flows one delta at a time: the operators of `runtime.views.flow` on Python's own values.

::

    Flow ──▶ graph     straight-line source a set of relations, one call an operator, none for what did not change
               ├─ rows     scan and select: generated loops                    joins   inner, semi and anti
               ├─ groups   aggregates, generated; values: first and last       sets    DISTINCT, EXCEPT, INTERSECT
               └─ top      ORDER BY … LIMIT … OFFSET

A change is a list of (row, ±number); a step is a list for every relation that changed, so that what several rows do
together is said once.
"""

from __future__ import annotations

from runtime.views.tuplewise.flow.graph import FlowKernel

__all__ = ["FlowKernel"]
