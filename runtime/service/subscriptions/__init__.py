"""Changes of views on their way to subscribers.

```
hub ──Message──▶ VersionSubscription ──────────────▶ Listener (a connection)
 │                 │ full, or held back: waits       ▲
 │                 └──▶ ViewStream (one bounded queue for all waiting) ── sum of the changes, or a snapshot ──┘
 │
 └─ epochs as they are committed ─▶ CommittedViews ─▶ EpochSubscription ─▶ Listener
                                         ▲                  │ resumes from a position
                     epoch and result log ── History ◀──────┘
```

A message is encoded once in each format, independently of the number of subscribers. A listener writes to an endless
HTTP answer, to a browser page over a WebSocket (page.py), or to a client of PostgreSQL.
"""

from runtime.service.subscriptions.committed import CommittedViews, Epochs, Start
from runtime.service.subscriptions.epochsubscription import EpochSubscription, History, Past
from runtime.service.subscriptions.page import Page
from runtime.service.subscriptions.subscription import Listener, Subscription, VersionSubscription
from runtime.service.subscriptions.viewstream import Message, ViewStream, arrow_frame, queues

__all__ = [
    "CommittedViews",
    "EpochSubscription",
    "Epochs",
    "History",
    "Listener",
    "Message",
    "Page",
    "Past",
    "Start",
    "Subscription",
    "VersionSubscription",
    "ViewStream",
    "arrow_frame",
    "queues",
]
