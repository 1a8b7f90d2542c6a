"""State that survives: keyed tables, string pools and values, checkpointed by their edits.

```
operator, view ──put, delete, lookup (batches)──▶ KeyedTable ──save──▶ run of edits ──commit──▶ Store
                                                     │                                   (memory, SQLite;
                       KeyIndex: key words → slots ◀─┘       Spark's state store takes the same runs)
SumTable, SumRow, OrderedIndex, Arrangement: batches are added; saved by the same runs    exactsums: int64 or wider
columns.py: Arrow columns ↔ key words, StringPool      space.py: the names, and one transaction for all of them
```
"""

from runtime.state.chains import Chain, RunHolder, decode_run, encode_run
from runtime.state.columnar.columns import ARROW_TYPES, KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.state.columnar.keyindex import KeyIndex
from runtime.state.columnar.ordered import OrderedIndex
from runtime.state.columnar.sumrow import SumRow
from runtime.state.columnar.sums import SumTable
from runtime.state.columnar.table import KeyedTable
from runtime.state.errors import CorruptStateError, StateError, StateOverflowError
from runtime.state.space import ObjectSpace
from runtime.state.store import Edit, MemoryStore, SqliteStore, Store

__all__ = [
    "ARROW_TYPES",
    "Chain",
    "CorruptStateError",
    "Edit",
    "KeyColumn",
    "KeyIndex",
    "KeyedTable",
    "MemoryStore",
    "ObjectSpace",
    "OrderedIndex",
    "RunHolder",
    "SqliteStore",
    "StateError",
    "StateOverflowError",
    "Store",
    "StringPool",
    "SumRow",
    "SumTable",
    "decode_run",
    "decode_words",
    "encode_run",
    "encode_words",
    "width_of",
]
