"""Harness for tests of the engine: triggers every event of a query on demand.

```
Harness ── engine on threads (seed None) or on a Stepper, which runs one task at a time as its seed says
  query(id) ──▶ QueryBuilder ── source() ──▶ ControlledSource    inject, end, fail; slow or failing open and close
                             ── pipeline() ─▶ ControlledPipeline fails on start, the nth call, drain or stop; durations
                             ── sink() ─────▶ ControlledPipeline without successors
  until(condition) waits, without sleeping: on threads for a change, on a stepper for steps
```
"""

from tests.harness.controls import Broken, ControlledPipeline, ControlledSource
from tests.harness.harness import WAIT_S, Harness, QueryBuilder
from tests.harness.listening import RecordedStatistics, RecordedStatus
from tests.harness.stepper import ManualClock, Stepper
from tests.harness.watch import SteppedWatch, ThreadedWatch, Watch

__all__ = [
    "WAIT_S",
    "Broken",
    "ControlledPipeline",
    "ControlledSource",
    "Harness",
    "ManualClock",
    "QueryBuilder",
    "RecordedStatistics",
    "RecordedStatus",
    "SteppedWatch",
    "Stepper",
    "ThreadedWatch",
    "Watch",
]
