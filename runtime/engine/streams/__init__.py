"""Derived streams in an ingest: a SELECT over event time each, sealed in the epoch as a relation of its own.

```
apply ──Deltas──▶ StreamsPipeline ──▶ DerivedStreams: for each stream, in the order of the catalogue
                        │                  take: rows ──▶ DerivedQuery.add
                        │ barrier          close: DerivedQuery.close(watermarks) ──▶ rows ──▶ streams that read it
                        │                                                             ├──▶ Retained ──▶ rows that expire
                        │                  change_over: streams of another program ◀──── control record
                        ├──Deltas─▶ views, epochs: rows of each stream with their weights, late rows as dead letters
                        └──Update─▶ publish (the hub, on the reactor's thread)
```

All streams are one node of the plan. A catalogue that brings streams, or ends some, is taken over at its barrier, at
which everything that touches the object space rests; so a running plan never gets other nodes, and what a new stream
reads begins exactly behind that cut.
"""

from runtime.engine.streams.declaring import explain_stream, with_streams
from runtime.engine.streams.pipeline import StreamsPipeline
from runtime.engine.streams.streams import DerivedStreams, StreamFigures

__all__ = ["DerivedStreams", "StreamFigures", "StreamsPipeline", "explain_stream", "with_streams"]
