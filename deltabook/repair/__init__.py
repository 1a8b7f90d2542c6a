"""Damaged files of run directories: made again from what they follow from, or named with what to do.

```
exchange   snapshots, feeds, private streams  ◀── the requests
algo       lists of trades                    ◀── the journals of orders
runtime    relation snapshots, the log's mark ◀── the epochs        results behind a damaged one ◀── Spark, from the log
```

What is the source of something else cannot be made again: requests, epochs, state, journals of orders. Nothing is
removed: a damaged file gets another name beside its own (`deltabook.wire.directories`).
"""

from deltabook.repair.findings import Finding, PartFindings
from deltabook.repair.repair import repair

__all__ = ["Finding", "PartFindings", "repair"]
