"""The engine: from raw buffers to epochs.

```
sources ──offer──▶ Admission ──▶ FormatStage ──▶ TaskQueue ──▶ Workers ──▶ Ingest ──▶ EpochWriter ──▶ epoch log
                    bounded       a formatter,    internal                  Origin: order, adaptor, cut
                    in bytes      coalescing      | admitted
```
"""

from runtime.engine.admission import Admission
from runtime.engine.barrier import EpochWriter, Recovered
from runtime.engine.errors import EngineError
from runtime.engine.ingest import Ingest, IngestConfig, IngestListener
from runtime.engine.origin import Origin, OriginCounters
from runtime.engine.queue import TaskQueue
from runtime.engine.stage import FormatStage
from runtime.engine.workers import Workers

__all__ = [
    "Admission",
    "EngineError",
    "EpochWriter",
    "FormatStage",
    "Ingest",
    "IngestConfig",
    "IngestListener",
    "Origin",
    "OriginCounters",
    "Recovered",
    "TaskQueue",
    "Workers",
]
