"""Bytes in, raw buffers out: sources do input and output only.

```
 exchange ──TCP──▶ TextFeedSource (on the reactor) ─┐
                                                    ├─▶ RawBuffer ──▶ BufferSink: the engine's bounded admission queue
 file, .gz ──────▶ FileSource (a thread of its own)─┘                    offer() = False pauses, resume() goes on
```
"""

from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.errors import SourceError, SourceStateError
from runtime.sources.file import FileSource
from runtime.sources.tcp import Backoff, TextFeedSource

__all__ = [
    "Backoff",
    "BufferSink",
    "FileSource",
    "Position",
    "Source",
    "SourceError",
    "SourceStateError",
    "TextFeedSource",
]
