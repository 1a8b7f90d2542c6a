"""Run directory of a runtime, from the lock of its process to the retirement of files.

```
lock.py       one process at a time        directory.py  state, log and catalogue of the process that has the lock
upkeep.py     snapshots, retention, limit  clean_stop.py seals and publishes everything before the process ends
```
"""

__all__: list[str] = []
