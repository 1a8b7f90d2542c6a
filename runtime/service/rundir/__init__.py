"""Run directory of a runtime, from the lock of its process to the retirement of files.

```
directory.py  lock for one process, and its state, log and catalogue     upkeep.py  snapshots, retention, limit
clean_stop.py seals and publishes everything before the process ends
```
"""

__all__: list[str] = []
