"""Readers at run time: what a runtime reads beside its own feed, as data, and what views may use of it.

```
NewReader ──▶ kinds: adaptor, source (places, foreign) ──▶ Origin ──▶ Ingest.begin_origin ─┐ one cut,
ReaderService ────────────────────────────────────────────▶ kept: an object of the space ──┘ one epoch
foreign: installed adaptors ──▶ adaptorstate: objects of the space, in the epoch of their rows
   └──▶ Catalogue.relations (service.viewed)      leaving: rows of a dropped one, out of the log
```
"""

from runtime.service.readers.adaptorstate import AdaptorState
from runtime.service.readers.foreign import AdaptorRequest
from runtime.service.readers.readers import ReaderService

__all__ = ["AdaptorRequest", "AdaptorState", "ReaderService"]
