"""Sources: they read bytes from outside and offer them as raw buffers, without decoding or parsing the bytes.

```
 exchange ──TCP──▶ TextFeedSource (lines) ──────────┐ these three run on the reactor's thread
 exchange ──TCP──▶ SoupBinFeedSource (packets) ─────┤
 senders ───TCP──▶ TcpSource ───────────────────────┤
                                                    ├─▶ RawBuffer ──▶ BufferSink: the engine's bounded admission queue
 file, .gz ──────▶ FileSource (a thread of its own)─┘                    offer() = False pauses, resume() resumes
```

`ConnectingSource` and `Connection` have the parts that sources on the reactor share: attempts to connect, gathering of
bytes, back-pressure. `FeedSource` has the parts that the sources of an exchange's two feeds share: the login at a
position, the reply to the login, and the detection of silence.
"""

from runtime.sources.base import BufferSink, LoginRefusedError, Position, Source, SourceError, SourceStateError
from runtime.sources.connecting import Backoff, ConnectingSource
from runtime.sources.connection import Connection, Turn
from runtime.sources.feed import FeedSource, LoginReply, TextFeedSource
from runtime.sources.file import FileSource, codec_by_suffix
from runtime.sources.soupbin import SoupBinFeedSource
from runtime.sources.tcp import TcpSource

__all__ = [
    "Backoff",
    "BufferSink",
    "ConnectingSource",
    "Connection",
    "FeedSource",
    "FileSource",
    "LoginRefusedError",
    "LoginReply",
    "Position",
    "SoupBinFeedSource",
    "Source",
    "SourceError",
    "SourceStateError",
    "TcpSource",
    "TextFeedSource",
    "Turn",
    "codec_by_suffix",
]
