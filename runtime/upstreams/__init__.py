"""Upstreams: the epoch logs of other runtimes, read as origins.

```
run directory of an upstream                         the runtime that reads it
epochs/000000000007.segment ──mapped──▶ UpstreamLog ──▶ Follower ──UpstreamEpoch──▶ ingest, which cuts
snapshots/…                   read once, if the beginning of the log is retired
beat                        ──read_beat──▶ the time of its last heartbeat
consumers/18c3f2a9.json     ◀──Consumers.put── newest epoch committed here
                            ──SessionClaims.take──▶ claims/…: the log into which each session of a feed goes
```

```
crash                                            effect
upstream ends, its epoch not committed           only this origin waits; the upstream reads its feed again
epoch committed, not read by the reader          its segment remains until the consumer has passed it
read by the reader, not committed there          the same: the epoch is read again, after the reader's own cut
committed by the reader, its file not written    the file has an older epoch: more segments remain for a while
reader begins with a log whose beginning is      the reader begins with the upstream's snapshot, which is retained
retired                                          from the moment at which the consumer's file is written
```
"""

from runtime.upstreams.beat import Beat, read_beat, write_beat
from runtime.upstreams.consumers import Consumer, Consumers
from runtime.upstreams.errors import UpstreamError
from runtime.upstreams.following import Follower, FollowerFigures, UpstreamSink
from runtime.upstreams.log import Symbols, UpstreamEpoch, UpstreamLog, UpstreamPosition
from runtime.upstreams.sessions import SessionClaim, SessionClaims

__all__ = [
    "Beat",
    "Consumer",
    "Consumers",
    "Follower",
    "FollowerFigures",
    "SessionClaim",
    "SessionClaims",
    "Symbols",
    "UpstreamEpoch",
    "UpstreamError",
    "UpstreamLog",
    "UpstreamPosition",
    "UpstreamSink",
    "read_beat",
    "write_beat",
]
