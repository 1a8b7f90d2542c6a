"""Status port of running strategies: `deltabook.wire.strategies` over HTTP.

```
engine, hosts, desks ──▶ reports ──▶ http ──▶ dashboard, `deltabook algo status`
         fills ──▶ fills ──┘  │  └──▶ metrics ──▶ http ──▶ a Prometheus
                 engine ◀──kill
```
"""

from algo_engine.status.http import status_site
from algo_engine.status.metrics import AlgoMetrics
from algo_engine.status.reports import FillLog, Reports, UnknownStrategyError

__all__ = ["AlgoMetrics", "FillLog", "Reports", "UnknownStrategyError", "status_site"]
