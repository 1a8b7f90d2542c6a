"""Ad-hoc questions: any SELECT over relations and views, as they are at one epoch.

```
POST /v1/ask ──▶ Asker ──▶ sandbox     a process that checks the question: which relations and views does it read?
                   │──────▶ relations   snapshot + segments of the log, kept and brought up to date
                   │──────▶ views       their rows as published, with the changes since undone
                   └──────▶ sandbox     the same process runs it over these rows, in a DuckDB that reaches nothing else
```

At epoch n a relation is its snapshot S ≤ n and the epochs (S, n] added up. A view is its newest result, of an epoch m ≥
n, and its changes in (n, m] with the other sign. Their batches are sent to the question's process one by one.

A few questions are answered at a time, each by a process and a thread of the pool that waits for the process; `Asker`
itself belongs to the reactor's thread.
"""

from runtime.service.asking.asker import Asker
from runtime.service.asking.relations import GoneError, TooManyError, UnpublishedError

__all__ = ["Asker", "GoneError", "TooManyError", "UnpublishedError"]
