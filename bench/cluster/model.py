"""A model of throughput and freshness: the costs of a message and a batch, distributed over processes and cores.

```
feeds ─▶ runtimes that read (one core each) ─▶ epochs ─▶ batch after batch: driver │ executors │ publishing ─▶ results
              └─▶ passed on by the runtime with the views (one core)
```

A batch takes everything that is sealed when it begins. The time of a batch is that of the serial part (waiting,
planning and tasks in the driver, publishing) plus that of the executors. The executors' time is their work divided by
the cores, but at least the work of the busiest shard, or of the views that are in one shard. If all processes share a
machine, a batch gets only the cores that the other processes leave. Everything is a pure function of `Costs` and a
`Layout`.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["Costs", "Layout", "Outcome", "batch_s", "burst", "busiest_share", "limits", "steady"]

_MOST_BATCHES: Final = 100_000
_SAMPLES: Final = 40
_LEAST_CORES: Final = 0.05
_LEAST_US: Final = 1e-3


class Costs(msgspec.Struct, frozen=True):
    """Costs: processor time, except for `wait_ms` and `epoch_ms`."""

    ingest_us: float
    """Microseconds per message in the runtime that reads its feed."""
    pass_us: float
    """Microseconds per message of an upstream in the runtime with the views."""
    publish_ms: float
    """Milliseconds per batch in the Python of the runtime with the views."""
    publish_shard_ms: float
    """Milliseconds per shard of a batch in the Python of the runtime with the views."""
    driver_ms: float
    """Milliseconds per batch in the driver."""
    driver_task_ms: float
    """Milliseconds per task in the driver."""
    executor_us: float
    """Microseconds per message in the executors."""
    executor_task_ms: float
    """Milliseconds per task in an executor."""
    single_us: float
    """Part of `executor_us` for the state of views that are in one shard."""
    daemon_cores: float
    """Cores used by an idle worker."""
    wait_ms: float
    """Milliseconds per batch spent waiting (syncs, hand-overs), not computing."""
    epoch_ms: float = 100.0
    """Milliseconds between epochs."""


class Layout(msgspec.Struct, frozen=True):
    """Processes of a system and their load."""

    workers: int
    """Number of workers of the cluster."""
    cores: int
    """Cores of each worker."""
    shards: int
    """Number of shards of the view program."""
    runtimes: int
    """Number of runtimes that read feeds. A single runtime also has the views; several are upstreams of a further
    runtime with the views.
    """
    symbols: int
    """Number of symbols by which views are distributed."""
    shared_cores: int | None = None
    """Cores of the machine that all processes share; None: each runtime and each worker has a machine of its own."""


class Outcome(msgspec.Struct, frozen=True):
    """Result of the model."""

    rate: float
    """Messages per second, from the first sent to the last published."""
    p50_ms: float
    """Median age of a message in its first version, in milliseconds."""
    p99_ms: float
    """99th percentile of the age, in milliseconds."""
    batch_s: float
    """Median time of a batch in seconds."""


def busiest_share(symbols: int, shards: int) -> float:
    """Return the share of evenly active symbols that the busiest shard has."""
    counts = np.zeros(shards, np.int64)
    for number in range(symbols):
        counts[zlib.crc32(b"S%03d" % number) % shards] += 1
    return float(counts.max() / symbols)


def batch_s(costs: Costs, layout: Layout, messages: float, busy_cores: float = 0.0) -> float:
    """Return the seconds of a batch of ``messages``, while other work keeps ``busy_cores`` of a shared machine busy."""
    source_tasks = 1 if messages < 10_000 else layout.shards
    tasks = layout.shards + source_tasks
    driver = (costs.driver_ms + costs.driver_task_ms * tasks + costs.publish_ms) / 1e3
    driver += costs.publish_shard_ms * layout.shards / 1e3
    work = messages * costs.executor_us / 1e6 + costs.executor_task_ms * tasks / 1e3
    spread = messages * max(0.0, costs.executor_us - costs.single_us) / 1e6
    longest = costs.executor_task_ms / 1e3 + max(
        messages * costs.single_us / 1e6, spread * busiest_share(layout.symbols, layout.shards)
    )
    cores = float(min(layout.workers * layout.cores, layout.shards))
    if layout.shared_cores is None:
        return costs.wait_ms / 1e3 + driver + max(work / cores, longest)
    free = max(_LEAST_CORES, layout.shared_cores - busy_cores - costs.daemon_cores * layout.workers)
    # Serial work of one core is also slower if less than a core is left for it.
    serial = costs.wait_ms / 1e3 + driver / min(1.0, free)
    return serial + max(work / min(cores, free), longest / min(1.0, free))


def _reading(costs: Costs, layout: Layout) -> tuple[float, float]:
    """Return the largest number of messages per second that can enter epochs, and the number of cores that reading uses
    for each message per second.
    """
    if layout.runtimes == 1:
        return _per_s(costs.ingest_us), costs.ingest_us / 1e6
    each = (costs.ingest_us + costs.pass_us) / 1e6
    most = min(layout.runtimes * _per_s(costs.ingest_us), _per_s(costs.pass_us))
    return (most if layout.shared_cores is None else min(most, layout.shared_cores / max(each, 1e-12))), each


def limits(costs: Costs, layout: Layout) -> dict[str, float]:
    """Return the messages per second at which each part reaches its limit, for batches so large that their fixed cost
    vanishes.
    """
    cores = min(layout.workers * layout.cores, layout.shards)
    spread_us = costs.executor_us - costs.single_us
    found = {
        "reading the feeds": layout.runtimes * _per_s(costs.ingest_us),
        "executors": cores * _per_s(costs.executor_us),
        "views in one shard": _per_s(costs.single_us),
        "the busiest shard": _per_s(spread_us * busiest_share(layout.symbols, layout.shards)),
    }
    if layout.runtimes > 1:
        found["passing on"] = _per_s(costs.pass_us)
    if layout.shared_cores is not None:
        found["the machine"] = layout.shared_cores * _per_s(1e6 * _reading(costs, layout)[1] + costs.executor_us)
    return found


def _per_s(cost_us: float) -> float:
    """Return how many operations a core does per second; a cost of 0 is replaced by a small one to keep the result
    finite.
    """
    return 1e6 / max(cost_us, _LEAST_US)


def burst(costs: Costs, layout: Layout, messages: int) -> Outcome:
    """Return the outcome of messages sent at once; on a shared machine, reading takes at most half of the cores, and
    Spark the rest.
    """
    most, each = _reading(costs, layout)
    if layout.shared_cores is not None:
        most = min(most, layout.shared_cores / 2 / max(each, 1e-12))
    return _play(costs, layout, messages, most, each * most)


def steady(costs: Costs, layout: Layout, rate: float, seconds: float = 30.0) -> Outcome:
    """Return the outcome of a steady rate; if the rate is too high, ages grow with ``seconds``."""
    most, each = _reading(costs, layout)
    return _play(costs, layout, round(rate * seconds), min(rate, most), each * min(rate, most), rate)


def _play(  # noqa: PLR0917 (the load and its rates)
    costs: Costs, layout: Layout, messages: int, read_rate: float, busy_cores: float, sent_rate: float | None = None
) -> Outcome:
    """Simulate the sealing of epochs, and the batches; each batch takes everything that is sealed when it begins."""
    epoch_s, now_s, done = costs.epoch_ms / 1e3, 0.0, 0.0
    taken: list[float] = []
    ages: list[npt.NDArray[np.float64]] = []
    counts: list[float] = []
    while done < messages and len(taken) < _MOST_BATCHES:
        sealed = min(float(messages), now_s // epoch_s * epoch_s * read_rate)
        if messages / read_rate <= now_s:  # the last epoch is sealed as soon as its messages are read
            sealed = float(messages)
        if sealed <= done:
            now_s = min(now_s // epoch_s * epoch_s + epoch_s, max(now_s + 1e-6, messages / read_rate))
            continue
        busy = busy_cores if now_s < messages / read_rate else 0.0
        took = batch_s(costs, layout, sealed - done, busy)
        now_s += took
        taken.append(took)
        if sent_rate is not None:
            ages.append(now_s - np.linspace(done, sealed, _SAMPLES) / sent_rate)
            counts.append(sealed - done)
        done = sealed
    middle = float(np.median(taken))
    if sent_rate is None:
        return Outcome(messages / now_s, float("nan"), float("nan"), middle)
    values, weights = np.concatenate(ages), np.repeat(np.array(counts) / _SAMPLES, _SAMPLES)
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    p50, p99 = (float(values[order][np.searchsorted(reached, part)]) * 1e3 for part in (0.5, 0.99))
    return Outcome(messages / now_s, p50, p99, middle)
