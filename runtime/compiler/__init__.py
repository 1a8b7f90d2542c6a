"""SQL to view programs.

::

    file.sql ──read_script──▶ Script: streams, NamedSelects                  script, declarations
                                 │
             compile_program ────┤ compile   each view after the views that it reads
                                 │ parse     sqlglot's tree (dialect), columns qualified, errors with positions
                                 │ inlining  queries in place of the names of views
                                 │ lower     SQL expressions to the program's (operands), aggregates to sums (sums)
                                 ├─ linear       sums over one relation: maps alone
                                 ├─ factored     sums over joins and selections: maps of maps
                                 ├─ flow         any other operators, on changes of rows
                                 └─ reevaluated  any other query: DuckDB runs it over maps of rows, in exact integers
                                 │               (expressions, aggregates, fixedpoint)
                                 ▼
                              Program: maps and views, as data                `runtime.plan`
                                 ▼
                              explain, in words

Every query is first rewritten for re-evaluation, which finds its errors and the types of its columns. The view then
gets the first of these four forms that supports the query. `explain` shows the form and the reason for it.
"""

from __future__ import annotations

from runtime.compiler.compile import compile_program, extend_program, names_read
from runtime.compiler.declarations import DeclaredFile, DeclaredSocket, StreamDeclaration
from runtime.compiler.errors import MissingFileError, SqlError
from runtime.compiler.explain import explain
from runtime.compiler.relations import MARKET_RELATIONS, MARKET_TIMES, TOUCHES, TRADES
from runtime.compiler.script import NamedSelect, Script, StreamClauses, StreamSelect, parse_script, read_script
from runtime.plan import (
    Branch,
    Call,
    Col,
    Column,
    Expr,
    Input,
    Key,
    Lane,
    Linear,
    Lit,
    Map,
    Program,
    Reevaluated,
    Relation,
    Sum,
    View,
    decode_program,
    encode_program,
)

__all__ = [
    "MARKET_RELATIONS",
    "MARKET_TIMES",
    "TOUCHES",
    "TRADES",
    "Branch",
    "Call",
    "Col",
    "Column",
    "DeclaredFile",
    "DeclaredSocket",
    "Expr",
    "Input",
    "Key",
    "Lane",
    "Linear",
    "Lit",
    "Map",
    "MissingFileError",
    "NamedSelect",
    "Program",
    "Reevaluated",
    "Relation",
    "Script",
    "SqlError",
    "StreamClauses",
    "StreamDeclaration",
    "StreamSelect",
    "Sum",
    "View",
    "compile_program",
    "decode_program",
    "encode_program",
    "explain",
    "extend_program",
    "names_read",
    "parse_script",
    "read_script",
]
