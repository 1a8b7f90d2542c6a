"""Readers, which are inputs added to a running runtime, and the relations that readers fill.

```
NewReader ──▶ kinds.py: adaptor, source ──▶ Origin ──▶ Ingest.begin_origin ─────┐ at one cut,
    └──▶ readers.py: ReaderService ──▶ kept.py: list of readers, in the space ──┘ in one epoch
               └──▶ Catalogue.relations: what views may use
foreign.py: installed adaptors ──▶ adaptorstate.py: their state, in the epoch of their rows
```
"""

from runtime.service.readers.adaptorstate import AdaptorState
from runtime.service.readers.foreign import AdaptorRequest
from runtime.service.readers.readers import ReaderService

__all__ = ["AdaptorRequest", "AdaptorState", "ReaderService"]
