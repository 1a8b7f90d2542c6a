"""Plans of derived streams: from SQL to running operators.

```
sql: SELECT (sqlsources, sqlscope, grouping, spans, expressions; dialect)
   │ building: what goes together, which times and which order come of it
   ▼
steps ──▶ derived: operators in work, rows as they come, a close at every barrier        drawing: `explain`
```
"""

from runtime.engine.operators.plans.derived import DerivedQuery, StreamInput

__all__ = ["DerivedQuery", "StreamInput"]
