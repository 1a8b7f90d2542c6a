"""Plans of operators: built in code or from SQL, drawn, and run on one thread or in the engine.

```
stream: scan(…).filter(…).join(…)        sql: plan_sql("SELECT …")  (sqlsources, sqlscope, expressions)
   │ building, grouping: what goes together       │
   └────────────────▶ steps ◀─────────────────────┘        drawing: str(plan)
                        │
                      stages: pipelines, and exchanges over instances
              ┌─────────┴──────────┐
   task (instances): one thread   pipeline: in the engine
```
"""

from runtime.engine.operators.plans.pipeline import OperatorPipeline, engine_plan
from runtime.engine.operators.plans.sql import plan_sql
from runtime.engine.operators.plans.stream import Stream, scan
from runtime.engine.operators.plans.task import Task, run_plan

__all__ = ["OperatorPipeline", "Stream", "Task", "engine_plan", "plan_sql", "run_plan", "scan"]
