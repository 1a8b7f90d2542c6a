"""Replacements of orders: what the new order inherits, also when the old one is younger than the batch."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from runtime.relations.orderlife import Operations, trace_lives

__all__ = ["Inherited", "OrderEvents", "inherit"]

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BEFORE = -1


class OrderEvents(msgspec.Struct, frozen=True):
    """What happens to orders in a batch, in feed order; arrays of one length.

    A replacement is two events: KILL of the old order and, behind it, ADD of the new one.
    """

    order_id: Integers
    """Which order."""
    kind: npt.NDArray[np.uint8]
    """ADD, REDUCE, KILL, or NONE for what touches no order."""
    volume: Integers
    """Added or taken away."""


class Inherited(msgspec.Struct, frozen=True):
    """Of each replacement; arrays of one length."""

    effective: Flags
    """Whether the old order was live."""
    root: Integers
    """The event that added the first order of the chain; -1 if that was live before the batch."""
    held: Integers
    """Then: which of the ``old`` orders given that was."""


def inherit(events: OrderEvents, kills: Integers, held_volume: Integers) -> Inherited:
    """Follow every replacement back to the order that it descends from.

    ``kills``: the events that end the old orders, in order; the event behind each adds the new one. ``held_volume``:
    volume of each old order before the batch, 0 where it was not live. A replacement of an order that is not live
    adds nothing, which may make others fail: so they are settled link by link, from the first of a chain on. In a feed
    that is whole one round is enough.
    """
    count = len(kills)
    if _are_alone(events.order_id, events.order_id.take(kills)) and held_volume.all():
        return Inherited(np.ones(count, np.bool_), np.full(count, _BEFORE), np.arange(count))
    dropped = np.zeros(count, np.bool_)  # replacements whose new order is never added
    settled = np.zeros(count, np.bool_)
    while True:
        effective, origin = _trace(events, kills, held_volume, kills[dropped] + 1)
        failed = ~effective & ~dropped
        if not failed.any():
            break
        new_ids = events.order_id[kills[~settled & ~dropped] + 1]
        known = ~settled & ~np.isin(events.order_id[kills], new_ids)
        if not known.any():  # orders that replace themselves: the earliest one comes first
            known[np.flatnonzero(~settled)[0]] = True
        settled |= known
        dropped |= known & failed
    # A replacement whose old order was added by another one points at that; jumps double until all are at a root.
    parent = np.searchsorted(kills + 1, np.maximum(origin, 0))
    parent = np.where((origin >= 0) & np.isin(origin, kills + 1), np.minimum(parent, count - 1), np.arange(count))
    while (further := parent[parent]).tolist() != parent.tolist():
        parent = further
    return Inherited(effective, origin[parent], parent)


def _are_alone(order_id: Integers, old_ids: Integers) -> bool:
    """Whether nothing else happens to the replaced orders, as in most small batches."""
    order_id = np.sort(order_id)
    lasts = order_id.searchsorted(old_ids, "right") - 1
    return not (order_id.take(lasts - 1) == old_ids)[lasts > 0].any()


def _trace(events: OrderEvents, kills: Integers, held_volume: Integers, without: Integers) -> tuple[Flags, Integers]:
    """Whether each replaced order was live, and the event that had added it; follows only events on such orders."""
    old_ids = events.order_id[kills]
    ids, first = np.unique(old_ids, return_index=True)
    place = np.minimum(np.searchsorted(ids, events.order_id), len(ids) - 1)
    concerned = (ids[place] == events.order_id) & (events.kind > 0)
    concerned[without] = False
    rows = np.flatnonzero(concerned)
    rows = rows[np.argsort(events.order_id[rows], kind="stable")]
    operations = Operations(
        events.order_id[rows], events.kind[rows], events.volume[rows], held_volume[first][place[rows]]
    )
    lives = trace_lives(operations)
    where = np.empty(len(events.order_id), np.int64)
    where[rows] = np.arange(len(rows))
    at = where[kills]
    origin = lives.origin[at]
    return lives.effective[at], np.where(origin >= 0, rows[np.maximum(origin, 0)], _BEFORE)
