"""The ten persisted types: Python collections whose edits are tracked slot by slot.

```
PersistedValue, Array, List, Queue, Stack ──▶ Contiguous: slots [head, tail)       ┐
PersistedLinkedList ──▶ Links: slots with links to their neighbours  ┐             ├─ Slots ──save──▶ edits ──▶ Store
PersistedSet, SortedSet ──▶ Members: slots by key                    ├─ Scattered ─┘    ◀──first use, restore──
PersistedDictionary, SortedDictionary ──▶ Entries: slots by key      ┘ (freed slots are reused)
```
"""

from typing import Final

from runtime.state.objects.dictionaries import PersistedDictionary, PersistedSortedDictionary
from runtime.state.objects.linkedlists import LinkedNode, PersistedLinkedList
from runtime.state.objects.sequences import (
    PersistedArray,
    PersistedList,
    PersistedQueue,
    PersistedStack,
    PersistedValue,
)
from runtime.state.objects.sets import PersistedSet, PersistedSortedSet
from runtime.state.objects.slots import PLAIN, Home, PersistedObject, Schema, Slots

__all__ = [
    "KINDS",
    "PLAIN",
    "Home",
    "LinkedNode",
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
    "Schema",
    "Slots",
]

KINDS: Final[dict[str, type[PersistedObject]]] = {
    kind.kind: kind
    for kind in (
        PersistedValue,
        PersistedArray,
        PersistedList,
        PersistedQueue,
        PersistedStack,
        PersistedLinkedList,
        PersistedSet,
        PersistedSortedSet,
        PersistedDictionary,
        PersistedSortedDictionary,
    )
}
"""The ten persisted types by their names in the index."""
