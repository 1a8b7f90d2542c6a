"""The ingest: from raw buffers to epochs.

```
sources ──offer──▶ Admission ──▶ FormatStage ──▶ workers ──▶ Ingest ──▶ EpochWriter ──▶ epoch log
                    bounded       a formatter,                Origin: order, adaptor, cut
                    in bytes      coalescing
```
"""

from runtime.engine.ingest.admission import Admission
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.ingest.ingest import Ingest, IngestConfig, IngestListener
from runtime.engine.ingest.origin import Origin, OriginCounters
from runtime.engine.ingest.stage import FormatStage
from runtime.engine.ingest.writer import EpochWriter, Recovered

__all__ = [
    "Admission",
    "Deltas",
    "EpochWriter",
    "FormatStage",
    "Ingest",
    "IngestConfig",
    "IngestListener",
    "Origin",
    "OriginCounters",
    "Recovered",
    "Sections",
]
