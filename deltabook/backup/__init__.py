"""Copies of run directories: made while their processes run, checked before they count, put back somewhere else.

```
exchange/ runtime/ algo/ ──parts.py (which there are, in which order)
    │
    ├─ _algo.py      journals of orders, lists of trades             first: what it has sent the exchange must know
    ├─ _runtime.py   state, epochs, snapshots, results, letters      next: a consumer before what it reads
    └─ _exchange.py  snapshots, streams, requests                    last: it knows at least what the others know
    │
    ▼
stage, a hidden directory beside the target ──checked──▶ manifest.py (every file and its SHA-256)
    │
    ▼
target: a directory, or archive.py (.tar, .tar.zst) ──restore.py──▶ an empty place
```

What is not copied: locks and claims, which belong to processes; addresses and logs of those; Spark's checkpoint and
scratch, which are made again from epochs and results; anything that is not known to belong to a run, so that no token
and no list of users gets into a backup. `inspection.py` says what a run directory or a backup holds.
"""

from deltabook.backup.backup import BackedUp, back_up
from deltabook.backup.errors import BackupError
from deltabook.backup.inspection import inspect
from deltabook.backup.manifest import Manifest
from deltabook.backup.restore import restore

__all__ = ["BackedUp", "BackupError", "Manifest", "back_up", "inspect", "restore"]
