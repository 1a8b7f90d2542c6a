"""The demo: the whole loop as child processes, monitored, shown and stopped by one supervisor.

```
plan.py ─ folder, stages ─▶ supervisor.py ── starts, stops ──▶ child.py (dashboard, cluster, exchange, runtime, algo)
captures.py ─ file ──▶    │   ▲                              │
                          │   └──────── status events ───────┘
                          ▼
                      figures.py ──▶ screen.py (live on a terminal, else a line every 5 s) ──▶ the last line
```
"""

from deltabook.demo.captures import capture_file
from deltabook.demo.child import Child
from deltabook.demo.errors import CaptureError, ChildError, DemoError, InterruptedDemoError
from deltabook.demo.figures import DemoFigures
from deltabook.demo.plan import Feed, Flow, SparkPlace, Stage, make_run_folder, make_stages
from deltabook.demo.screen import LineScreen, LiveScreen, Screen
from deltabook.demo.supervisor import DemoTimeouts, Supervisor

__all__ = [
    "CaptureError",
    "Child",
    "ChildError",
    "DemoError",
    "DemoFigures",
    "DemoTimeouts",
    "Feed",
    "Flow",
    "InterruptedDemoError",
    "LineScreen",
    "LiveScreen",
    "Screen",
    "SparkPlace",
    "Stage",
    "Supervisor",
    "capture_file",
    "make_run_folder",
    "make_stages",
]
