"""Operators over Arrow record batches, plans of them, and what runs such plans.

```
plans: a stream in code, or SQL ──▶ pipelines of operators ──▶ run on one thread (Task), or in the task-queue engine
                                            │
      chain: operators one behind the other ┘        exchange: rows spread over instances by their key

rowwise: filter, project, union        aggregation/: streaming, hash        joins/: merge, as-of, index lookup
counting: limit, row number            unnest, sorting                      columns, keys: types, exact integers, codes
evaluate: expressions over columns
```

An operator (`Operator`) takes batches and gives batches; at a barrier it gives out what it holds and starts afresh, but
for what it keeps in the object space. What runs it calls it on one thread at a time.
"""

from runtime.engine.operators.aggregation import Aggregate, HashAggregation, StreamingAggregation
from runtime.engine.operators.chain import Chain
from runtime.engine.operators.counting import Limit, RowNumber
from runtime.engine.operators.errors import HeldTooMuchError, OperatorError, UnsortedInputError
from runtime.engine.operators.exchange import Exchange
from runtime.engine.operators.joins import (
    AsofJoin,
    Found,
    Index,
    LookupJoin,
    MergeJoin,
    Pending,
    TableIndex,
    UpdatableIndex,
)
from runtime.engine.operators.operator import Batches, Operator
from runtime.engine.operators.plans import OperatorPipeline, Stream, Task, engine_plan, plan_sql, run_plan, scan
from runtime.engine.operators.rowwise import Filter, Project, Union
from runtime.engine.operators.sorting import Sort
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
