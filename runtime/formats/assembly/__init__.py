"""Stages of raw buffers between their arrival and their batches.

```
 buffers of one origin ──▶ OriginStream: codec, turns, neighbours as one Unit
                             │ Settling: the state in which a unit starts, once its left neighbour is known
                             │ SequenceShredder: which tuples that span units are complete now
                             └ SpanningTuples: their pieces ──▶ Parts: whole tuples with their place in the stream
 parts of all origins ──▶ Assembly: bounded blocks ──parse──▶ Cutting: a batch for each contiguous part
```
"""

from runtime.formats.assembly.blocks import Assembly, Parts
from runtime.formats.assembly.shredder import Found, SequenceShredder, Span
from runtime.formats.assembly.spanning import Unit
from runtime.formats.assembly.stream import OriginStream

__all__ = ["Assembly", "Found", "OriginStream", "Parts", "SequenceShredder", "Span", "Unit"]
