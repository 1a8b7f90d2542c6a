"""Lanes, which maintain the results of views and derived streams.

```
sealed epochs ──▶ spark.py    views on Spark, a version every few epochs ─────────────────┐
applied rows ───▶ express.py  express views, a version every step ────┐                   ├─▶ results.Hub
                              derived streams, a version every epoch ─┴─▶ handover.py ────┘
versions of Spark ──▶ agreement.py  compares their checksums with those of the express views at the same epochs
```

handover.py passes versions to the reactor's thread, and bounds the rows that wait for that thread. epoch_pace.py
decides when an epoch is closed. spark_classes.py makes the archive of Java classes that speeds up Spark's start.
"""

__all__: list[str] = []
