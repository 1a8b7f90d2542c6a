"""Speed of views: the view program in process, and through Spark, each beside alternatives.

```
market.py ──deltas──▶ hosted.py (view program) ─┐
   │                  handwritten.py (numpy) ───┼─▶ inprocess.py ─▶ rates ─▶ records (benchmark.py), plots.py
   │                  DuckDB, SQL of cases.py ──┘
   └─segments──▶ spark.py ──▶ lane_process.py (a process of its own, whose memory is watched) ─▶ rates, latencies
```
"""

from bench.views.benchmark import run

__all__ = ["run"]
