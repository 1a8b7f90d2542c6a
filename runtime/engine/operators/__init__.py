"""Operators over Arrow record batches, plans of them, and what runs such plans.

```
stream.scan("trades", …).filter(…).join(…)      sql.plan_sql("SELECT … FROM trades ASOF JOIN quotes …")
            │ building, grouping: what goes together              │ sqlsources, sqlscope: names
            └────────────────────────▶ steps ◀────────────────────┘        drawing: str(plan)
                                         │
                          stages: pipelines and what flows between them, exchanges over instances
                     ┌───────────────────┴────────────────────┐
       task: one thread, deterministic            pipeline: in the task-queue engine
                     └─────────▶ chain: operators one behind the other ◀─────┘

rowwise: filter, project, union     aggregation: streaming, hash (cells, keptcells)     mergejoin (sides, matching)
counting: limit, row number         lookup: index lookup join (tableindex)              asof
unnest, sorting                     columns: types, exact integers                      keys: codes of keys
```

An operator (`Operator`) takes batches and gives batches; at a barrier it gives out what it holds and starts afresh, but
for what it keeps in the object space. What runs it calls it on one thread at a time.
"""

from runtime.engine.operators.aggregation import HashAggregation, StreamingAggregation
from runtime.engine.operators.asof import AsofJoin
from runtime.engine.operators.cells import Aggregate
from runtime.engine.operators.chain import Chain
from runtime.engine.operators.counting import Limit, RowNumber
from runtime.engine.operators.errors import HeldTooMuchError, OperatorError, UnsortedInputError
from runtime.engine.operators.exchange import Exchange
from runtime.engine.operators.lookup import Found, Index, LookupJoin, Pending, UpdatableIndex
from runtime.engine.operators.mergejoin import MergeJoin
from runtime.engine.operators.operator import Batches, Operator
from runtime.engine.operators.pipeline import OperatorPipeline, engine_plan
from runtime.engine.operators.rowwise import Filter, Project, Union
from runtime.engine.operators.sorting import Sort
from runtime.engine.operators.sql import plan_sql
from runtime.engine.operators.stream import Stream, scan
from runtime.engine.operators.tableindex import TableIndex
from runtime.engine.operators.task import Task, run_plan
from runtime.engine.operators.unnest import Unnest

__all__ = [
    "Aggregate",
    "AsofJoin",
    "Batches",
    "Chain",
    "Exchange",
    "Filter",
    "Found",
    "HashAggregation",
    "HeldTooMuchError",
    "Index",
    "Limit",
    "LookupJoin",
    "MergeJoin",
    "Operator",
    "OperatorError",
    "OperatorPipeline",
    "Pending",
    "Project",
    "RowNumber",
    "Sort",
    "Stream",
    "StreamingAggregation",
    "TableIndex",
    "Task",
    "Union",
    "Unnest",
    "UnsortedInputError",
    "UpdatableIndex",
    "engine_plan",
    "plan_sql",
    "run_plan",
    "scan",
]
