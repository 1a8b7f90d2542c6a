"""What a runtime tells a monitor.

```
engine's events ──▶ engine.py ─────────────┐
figures of status lines ──▶ figures.py ────┤
epochs, batches, fsyncs ──▶ noted.py ──────┼──▶ runtime.py ──▶ /metrics (deltabook.wire.metrics)
origins, gates, cuts ─────▶ origins.py ────┤
views and lanes ──────────▶ views.py ──────┤
the results service ──────▶ service.http ──┘
```

Nothing is counted for a monitor that is not there: what can be read off is read off when one asks.
"""

from runtime.service.metrics.engine import EngineFigures, EngineMetrics
from runtime.service.metrics.noted import Noted
from runtime.service.metrics.origins import origin_metrics
from runtime.service.metrics.rate import Rate
from runtime.service.metrics.runtime import RuntimeMetrics
from runtime.service.metrics.views import view_metrics

__all__ = [
    "EngineFigures",
    "EngineMetrics",
    "Noted",
    "Rate",
    "RuntimeMetrics",
    "origin_metrics",
    "view_metrics",
]
