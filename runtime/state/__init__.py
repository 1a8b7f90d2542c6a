"""Durable state: named objects, of which a checkpoint writes the edits since the one before.

```
operator, view ──┬─ objects:  the ten persisted types, item by item ──────────┐
                 ├─ columnar: string pools ───────────────────────────────────┤
                 ├─ columnar: tables, a batch at a time ────┐                 │
                 └─ any other state that can list its edits ┴─ chains of runs ┤
                                    ┌─────────────────────────── save: edits ─┘
             space: names and kinds ┴──commit, with the edits of the same moment─────▶ stores: Store (memory, SQLite)
codec: values ↔ bytes
```
"""

from runtime.state.chains import Chain, Run, RunHolder, decode_run, encode_run
from runtime.state.codec import Codec
from runtime.state.columnar import (
    ARROW_TYPES,
    WIDE,
    KeyColumn,
    KeyedTable,
    KeyIndex,
    StringPool,
    decimals_of_integers,
    decimals_of_words,
    decode_words,
    encode_words,
    unscaled_as,
    width_of,
    words_of_decimals,
)
from runtime.state.errors import (
    CorruptStateError,
    KindError,
    NameTakenError,
    SchemaVersionError,
    StateError,
    StateOverflowError,
    StoreError,
    UnknownKindError,
)
from runtime.state.objects import (
    KINDS,
    LinkedNode,
    PersistedArray,
    PersistedDictionary,
    PersistedLinkedList,
    PersistedList,
    PersistedObject,
    PersistedQueue,
    PersistedSet,
    PersistedSortedDictionary,
    PersistedSortedSet,
    PersistedStack,
    PersistedValue,
    Schema,
)
from runtime.state.space import ObjectSpace
from runtime.state.stores import Edit, MemoryStore, SqliteStore, Store, check_store

__all__ = [
    "ARROW_TYPES",
    "KINDS",
    "WIDE",
    "Chain",
    "Codec",
    "CorruptStateError",
    "Edit",
    "KeyColumn",
    "KeyIndex",
    "KeyedTable",
    "KindError",
    "LinkedNode",
    "MemoryStore",
    "NameTakenError",
    "ObjectSpace",
    "PersistedArray",
    "PersistedDictionary",
    "PersistedLinkedList",
    "PersistedList",
    "PersistedObject",
    "PersistedQueue",
    "PersistedSet",
    "PersistedSortedDictionary",
    "PersistedSortedSet",
    "PersistedStack",
    "PersistedValue",
    "Run",
    "RunHolder",
    "Schema",
    "SchemaVersionError",
    "SqliteStore",
    "StateError",
    "StateOverflowError",
    "Store",
    "StoreError",
    "StringPool",
    "UnknownKindError",
    "check_store",
    "decimals_of_integers",
    "decimals_of_words",
    "decode_run",
    "decode_words",
    "encode_run",
    "encode_words",
    "unscaled_as",
    "width_of",
    "words_of_decimals",
]
