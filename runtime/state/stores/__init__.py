"""Stores, in which state becomes durable.

```
edits ──▶ Store ──┬── MemoryStore: tests, state that need not outlive the process
                  └── SqliteStore: the embedded default        checksums: of each value and its place
```
"""

from runtime.state.stores.sqlite import SqliteStore, check_store
from runtime.state.stores.store import Edit, LateEdit, MemoryStore, Store, encoded

__all__ = ["Edit", "LateEdit", "MemoryStore", "SqliteStore", "Store", "check_store", "encoded"]
