"""Conversion of raw bytes to Arrow batches, in any order, on several threads.

```
 RawBuffer ──▶ InputFormatter.format(about 2 MiB of them) ──▶ FormattedBatch ──▶ InOrder ──▶ stream order
                            │ Stream: neighbours joined to units, codecs        of any origins; tuples that do not fit
                            │ 1. index: the ends of tuples      Format's        the schema are counted, skipped,
                            │    Settling: runs that need the state before      described in dead letters, or an error
                            │    SequenceShredder: the tuples that are whole now
                            │    SpanningTuples: their pieces
                            │ 2. Assembly: one block of everything that is whole
                            │    parse: its columns             Format's
                            └─ Cutting: a slice for each contiguous part
```

Decoding runs on any worker; a stream that is compressed as a whole is decoded in its order, by one worker at a time.
Indexing and parsing run on any worker outside locks; settling and shredding take little time, under the origin's lock;
batches are put in order by one worker at a time. Indexing computes a result for every state in which a buffer may
start: in quotes or not, within a delimiter or a length prefix. Settling chooses the result for the state in which the
left neighbour has ended. Python code loops over runs of tuples; it loops over single tuples only if they are so few
that a call of Arrow would take longer.

A new format takes one file, which has a `Format` and an `InputFormatIndexer`.
"""

from runtime.formats.assembly.shredder import Found, SequenceShredder, Span
from runtime.formats.buffers import (
    DEAD_LETTER_BYTES,
    DeadLetter,
    FormatCounters,
    Formatted,
    FormattedBatch,
    RawBuffer,
    TupleLayout,
)
from runtime.formats.codecs import Codec, Decoder
from runtime.formats.csv import CsvFormat, CsvIndexer
from runtime.formats.errors import (
    CodecError,
    DuplicateSequenceError,
    FormatError,
    OrderCapacityError,
    SchemaError,
    SequenceGapError,
)
from runtime.formats.format import (
    COALESCE_BYTES,
    BadTuple,
    Block,
    Format,
    InputFormatIndexer,
    ParsedBlock,
    Run,
    RunIndex,
    Section,
    SettledIndex,
    TupleRange,
)
from runtime.formats.formatter import InputFormatter
from runtime.formats.ordering import InOrder
from runtime.formats.pushdown import Condition, Pushdown
from runtime.formats.registry import format_kind, format_named, format_names, register_format
from runtime.formats.schema import Field, Limits, Malformed, Schema
from runtime.formats.values import ValueParser, register, value_parser

__all__ = [
    "COALESCE_BYTES",
    "DEAD_LETTER_BYTES",
    "BadTuple",
    "Block",
    "Codec",
    "CodecError",
    "Condition",
    "CsvFormat",
    "CsvIndexer",
    "DeadLetter",
    "Decoder",
    "DuplicateSequenceError",
    "Field",
    "Format",
    "FormatCounters",
    "FormatError",
    "Formatted",
    "FormattedBatch",
    "Found",
    "InOrder",
    "InputFormatIndexer",
    "InputFormatter",
    "Limits",
    "Malformed",
    "OrderCapacityError",
    "ParsedBlock",
    "Pushdown",
    "RawBuffer",
    "Run",
    "RunIndex",
    "Schema",
    "SchemaError",
    "Section",
    "SequenceGapError",
    "SequenceShredder",
    "SettledIndex",
    "Span",
    "TupleLayout",
    "TupleRange",
    "ValueParser",
    "format_kind",
    "format_named",
    "format_names",
    "register",
    "register_format",
    "value_parser",
]
