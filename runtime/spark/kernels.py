"""Compiled kernels on Spark: the driver requests them, workers load them.

```
driver ──request_kernels──▶ compile process ──▶ cache folder ──LoadedKernels──▶ Python workers of this machine
                                                   ▲    └────────default_kernels────▶ workers of other machines,
                                                   └──────────────────────────────── which compile what is missing
```

With a local master the workers are children of the driver's Java, and the driver's compile process is the only one.
Executors of a cluster may run on other machines with other folders or processors: a worker on such a machine has its
own compile process, which compiles the kernels that the folder lacks. Kernels that are not compiled are interpreted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

from twisted.logger import Logger

from runtime.native.cache import KernelCache, default_kernels
from runtime.native.tiers import Kernels, MachineKernel, kernel_name
from runtime.plan import Program, lane_program
from runtime.views.code import sources_of

__all__ = ["LoadedKernels", "request_kernels", "worker_kernels"]

_LOOK_S: Final = 0.05
"""Poll interval in seconds."""
_REMEMBERED: Final = 4096
"""Greatest number of names of kernels that were not compiled in time."""
_log: Final = Logger()


class LoadedKernels:
    """Kernels that another process compiles; see `runtime.native.tiers.Kernels`."""

    def __init__(
        self,
        cache: KernelCache,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cache = cache
        self._clock = clock
        self._sleep = sleep
        self._late: dict[str, None] = {}
        """Names of the kernels that were not compiled in time, the oldest first."""

    def get(self, source: str) -> MachineKernel | None:
        """Return the compiled kernel of a source if the cache has it; else None."""
        return self._cache.get(source)

    def request(self, sources: Sequence[str]) -> None:
        """Do nothing, because the driver has requested the sources of its programs."""

    def wait(self, sources: Sequence[str], timeout_s: float) -> bool:
        """Wait until the cache has the kernels of these sources, or ``timeout_s`` seconds; return True if it has them.

        A kernel that once was not compiled in time is not waited for again.
        """
        give_up_s = self._clock() + timeout_s
        awaited = [source for source in sources if kernel_name(source) not in self._late]
        while self._cache.status().is_on and (awaited := [each for each in awaited if self.get(each) is None]):
            if self._clock() >= give_up_s:
                self._late |= dict.fromkeys(map(kernel_name, awaited))
                while len(self._late) > _REMEMBERED:
                    del self._late[next(iter(self._late))]
                break
            self._sleep(_LOOK_S)
        return all(self.get(source) is not None for source in sources)


@lru_cache(maxsize=1)
def _loaded(cache: KernelCache) -> LoadedKernels:
    return LoadedKernels(cache)


def worker_kernels(*, compiles: bool) -> Kernels:
    """Return the kernels of this Python worker, the same in every call.

    ``compiles`` is True if the worker compiles missing kernels.
    """
    cache = default_kernels()
    return cache if compiles else _loaded(cache)


def request_kernels(program: Program, shards: int, kernels: Kernels | None = None) -> threading.Thread:
    """Have the kernels of a program's Spark views compiled in the background.

    If ``kernels`` is None, those of this process are used. The returned thread determines the sources.
    """

    def request() -> None:
        try:
            (default_kernels() if kernels is None else kernels).request(
                sources_of(lane_program(program, "spark"), "payloads", shards)
            )
        except Exception:  # noqa: BLE001 - the program also runs without compiled kernels
            _log.failure("kernels of a program are not compiled in advance")

    thread = threading.Thread(target=request, name="kernel-sources", daemon=True)
    thread.start()
    return thread
