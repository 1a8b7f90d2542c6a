"""Metrics of a runtime for Prometheus.

```
engine.py   events of the engine, rate of rows      noted.py    epochs, batches of Spark, fsyncs: counted as they occur
runtime.py  status figures; collects everything     parts.py    origins, upstreams, lanes, views, PostgreSQL port
```

Only noted.py counts; all other values are read when a monitor scrapes.
"""

from runtime.service.health.metrics.engine import EngineFigures, EngineMetrics, Rate
from runtime.service.health.metrics.noted import Noted
from runtime.service.health.metrics.parts import (
    consumer_metrics,
    origin_metrics,
    postgres_metrics,
    upstream_metrics,
    view_metrics,
)
from runtime.service.health.metrics.runtime import RuntimeMetrics

__all__ = [
    "EngineFigures",
    "EngineMetrics",
    "Noted",
    "Rate",
    "RuntimeMetrics",
    "consumer_metrics",
    "origin_metrics",
    "postgres_metrics",
    "upstream_metrics",
    "view_metrics",
]
