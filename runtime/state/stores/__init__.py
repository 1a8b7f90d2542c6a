"""Where state becomes durable.

```
edits ──▶ Store ──┬── MemoryStore: tests, state that need not outlive the process
                  └── SqliteStore: the embedded default        checksums: of each value and its place
(the Spark lane has a store of its own over Spark's state, in runtime.spark)
```
"""

from runtime.state.stores.memory import MemoryStore
from runtime.state.stores.sqlite import SqliteStore
from runtime.state.stores.store import Edit, Store

__all__ = ["Edit", "MemoryStore", "SqliteStore", "Store"]
