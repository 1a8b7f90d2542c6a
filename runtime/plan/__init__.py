"""The view program as data: what the compiler makes of SQL, and all that an executor ever sees of it.

```
algebra    expressions, columns, relations, maps: keyed aggregates over one relation
linear     sums over one relation                joined    sums over joins of maps
selected   sums over what conditions on aggregates select  flow      graphs of operators on rows
reevaluated  any other SQL, by DuckDB            program   views and maps, and their encoding
derived    streams computed from other streams: what they say, read and keep
body       what each of the five forms says of itself: maps, placement, cost, explanation
parts      what one view or one lane needs of a program
```

A program is data, never code; whatever hosts it loads it from the epoch log. This package imports nothing of the
project.
"""

from runtime.plan.algebra import (
    EPOCH_TIME,
    Call,
    Col,
    Column,
    ColumnType,
    Expr,
    Key,
    Lit,
    Map,
    Relation,
    Sum,
    Term,
    columns_read,
    renamed,
    sum_of_terms,
)
from runtime.plan.body import Body
from runtime.plan.derived import DerivedInput, DerivedStream
from runtime.plan.flow import (
    Aggregate,
    BoundNode,
    DistinctNode,
    Flow,
    GroupNode,
    JoinNode,
    Node,
    Operator,
    Quantile,
    ScanNode,
    SelectNode,
    SemiNode,
    SetNode,
    TopNode,
    UnionNode,
    WindowFunction,
    WindowNode,
)
from runtime.plan.joined import Auxiliary, Joined, Lookup, Occurrence, Range, Statement
from runtime.plan.linear import Branch, Linear
from runtime.plan.parts import (
    assembled,
    columns_of,
    lane_program,
    map_identity,
    new_views,
    only_view,
    readers_of,
    readers_of_stream,
    shown_program,
    stream_of,
    stream_views,
    view_of,
    with_record,
    without_stream,
    without_view,
)
from runtime.plan.program import (
    FORMAT_VERSION,
    Lane,
    Program,
    View,
    ViewBody,
    ViewClass,
    decode_program,
    encode_program,
)
from runtime.plan.reevaluated import Input, Reevaluated
from runtime.plan.selected import Factor, Nested, Selected

__all__ = [
    "EPOCH_TIME",
    "FORMAT_VERSION",
    "Aggregate",
    "Auxiliary",
    "Body",
    "BoundNode",
    "Branch",
    "Call",
    "Col",
    "Column",
    "ColumnType",
    "DerivedInput",
    "DerivedStream",
    "DistinctNode",
    "Expr",
    "Factor",
    "Flow",
    "GroupNode",
    "Input",
    "JoinNode",
    "Joined",
    "Key",
    "Lane",
    "Linear",
    "Lit",
    "Lookup",
    "Map",
    "Nested",
    "Node",
    "Occurrence",
    "Operator",
    "Program",
    "Quantile",
    "Range",
    "Reevaluated",
    "Relation",
    "ScanNode",
    "SelectNode",
    "Selected",
    "SemiNode",
    "SetNode",
    "Statement",
    "Sum",
    "Term",
    "TopNode",
    "UnionNode",
    "View",
    "ViewBody",
    "ViewClass",
    "WindowFunction",
    "WindowNode",
    "assembled",
    "columns_of",
    "columns_read",
    "decode_program",
    "encode_program",
    "lane_program",
    "map_identity",
    "new_views",
    "only_view",
    "readers_of",
    "readers_of_stream",
    "renamed",
    "shown_program",
    "stream_of",
    "stream_views",
    "sum_of_terms",
    "view_of",
    "with_record",
    "without_stream",
    "without_view",
]
