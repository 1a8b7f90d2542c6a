"""The journal: the data of an exchange that survives the process.

```
inputs ────▶ inputs_log.py ─────▶ inputs/FIRST.inputs       batches in segments; all other files follow from them
                 │ each snapshot begins a segment
             snapshots.py ──────▶ snapshots/INPUT.snapshot  market, encoders, positions of the streams, checksums
messages ──▶ streams.py ────────▶ feed.lines, feed.itch, private/ACCOUNT.lines|packets
             numbered_file.py       any message by its number

a start: newest intact snapshot ──▶ streams up to its positions ──▶ later inputs, applied again

history.py       MarketStarts: the market of a snapshot; History: the market after any past input or message
verification.py  comparison of all files with what follows from the inputs
directory.py     Journal: the lock, and all of these in one place
disk.py          operations of the file system
```
"""

from exchange_server.journal.directory import Journal
from exchange_server.journal.disk import JournalDisk
from exchange_server.journal.inputs_log import JOURNAL_VERSION, FsyncPolicy, InputsLog, JournalReader, SegmentHead
from exchange_server.journal.numbered_file import LineFile, NumberedFile, PacketFile, Position
from exchange_server.journal.snapshots import JournalSnapshots, Snapshot
from exchange_server.journal.streams import PRIVATE, MessageStream, Streams, feed_name, private_name

__all__ = [
    "JOURNAL_VERSION",
    "PRIVATE",
    "FsyncPolicy",
    "InputsLog",
    "Journal",
    "JournalDisk",
    "JournalReader",
    "JournalSnapshots",
    "LineFile",
    "MessageStream",
    "NumberedFile",
    "PacketFile",
    "Position",
    "SegmentHead",
    "Snapshot",
    "Streams",
    "feed_name",
    "private_name",
]
