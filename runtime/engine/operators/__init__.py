"""Operators over Arrow record batches, and derived queries made of them.

```
plans: SQL ──▶ steps ──▶ derived: the running operators, closed at every barrier
                            │
rowwise: filter, project, flatten, unnest            counting: limit, row number
eventtime/: order, windows, the row before, duplicates, union        aggregation: groups of windows
joins/: merge, as-of, lookup in a table
evaluate: expressions over columns      columns, keys: types, exact integers, codes      keyedrows: state by key
```

An operator (`Operator`) takes batches and yields batches; at a barrier it yields the rows that event time has
completed. Its state is in the object space. One thread at a time calls it.
"""

from runtime.engine.operators.operator import HeldTooMuchError, OperatorError
from runtime.engine.operators.plans import DerivedQuery, StreamInput

__all__ = ["DerivedQuery", "HeldTooMuchError", "OperatorError", "StreamInput"]
