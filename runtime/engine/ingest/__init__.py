"""The ingest: one plan of the query engine that brings raw buffers into epochs.

```
inlet          formatting       applying                guard             sink, writer
source ──▶ Inlet ──RawBuffer─▶ Formatting ──Completed─▶ Applying ──Deltas─▶ views ──Sections─▶ EpochSink ──▶ epoch log
             └─────Mark──────▶  a formatter,             cut point: order,    └─────Deltas────▶  EpochWriter
                                coalescing               adaptor, cut                            on the barrier
                                                         eventtimes ──Deltas─▶ streams ──Deltas─▶ views, EpochSink
```

`Ingest` builds the plan and is its face; passing.py and deltas.py say what flows, malformed.py and deadletters.py keep
what does not fit. committing.py makes closed epochs durable while the next one fills.
"""

from runtime.engine.ingest.applying import StreamsNode
from runtime.engine.ingest.config import IngestConfig, IngestListener
from runtime.engine.ingest.deadletters import first_letter
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.ingest.ingest import Ingest
from runtime.engine.ingest.origin import Origin, OriginCounters
from runtime.engine.ingest.writer import Committer, CommitterThread, EpochWriter, InlineCommitter, Recovered

__all__ = [
    "Committer",
    "CommitterThread",
    "Deltas",
    "EpochWriter",
    "Ingest",
    "IngestConfig",
    "IngestListener",
    "InlineCommitter",
    "Origin",
    "OriginCounters",
    "Recovered",
    "Sections",
    "StreamsNode",
    "first_letter",
]
