"""What a replacement inherits from an order that was live before the batch, and when it inherits nothing."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.relations._replaces import OrderEvents, inherit
from runtime.relations.orderlife import ADD, KILL, REDUCE

Event = tuple[int, int, int]


def replaced(old: int, new: int, volume: int = 3) -> list[Event]:
    return [(old, KILL, 0), (new, ADD, volume)]


@pytest.mark.parametrize(
    ("events", "kills", "held", "effective"),
    [
        (replaced(1, 2), [0], [5], [True]),
        (replaced(1, 2) + replaced(7, 8), [0, 2], [5, 9], [True, True]),
        (replaced(1, 2) + replaced(7, 8), [0, 2], [5, 0], [True, False]),
        ([(1, REDUCE, 2), *replaced(1, 2)], [1], [5], [True]),
        ([(1, REDUCE, 5), *replaced(1, 2)], [1], [5], [False]),
        ([(1, KILL, 0), *replaced(1, 2)], [1], [5], [False]),
        ([*replaced(1, 2), (1, KILL, 0)], [0], [5], [True]),
        (replaced(1, 2) + replaced(1, 3), [0, 2], [5, 5], [True, False]),
        (replaced(1, 1) + replaced(1, 1), [0, 2], [5, 5], [True, True]),
    ],
)
def test_an_order_that_was_live_is_replaced_unless_something_ended_it(
    events: list[Event], kills: list[int], held: list[int], effective: list[bool]
) -> None:
    order_id, kind, volume = np.array(events).T
    found = inherit(OrderEvents(order_id, kind.astype(np.uint8), volume), np.array(kills), np.array(held))
    assert found.effective.tolist() == effective
    for place, is_effective in enumerate(effective):
        if is_effective:
            assert found.root[place] == -1
            assert held[found.held[place]] == held[place]
