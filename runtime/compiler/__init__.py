"""SQL to view programs.

::

    file.sql ──read_script──▶ Script: streams, NamedSelects                  script, declarations
                                 │
             compile_program ────┤ compile   each view after those that it reads
                                 │ parse     sqlglot's tree, columns qualified, errors with positions
                                 │ inlining  the queries of the views that it reads put into it
                                 │ lower     expressions as those of the program: operands; aggregates: sums
                                 ├─ linear       sums over one relation: maps alone
                                 ├─ factored     sums over joins and selections: maps of maps
                                 ├─ flow         any other operators, on changes of rows
                                 └─ reevaluated  the query in exact integers, by DuckDB over maps with the rows that it
                                 │               needs: expressions, aggregates, fixedpoint
                                 ▼
                              Program: maps and views, as data                `runtime.plan`
                                 ▼
                              explain, in words

Every view is first rewritten as a re-evaluated one, which finds its errors and types. It then gets the first of these
four forms that supports it, with the reason in words, which `explain` shows.
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
