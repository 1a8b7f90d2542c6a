"""The journal: what survives the process.

```
Input ──▶ inputs_log.py  (the truth: length, crc32, msgpack; one write a batch)
              │ recovery applies it again
              ▼
          Market ──▶ numbered_file.py  feed.lines, private/BROKER.lines, feed.itch (derived; any record by number)
directory.py  the lock, and all of these in one place
```
"""

from exchange_server.journal.directory import Journal
from exchange_server.journal.inputs_log import FsyncPolicy, InputsLog, JournalHead
from exchange_server.journal.numbered_file import LineFile, NumberedFile, PacketFile

__all__ = ["FsyncPolicy", "InputsLog", "Journal", "JournalHead", "LineFile", "NumberedFile", "PacketFile"]
