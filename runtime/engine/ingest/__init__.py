"""Ingest: a plan of the query engine that turns raw buffers into epochs.

```
inlet          formatting       applying                guard             sink, writer
source ──▶ Inlet ──RawBuffer─▶ Formatting ──Completed─▶ Applying ──Deltas─▶ views ──Sections─▶ EpochSink ──▶ epoch log
             └─────Mark──────▶  a formatter,             cut point: order,    └─────Deltas────▶  EpochWriter
                                coalescing               adaptor, cut                            on the barrier
                                                         eventtimes ──Deltas─▶ streams ──Deltas─▶ views, EpochSink
```

`Ingest` builds the plan and is its interface; deltas.py defines the messages between the steps, and deadletters.py
writes dead letters. writer.py closes epochs, and committing.py makes a closed epoch durable while the next one fills.

A failure ends only the part that cannot continue: an origin whose stream is broken, or an express lane whose pipeline
raises (`GuardedView`). If a commit raises, the whole ingest ends, because only the next start can find out whether the
epoch is committed. The committer then requests a barrier, at which the ingest ends.
"""

from runtime.engine.ingest.applying import StreamsNode
from runtime.engine.ingest.committing import Committer, CommitterThread, InlineCommitter
from runtime.engine.ingest.deadletters import first_letter
from runtime.engine.ingest.deltas import Deltas, Sections
from runtime.engine.ingest.ingest import Ingest, IngestConfig, IngestListener
from runtime.engine.ingest.inlet import Inlet
from runtime.engine.ingest.origin import Origin, OriginCounters
from runtime.engine.ingest.turnover import AtCut, OnSealed
from runtime.engine.ingest.writer import EpochWriter, Recovered

__all__ = [
    "AtCut",
    "Committer",
    "CommitterThread",
    "Deltas",
    "EpochWriter",
    "Ingest",
    "IngestConfig",
    "IngestListener",
    "Inlet",
    "InlineCommitter",
    "OnSealed",
    "Origin",
    "OriginCounters",
    "Recovered",
    "Sections",
    "StreamsNode",
    "first_letter",
]
