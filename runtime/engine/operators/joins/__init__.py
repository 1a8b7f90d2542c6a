"""Joins: of two inputs on equal times, of the latest row before another, and with a table.

```
sorted blocks ──▶ matching: pairs, a window at a time ──▶ merge (six kinds)        asof: keeps each key's last row
rows ──▶ lookup: pairs with the rows of a table ◀── its index: rows by key, in the object space
```
"""

from runtime.engine.operators.joins.asof import AsofJoin
from runtime.engine.operators.joins.lookup import LookupJoin, TableIndex
from runtime.engine.operators.joins.merge import MergeJoin

__all__ = ["AsofJoin", "LookupJoin", "MergeJoin", "TableIndex"]
