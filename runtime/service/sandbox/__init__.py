"""Processes in which the SQL of clients runs, so that no question can stop or stall the runtime.

```
runtime                                                    process
QuestionWorkers ─take─▶ Worker ──messages over pipes──▶ process ──▶ question    DuckDB's own parser: one SELECT, which
     ▲                    │ └────numbers to interrupt──▶   │                    names relations and views alone
     └────────give────────┘                                └──────▶ database    a DuckDB for each question: no files,
                                                                                no settings, limits
```

A process is started by the first question that needs it, and is then reused by later questions. The number of processes
is at most the number of questions that may be answered at a time. A process has no secrets in its environment and a
limited address space, and ends with its runtime. This package imports little, because each process has to import it.
"""

from runtime.service.sandbox.limits import AskError, AskLimits, CostlyError
from runtime.service.sandbox.messages import AnswerRows, Beside
from runtime.service.sandbox.worker import Cancellation, QuestionWorkers, Worker

__all__ = ["AnswerRows", "AskError", "AskLimits", "Beside", "Cancellation", "CostlyError", "QuestionWorkers", "Worker"]
