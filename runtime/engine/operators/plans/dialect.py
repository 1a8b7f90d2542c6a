"""The SQL of derived streams: DuckDB's, with SESSION as a function."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import TokenType

__all__ = ["StreamDialect"]


class StreamDialect(DuckDB):
    """DuckDB's SQL, in which SESSION(time, gap) may stand in GROUP BY."""

    class Parser(DuckDB.Parser):
        """Reads SESSION( as a call."""

        FUNC_TOKENS = DuckDB.Parser.FUNC_TOKENS | {TokenType.SESSION}
