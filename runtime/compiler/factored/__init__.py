"""Sums over joins, and over rows selected by conditions on aggregates: the maps contain factors of the sums, not rows.

::

    SELECT ──▶ Tables: relations, conditions, columns, groups                                tables
                 │
                 ├─ joined     equal columns and ranges (ranges),
                 │             then maps of joins and their deltas (recursion)               ──▶ Joined
                 └─ selected   conditions on an ordered column and aggregates                ──▶ Selected

`joined` and `selected` expand every sum into products of factors (`polynomial`, `tables`). Each factor reads one
relation. Base maps contain the sums of the factors (`runtime.compiler.maps`).
"""

from __future__ import annotations

from runtime.compiler.factored.joined import joined_view
from runtime.compiler.factored.selected import selected_view

__all__ = ["joined_view", "selected_view"]
