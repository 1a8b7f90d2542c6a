"""Filling of views that are new in a program: the rows of their relations become deliveries for each view alone.

The rows are added up first, so that a row that was removed cannot fail a view that was added later.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec
import pyarrow as pa

from runtime.native.tiers import Kernels
from runtime.plan import Program, columns_of, only_view
from runtime.views.routing import Delivery, deliveries_of

__all__ = ["columns_to_fill", "fill_of"]


def columns_to_fill(program: Program, views: Collection[str]) -> dict[str, set[str]]:
    """Return a dict from each relation to the columns of it that these views' maps read."""
    columns: dict[str, set[str]] = {}
    for number in set().union(*(view.body.maps() for view in program.views if view.name in views)):
        map_ = program.maps[number]
        columns.setdefault(map_.relation, set()).update(columns_of(map_))
    return columns


def fill_of(
    program: Program,
    views: Collection[str],
    tables: Mapping[str, pa.Table],
    shards: int,
    kernels: Kernels | None = None,
) -> Iterator[Delivery]:
    """Yield the deliveries of these rows (relation → columns, ``weight``) to shards, each for one of the new views."""
    for name in views:
        alone, numbers = only_view(program, name)
        for delivery in deliveries_of(alone, tables, shards, kernels):
            part = msgspec.structs.replace(delivery.part, map=numbers[delivery.part.map])
            yield msgspec.structs.replace(delivery, part=part, view=name)
