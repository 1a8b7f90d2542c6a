"""Durable state: named objects. A checkpoint writes their edits since the previous checkpoint.

```
operators and views ──┬─▶ objects:  the ten persisted types ──edits──────────────────┐
                      ├─▶ columnar: string pools ──edits─────────────────────────────┤
                      └─▶ columnar: tables; other state ──runs──▶ chains ──edits─────┤
                                                                                     ▼
                 stores: Store (memory, SQLite) ◀──commit── space: names and kinds of all objects
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
