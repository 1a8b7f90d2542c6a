"""SQL to view programs.

::

    file.sql ──read_script──▶ Script: streams, NamedSelects          script, declarations, derived, tokens
                                 │
             compile_program ────┤ order     views after those that they read
                                 │ parse     sqlglot's tree, columns qualified, errors with positions
                                 │ inlining  the views that it reads put into it
                                 │ queries   the same with exact integers: expressions, aggregates, fixedpoint
                                 │ lower     its expressions as the program's own: operands; aggregates: sums
                                 ├─ linear       sums over one relation: maps alone
                                 ├─ factored     sums over joins and selections: maps of maps
                                 ├─ flow         any other operators, on changes of rows
                                 └─ reevaluated  DuckDB over maps that hold what the query needs
                                 ▼
                              Program: maps and views, as data                                 program, catalogue
                                 ▼
                              explain, in words                                                notation

Every view is rewritten first, which finds its errors and types; then it gets the first of these forms that supports it,
with the reason in words, which `explain` shows.
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
