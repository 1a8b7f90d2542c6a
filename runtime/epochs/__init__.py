"""The epoch log and the result log: durable, immutable files by which the parts of the runtime communicate.

```
engine ──prepare, commit, publish──▶ EpochLog    000000000007.segment   relation deltas, cuts, control record
                                        │
Spark lane, express lane ◀──────────────┤
        │                               └──take──▶ SnapshotDirectory   000000000007.snapshot   live rows of relations
        └──publish──▶ ResultLog                  000000000005-000000000007.result   view changes
                                                 000000000007.full                  views' rows
retire: removes the files that every reader has passed, oldest first; control records stay under programs/.
```
"""

from runtime.epochs.claim import CLAIM, DirectoryClaim
from runtime.epochs.disk import LOCAL_DISK, Disk, LocalDisk
from runtime.epochs.errors import EpochLogError, FencedError, MissingSegmentError, TornSegmentError
from runtime.epochs.log import CommitRecord, EpochLog, EpochLogReader, Prepared
from runtime.epochs.results import ResultLog
from runtime.epochs.retention import RetentionConfig, begin_behind, retire, write_first
from runtime.epochs.segment import Cut, Footer, Section, Segment, checksums_of, read_segment, with_checksums
from runtime.epochs.snapshots import SnapshotDirectory, add_up, has_snapshot_of, rows_at

__all__ = [
    "CLAIM",
    "LOCAL_DISK",
    "CommitRecord",
    "Cut",
    "DirectoryClaim",
    "Disk",
    "EpochLog",
    "EpochLogError",
    "EpochLogReader",
    "FencedError",
    "Footer",
    "LocalDisk",
    "MissingSegmentError",
    "Prepared",
    "ResultLog",
    "RetentionConfig",
    "Section",
    "Segment",
    "SnapshotDirectory",
    "TornSegmentError",
    "add_up",
    "begin_behind",
    "checksums_of",
    "has_snapshot_of",
    "read_segment",
    "retire",
    "rows_at",
    "with_checksums",
    "write_first",
]
