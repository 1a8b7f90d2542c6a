"""The journal: what survives the process.

```
inputs ──▶ inputs_log.py ──▶ inputs/FIRST.inputs     the truth: records.py, read and checked by segments.py
               │ begins a segment at each snapshot
snapshots.py ──┴───────────▶ snapshots/INPUT.snapshot  state of market and encoders, positions of the streams
numbered_file.py, streams.py ▶ feed.lines, feed.itch, private/ACCOUNT.lines|packets   (derived; any record by number)

recovery.py   newest good snapshot ──▶ streams cut to its positions ──▶ inputs since, applied again
directory.py  the lock, and all of these in one place
disk.py       the operations of the file system
```
"""

from exchange_server.journal.directory import Journal
from exchange_server.journal.disk import Disk
from exchange_server.journal.inputs_log import FsyncPolicy, InputsLog
from exchange_server.journal.numbered_file import LineFile, NumberedFile, PacketFile, Position
from exchange_server.journal.segments import JOURNAL_VERSION, JournalReader, SegmentHead
from exchange_server.journal.snapshots import Snapshot, SnapshotDirectory
from exchange_server.journal.streams import PRIVATE, Stream, Streams, feed_name, private_name

__all__ = [
    "JOURNAL_VERSION",
    "PRIVATE",
    "Disk",
    "FsyncPolicy",
    "InputsLog",
    "Journal",
    "JournalReader",
    "LineFile",
    "NumberedFile",
    "PacketFile",
    "Position",
    "SegmentHead",
    "Snapshot",
    "SnapshotDirectory",
    "Stream",
    "Streams",
    "feed_name",
    "private_name",
]
