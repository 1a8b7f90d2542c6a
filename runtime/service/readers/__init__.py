"""Readers: inputs that are added to a running runtime beside its feed, and the relations that views may use.

```
NewReader ──▶ kinds: adaptor, source (places, foreign) ──▶ Origin ──▶ Ingest.begin_origin ─┐ one cut,
ReaderService ────────────────────────────────────────────▶ kept: an object of the space ──┘ one epoch
foreign: installed adaptors ──▶ adaptorstate: objects of the space, in the epoch of their rows
   └──▶ Catalogue.relations                       leaving: rows of a dropped reader, read from the log
```
"""

from runtime.service.readers.adaptorstate import AdaptorState
from runtime.service.readers.foreign import AdaptorRequest
from runtime.service.readers.readers import ReaderService

__all__ = ["AdaptorRequest", "AdaptorState", "ReaderService"]
