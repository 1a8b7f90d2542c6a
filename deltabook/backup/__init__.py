"""Copies of run directories: made while their processes run, checked before they count, put back somewhere else.

```
exchange/ runtime/ algo/ ──manifest.py (which there are, in which order)
    │
    ├─ strategies  journals of orders, lists of trades             first: what it has sent the exchange must know
    ├─ a runtime   state, epochs, snapshots, results, letters      next: a consumer before what it reads
    └─ an exchange snapshots, streams, requests                    last: it knows at least what the others know
    │ copying.py
    ▼
stage, a hidden directory beside the target ──checked──▶ manifest.py (every file and its SHA-256)
    │ backup.py
    ▼
target: a directory, or an archive (.tar, .tar.zst) ──backup.py──▶ an empty place
```

Not copied are locks and claims, which belong to processes; their addresses and logs; Spark's checkpoint and scratch,
which are recreated from epochs and results; and files that are not known to belong to a run, so that no token and no
list of users gets into a backup. `inspection.py` describes the contents of a run directory or a backup.
"""

from deltabook.backup.backup import BackedUp, back_up, restore
from deltabook.backup.inspection import inspect
from deltabook.backup.manifest import BackupError, Manifest

__all__ = ["BackedUp", "BackupError", "Manifest", "back_up", "inspect", "restore"]
