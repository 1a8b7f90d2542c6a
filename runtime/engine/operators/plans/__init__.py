"""Plans of derived streams: from SQL to running operators.

```
sql: SELECT (sqlsources, sqlscope, grouping, expressions; dialect)
   │ building: checks of inputs, times and order of the output
   ▼
steps ──▶ derived: operators in work, rows as they come, a close at every barrier        drawing: `explain`
```
"""

from runtime.engine.operators.plans.derived import DerivedQuery, StreamInput

__all__ = ["DerivedQuery", "StreamInput"]
