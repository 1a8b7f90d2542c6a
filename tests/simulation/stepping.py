"""Runs an ingest's tasks one at a time, in an order that its workers could have taken them."""

from __future__ import annotations

import random

from runtime.engine.ingest import Ingest

__all__ = ["NoWorkers", "Stepping"]


class NoWorkers:
    """In the place of worker threads."""

    def __init__(self, queue: object, count: int, on_error: object) -> None:
        self.queue = queue
        self.count = count
        self.on_error = on_error

    def start(self) -> None: ...

    def join(self, timeout_seconds: float) -> bool:
        return True


class Stepping:
    def __init__(self, ingest: Ingest, chance: random.Random) -> None:
        self._ingest = ingest
        self._chance = chance

    @property
    def can_step(self) -> bool:
        return len(self._ingest._queue) > 0

    def step(self) -> None:
        queue = self._ingest._queue
        heads = [q for q in (queue._internal, queue._admitted) if q]
        task = (heads[0] if self._chance.random() < 0.7 else heads[-1]).popleft()
        try:
            task()
        except Exception as error:  # noqa: BLE001 (as workers do)
            self._ingest._on_error(error)

    def stop(self) -> None:
        self._ingest.stop()
