"""Limits of questions, and the errors of checking and running them."""

from __future__ import annotations

import msgspec

from runtime.service.errors import ServiceError

__all__ = ["AskError", "AskLimits", "CostlyError"]


class AskLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of each question, and of all questions together."""

    at_once: int = 2
    """Greatest number of questions that are answered at a time, each in its own process; 0 to answer none."""
    waiting: int = 256
    """Greatest number of questions that wait for their turn; see ``waits`` of `runtime.service.asking.Asker.ask`."""
    seconds: float = 10.0
    """Timeout in seconds from a question's arrival to its answer; the process of a question that takes longer is
    killed."""
    memory_bytes: int = 512 * 1024 * 1024
    """DuckDB's memory for a question, in bytes; nothing is written to disk."""
    growth_bytes: int = 3 * 1024 * 1024 * 1024
    """Greatest growth of the address space of a question's process, in bytes, above the size without a question.

    The growth consists of the tables that the question reads, DuckDB's memory, and the results of expressions, which
    DuckDB does not count as its memory.
    """
    read_bytes: int = 1024 * 1024 * 1024
    """Greatest size in memory of the relations and views that a question reads, in bytes."""
    answer_rows: int = 100_000
    """Greatest number of rows of an answer."""
    answer_bytes: int = 256 * 1024 * 1024
    """Greatest size in memory of the rows of an answer, in bytes."""
    kept_bytes: int = 512 * 1024 * 1024
    """Greatest size of the relations that are kept for the next question, in bytes."""

    def growth_error(self) -> CostlyError:
        """Return the error of a question whose process grows by more than `growth_bytes`."""
        most = self.growth_bytes >> 20
        return CostlyError(
            f"expected a question for which the process grows by at most {most} MiB, was one that needs more"
        )


class AskError(ServiceError):
    """The question cannot be answered: its epoch cannot be read, a view has failed, or its process has ended."""


class CostlyError(AskError):
    """The question needs more rows, bytes, memory or time than its limits allow."""
