"""Books after a trace in DBToaster's format: a simple replay, one line at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Order = tuple[int, int, int, int, int]
"""Fields of an order: t, id, broker_id, volume, price."""
Books = dict[str, list[Order]]
BROKERS = 10


def replay(lines: Sequence[str], every: int = 0) -> Iterator[Books]:
    """Yield the books after every ``every`` lines and at the end; with 0 at the end only."""
    live: dict[int, tuple[str, Order]] = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().split(",")
        t, order_id, action, volume, price = int(text[0]), int(text[1]), text[2], int(text[3]), int(text[4])
        if action in "BS":
            live[order_id] = action, (t, order_id, order_id % BROKERS, volume, price)
        elif action == "E" and order_id in live:
            side, order = live[order_id]
            left = order[3] - volume
            if left > 0:
                live[order_id] = side, (*order[:3], left, order[4])
            else:
                del live[order_id]
        elif action in "FD":
            live.pop(order_id, None)
        if number == len(lines) or (every and number % every == 0):
            yield {
                "bids": [order for side, order in live.values() if side == "B"],
                "asks": [order for side, order in live.values() if side == "S"],
            }
