"""Bytes in, raw buffers out: sources do input and output only.

```
 exchange ──TCP──▶ TextFeedSource ──────────────────┐ on the reactor, one thread for all
 senders ───TCP──▶ TcpSource, TcpListener ──────────┤
                                                    ├─▶ RawBuffer ──▶ BufferSink: the engine's bounded admission queue
 file, .gz ──────▶ FileSource (a thread of its own)─┘                    offer() = False pauses, resume() goes on
```

`ConnectingSource` and `Connection` are what the sources on the reactor share: attempts, gathering, back-pressure.
"""

from runtime.sources.base import BufferSink, Position, Source
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import Connection, Turn
from runtime.sources.errors import SourceError, SourceStateError
from runtime.sources.file import FileSource, codec_by_suffix
from runtime.sources.tcp import TcpListener, TcpSource
from runtime.sources.text import TextFeedSource

__all__ = [
    "Backoff",
    "BufferSink",
    "ConnectingSource",
    "Connection",
    "FileSource",
    "Position",
    "Source",
    "SourceError",
    "SourceStateError",
    "TcpListener",
    "TcpSource",
    "TextFeedSource",
    "Turn",
    "codec_by_suffix",
]
