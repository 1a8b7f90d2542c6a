"""From raw bytes to Arrow batches, in any order, on several threads.

```
 RawBuffer ──▶ InputFormatter ───────────────────────────────────────────▶ FormattedBatch ──▶ InOrder ──▶ stream order
  buffers        │ 1. index: first and last tuple delimiter  InputFormatIndexer   LEAD: the tuple that spans buffers
                 │ 2. which spanning tuples are complete now  SequenceShredder    BODY: the whole tuples of a buffer
                 │ 3. parse the block in one call             CsvIndexer          dead: what does not fit the schema
                 └─ Schema of Fields, their types from the one registry of value parsers (values)
```

A new format is one file: its own indexer.
"""

from runtime.formats.buffers import BODY, LEAD, DeadLetter, FormattedBatch, RawBuffer
from runtime.formats.csv import CsvFormat, CsvIndexer
from runtime.formats.errors import (
    DuplicateSequenceError,
    FormatError,
    MalformedTupleError,
    OrderCapacityError,
    SchemaError,
    SequenceGapError,
)
from runtime.formats.formatter import InputFormatter
from runtime.formats.indexer import BadTuple, InputFormatIndexer, ParsedBlock
from runtime.formats.ordering import InOrder
from runtime.formats.pushdown import Condition, Pushdown
from runtime.formats.schema import Field, Limits, Malformed, Schema
from runtime.formats.schemas import BITSTAMP_SCHEMA, FEED_SCHEMA, LOBSTER_SCHEMA
from runtime.formats.shredder import Found, SequenceShredder, Span
from runtime.formats.values import ValueParser, register, value_parser

__all__ = [
    "BITSTAMP_SCHEMA",
    "BODY",
    "FEED_SCHEMA",
    "LEAD",
    "LOBSTER_SCHEMA",
    "BadTuple",
    "Condition",
    "CsvFormat",
    "CsvIndexer",
    "DeadLetter",
    "DuplicateSequenceError",
    "Field",
    "FormatError",
    "FormattedBatch",
    "Found",
    "InOrder",
    "InputFormatIndexer",
    "InputFormatter",
    "Limits",
    "Malformed",
    "MalformedTupleError",
    "OrderCapacityError",
    "ParsedBlock",
    "Pushdown",
    "RawBuffer",
    "Schema",
    "SchemaError",
    "SequenceGapError",
    "SequenceShredder",
    "Span",
    "ValueParser",
    "register",
    "value_parser",
]
