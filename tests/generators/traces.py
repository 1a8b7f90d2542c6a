"""Order-book traces in DBToaster's format, from a seed: ``t,id,action,volume,price``."""

from __future__ import annotations

import random
from collections.abc import Iterator

__all__ = ["trace"]

_START_MS = 34_200_000
_MIDDLE = 250_000


def trace(seed: int, messages: int, *, gap_ms: int = 3) -> list[str]:
    """Return ``messages`` lines without line ends; the same seed gives the same lines.

    The mix resembles recorded traces: adds, executions of a part or of more than the rest, deletes, full executions,
    trades without an order, and sometimes a message for an unknown order.
    """
    return list(_lines(random.Random(seed), messages, gap_ms))


def _lines(chance: random.Random, messages: int, gap_ms: int) -> Iterator[str]:
    live: dict[int, int] = {}
    time_ms, next_id = _START_MS, 1
    for _ in range(messages):
        time_ms += chance.randint(0, 2 * gap_ms)
        what = chance.random()
        if what < 0.6 or not live:
            next_id += chance.randint(1, 3)
            live[next_id] = chance.randint(1, 20) * 50
            side = chance.choice("BS")
            away = int(chance.expovariate(1 / 800)) - 100  # some orders cross: a recorded book may
            price = _MIDDLE + (-away if side == "B" else away) // 100 * 100
            yield f"{time_ms},{next_id},{side},{live[next_id]},{price}"
            continue
        order = chance.choice(list(live)) if what < 0.97 else next_id + 1_000_000
        left = live.get(order, 0)
        if what < 0.75:
            del live[order]
            yield f"{time_ms},{order},D,0,0"
        elif what < 0.9:
            volume = min(chance.randint(1, 12) * 50, left + 50)
            live[order] -= volume
            if live[order] <= 0:
                del live[order]
            yield f"{time_ms},{order},E,{volume},0"
        elif what < 0.93:
            del live[order]
            yield f"{time_ms},{order},F,{left},0"
        elif what < 0.97:
            yield f"{time_ms},0,{chance.choice('TTXC')},100,{_MIDDLE}"
        else:
            yield f"{time_ms},{order},{chance.choice('DEF')},50,0"
