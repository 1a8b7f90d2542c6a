"""Ad-hoc questions: any SELECT over relations and views, as they are at one epoch.

```
POST /v1/ask ──▶ Asker ──▶ question    DuckDB's own parser: one SELECT, which names relations and views alone
                   │──────▶ relations   snapshot + segments of the log, kept and brought forward
                   │──────▶ views       their rows as published, and the changes since taken back
                   └──────▶ sandbox     a DuckDB of its own for each question: no files, no settings, limits
```

At epoch n a relation is its snapshot S ≤ n and the epochs (S, n] added up. A view is its newest result, of an epoch
m ≥ n, and its changes in (n, m] with the other sign. Both are loaded into the question's DuckDB, in which access to
anything else is switched off and locked.

The work is done on threads of the pool, a few questions at a time; `Asker` itself belongs to the reactor's thread.
"""

from runtime.service.asking.asker import Asker
from runtime.service.asking.errors import AskError, CostlyError, GoneError, TooManyError, UnpublishedError
from runtime.service.asking.limits import AskLimits
from runtime.service.asking.sandbox import Beside, Rows

__all__ = [
    "AskError",
    "AskLimits",
    "Asker",
    "Beside",
    "CostlyError",
    "GoneError",
    "Rows",
    "TooManyError",
    "UnpublishedError",
]
