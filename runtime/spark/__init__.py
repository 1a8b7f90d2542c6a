"""Spark lane: view programs kept up to date by one streaming query.

```
epoch log ──EpochSource (offset = epoch; adds up per map and shard on the executors)──▶ groupBy(shard)
   ──ShardProcessor (transformWithState: runs of edits in Spark's state store)──▶ foreachBatch ──▶ ResultLog
source.py, planning.py ──partitions of a batch──▶ reading.py: payloads, and the backfill of new views
java.py finds a Java and the archive of its classes; session.py starts Spark with them and a Python
lane.py runs the query, publishes, and determines when the next batch begins
```

This module imports nothing: looking for a Java must work where PySpark is not installed.
"""

__all__: list[str] = []
