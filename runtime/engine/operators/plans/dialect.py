"""The SQL of derived streams: DuckDB's, with SESSION as a function."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import TokenType

__all__ = ["StreamDialect"]


class StreamDialect(DuckDB):
    """DuckDB's SQL, in which SESSION(time, gap) may stand in GROUP BY."""

    class Parser(DuckDBParser):
        """Reads SESSION( as a call."""

        FUNC_TOKENS = DuckDBParser.FUNC_TOKENS | {TokenType.SESSION}
