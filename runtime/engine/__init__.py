"""The engine: from raw buffers to epochs.

```
sources ──offer──▶ TaskQueue (internal | bounded admission) ──▶ Workers ──▶ Ingest ──▶ EpochWriter ──▶ epoch log
                                                                   Origin: formatter, order, adaptor, cut
```
"""

from runtime.engine.barrier import EpochWriter, Recovered
from runtime.engine.errors import EngineError
from runtime.engine.ingest import Ingest, IngestConfig, IngestListener
from runtime.engine.origin import Origin
from runtime.engine.queue import TaskQueue
from runtime.engine.workers import Workers

__all__ = [
    "EngineError",
    "EpochWriter",
    "Ingest",
    "IngestConfig",
    "IngestListener",
    "Origin",
    "Recovered",
    "TaskQueue",
    "Workers",
]
