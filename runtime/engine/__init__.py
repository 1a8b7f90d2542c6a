"""The engine: executes plans of sources and pipelines on worker threads, and passes barriers through them.

```
source ──Emitter──▶ Admission ──▶ inbox ─▶ pipeline ──emit──▶ inbox ─▶ pipeline …        RunningSource, RunningNode
 (own thread          bounded        └─ work task ─┐             └─ work task ─┐           of a RunningQuery
  or reactor)                                      ▼                           ▼
                                    TaskQueue:  admitted                   internal (first), delayed
                                                   └──────────▶ Workers ◀──────┘
QueryEngine: start, stop, request_barrier, shutdown          StatusListener, StatisticsListener ◀── events
```

The steps that turn raw buffers into epochs are in `runtime.engine.ingest`, relational operators in
`runtime.engine.operators`, and the views of the express lane in `runtime.engine.express`.
"""

from runtime.engine.admission import Admission
from runtime.engine.barriers import Barrier, BarrierFuture, BarrierOutcome
from runtime.engine.engine import EngineConfig, QueryEngine
from runtime.engine.errors import BarrierError, EngineError, PlanError
from runtime.engine.listeners import QueryStatus, StatisticsListener, StatusListener
from runtime.engine.plan import Context, Emitter, Node, Pipeline, Plan, Source
from runtime.engine.queue import TaskQueue
from runtime.engine.running import QueryCounters
from runtime.engine.workers import Workers

__all__ = [
    "Admission",
    "Barrier",
    "BarrierError",
    "BarrierFuture",
    "BarrierOutcome",
    "Context",
    "Emitter",
    "EngineConfig",
    "EngineError",
    "Node",
    "Pipeline",
    "Plan",
    "PlanError",
    "QueryCounters",
    "QueryEngine",
    "QueryStatus",
    "Source",
    "StatisticsListener",
    "StatusListener",
    "TaskQueue",
    "Workers",
]
