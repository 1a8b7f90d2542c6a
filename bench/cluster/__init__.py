"""Throughput and freshness by the number of workers and runtimes, the cost of a message in each process, and a model of
larger clusters.

```
benchmark.py: run(quick) ──▶ one point after another, each written to a file ──▶ records, docs/scaling.md, its picture
plan.py       which points, how much of each
recording.py  the flow: what the exchange publishes, once, in files      feed_process.py  plays them
system.py     cluster, feeds and runtimes of a point, as processes       meter.py         processor time by part
point.py      a point from its start to its end                          versions.py      results → rates, freshness
model.py      costs ──▶ throughput, freshness, limiting part             calibration.py   points ──▶ costs, errors
parts.py      views without Spark, in this process                       scenarios.py     larger clusters
document.py   tables of the page                                         drawing.py       its picture
```
"""

__all__: list[str] = []
