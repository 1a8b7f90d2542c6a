"""Lanes, which maintain the results of views and derived streams, each beside the ingest.

```
epochs sealed ──▶ spark.py (Spark, the version of record) ──▶ results.Hub
rows applied ───▶ express.py (every step, in process) ──────▶ results.Hub
                  streams.py (derived streams, every epoch) ▶ results.Hub
handover.py passes versions to the reactor, with a bound
both lanes at one epoch ──▶ agreement.py compares checksums
epoch_pace.py decides when an epoch is closed; spark_classes.py makes the archive that speeds up Spark's start
```
"""

__all__: list[str] = []
