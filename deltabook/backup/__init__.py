"""Copies of run directories: made while the processes run, checked before they are published, restored anywhere.

```
exchange/ runtime/ algo/ ──manifest.py (the parts, in their order)
    │
    ├─ strategies  journals of orders, lists of trades             first: the exchange must have all requests in them
    ├─ a runtime   state, epochs, snapshots, results, letters      next: a consumer before its upstreams
    └─ an exchange snapshots, streams, requests                    last: the other copies refer to it
    │ copying.py
    ▼
stage, a hidden directory beside the target ──checked──▶ manifest.py (every file and its SHA-256)
    │ backup.py
    ▼
target: a directory, or an archive (.tar, .tar.zst) ──backup.py──▶ an empty directory
```

Some files are not copied. Locks, claims, addresses and logs belong to processes. Spark's checkpoint and scratch files
are recreated from epochs and results. Files that are not known to belong to a run are left out, so that no token and no
list of users gets into a backup. `inspection.py` describes the contents of a run directory or a backup.
"""

from deltabook.backup.backup import BackedUp, back_up, restore
from deltabook.backup.inspection import inspect
from deltabook.backup.manifest import BackupError, Manifest

__all__ = ["BackedUp", "BackupError", "Manifest", "back_up", "inspect", "restore"]
