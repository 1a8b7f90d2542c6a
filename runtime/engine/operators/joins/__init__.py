"""Joins: of sorted inputs, of the latest row before another, and with an index.

```
keys ──▶ sides: a sorted input, and what waits ──▶ matching: pairs, a window at a time ──▶ merge (six kinds), asof
         lookup: rows in, look-ups in flight ──▶ Index (tableindex: rows by a unique key in the object space)
```
"""

from runtime.engine.operators.joins.asof import AsofJoin
from runtime.engine.operators.joins.lookup import Found, Index, LookupJoin, Pending, UpdatableIndex
from runtime.engine.operators.joins.merge import MergeJoin
from runtime.engine.operators.joins.tableindex import TableIndex

__all__ = ["AsofJoin", "Found", "Index", "LookupJoin", "MergeJoin", "Pending", "TableIndex", "UpdatableIndex"]
