"""State that survives: keyed tables, string pools and values, checkpointed by their edits.

```
operator, view ──put, delete, lookup (batches)──▶ KeyedTable ──save──▶ run of edits ──commit──▶ Store
                                                     │                                   (memory, SQLite;
                       KeyIndex: key words → slots ◀─┘       Spark's state store takes the same runs)
SumTable, SumRow, OrderedIndex, Arrangement: batches are added; saved by the same runs    exactsums: int64 or wider
columns.py: Arrow columns ↔ key words, StringPool      space.py: the names, and one transaction for all of them
```
"""

from runtime.state.columns import ARROW_TYPES, KeyColumn, StringPool, decode_words, encode_words, width_of
from runtime.state.errors import CorruptStateError, StateError, StateOverflowError
from runtime.state.keyindex import KeyIndex
from runtime.state.ordered import OrderedIndex
from runtime.state.space import ObjectSpace, decode_run, encode_run
from runtime.state.store import Edit, MemoryStore, SqliteStore, Store
from runtime.state.sumrow import SumRow
from runtime.state.sums import SumTable
from runtime.state.table import KeyedTable

__all__ = [
    "ARROW_TYPES",
    "CorruptStateError",
    "Edit",
    "KeyColumn",
    "KeyIndex",
    "KeyedTable",
    "MemoryStore",
    "ObjectSpace",
    "OrderedIndex",
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
