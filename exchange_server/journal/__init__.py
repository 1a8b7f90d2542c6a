"""The journal: what survives the process.

```
Input ──▶ inputs_log.py  (the truth: length, crc32, msgpack; one write a batch)
              │ recovery applies it again
              ▼
          Market ──▶ line_file.py  feed.lines, private/BROKER.lines (derived; any line by number)
directory.py  the lock, and all of these in one place
```
"""

from exchange_server.journal.directory import Journal
from exchange_server.journal.inputs_log import FsyncPolicy, InputsLog, JournalHead
from exchange_server.journal.line_file import LineFile

__all__ = ["FsyncPolicy", "InputsLog", "Journal", "JournalHead", "LineFile"]
