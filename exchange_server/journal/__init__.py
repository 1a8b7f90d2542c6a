"""The journal: the data of an exchange that survives the process.

```
inputs ──▶ inputs_log.py ───▶ inputs/FIRST.inputs        the truth: batches in segments
               │ a segment begins with each
           snapshots.py ────▶ snapshots/INPUT.snapshot   market, encoders, positions of the streams, checksums
said ────▶ streams.py ──────▶ feed.lines, feed.itch, private/ACCOUNT.lines|packets
           numbered_file.py     derived; any message by its number

a start:  history.py    newest good snapshot ──▶ streams whole up to it ──▶ inputs since, applied again
the past: history.py    the market after any input or message     verification.py   is all of it as it should be?
directory.py  the lock, and all of these in one place     disk.py  the operations of the file system
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
