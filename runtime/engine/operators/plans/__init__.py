"""Plans of derived streams: from SQL to running operators.

```
sql: SELECT (sqlsources, sqlscope, grouping; expressions has the dialect)
   │ building: checks of inputs, times and order of the output
   ▼
steps ──▶ derived: the running operators, which take rows and are closed at every barrier; the text for `explain`
```
"""

from runtime.engine.operators.plans.derived import DerivedQuery, StreamInput

__all__ = ["DerivedQuery", "StreamInput"]
