"""The Spark lane: view programs kept up to date by one streaming query.

```
epoch log ──EpochSource (offset = epoch; adds up per map and shard on the executors)──▶ groupBy(shard)
   ──ShardProcessor (transformWithState: runs of edits in Spark's state store)──▶ foreachBatch ──▶ ResultLog
relation snapshot, epochs ──backfill.py──▶ what fills the new views, in the first batch of a program
java.py finds a Java, session.py starts Spark with it, lane.py runs the query and publishes
```

Nothing is imported here: looking for a Java must work where PySpark is not installed.
"""

__all__: list[str] = []
