"""Sorting a batch by order, and orders that have one message each."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.relations.orderlife import ADD, KILL, REDUCE, Operations, sorted_stably, trace_lives


@pytest.mark.parametrize("count", [0, 1, 200, 3000])
@pytest.mark.parametrize(("lowest", "highest"), [(0, 9), (10**15, 10**15 + 500), (-(2**63), 2**63 - 1), (-5, 2**62)])
def test_messages_of_an_order_stay_in_their_order(count: int, lowest: int, highest: int) -> None:
    order_id = np.random.default_rng(count).integers(lowest, highest, count, endpoint=True)
    order_id[count // 2 :] = order_id[: count - count // 2].copy()
    found, order = sorted_stably(order_id)
    assert order.tolist() == sorted(range(count), key=lambda place: (int(order_id[place]), place))
    assert found.tolist() == order_id[order].tolist()


def test_orders_with_one_message_are_traced_as_those_with_several() -> None:
    """The same orders with one more message, which changes nothing for them."""
    cases = [(kind, volume, held) for kind in (ADD, REDUCE, KILL) for volume in (1, 5, 2**62) for held in (0, 1, 5, 9)]
    kind, volume, held = np.array(cases).T
    order_id = np.arange(len(cases))
    single = trace_lives(Operations(order_id, kind.astype(np.uint8), volume, held))
    extra = [len(cases)] * 2
    several = trace_lives(
        Operations(
            np.append(order_id, extra),
            np.append(kind, [ADD, KILL]).astype(np.uint8),
            np.append(volume, [1, 1]),
            np.append(held, [0, 0]),
        )
    )
    for name in ("effective", "origin", "before", "after"):
        assert getattr(single, name).tolist() == getattr(several, name)[:-2].tolist(), name
    for name in ("last_of_order", "final_origin", "final_volume"):
        assert getattr(single, name).tolist() == getattr(several, name)[:-1].tolist(), name
    assert (single.unknown, single.duplicates) == (several.unknown, several.duplicates)
