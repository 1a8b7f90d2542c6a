"""The admin port: HTTP requests of operators and monitors, and a page that shows the market.

```
 HTTP ──▶ http.py ──────────┬──▶ reports.py   status, books, sessions, accounts, hash   ──▶ market, faces (read only)
 (deltabook.wire.admin)     ├──▶ changes.py   phases, kill, cancel, bust, cut, replay   ──▶ Input ──▶ exchange.submit
                            ├──▶ metrics.py   /metrics (deltabook.wire.metrics)
                            ├──▶ live.py      frames of the page                         ──▶ market, feed
                            └──▶ page/        the page (deltabook.wire.site)
```

Every change of the market is a request in the exchange's journal, with a time of its own. Reports change nothing, and
every answer is bounded in size.
"""

from exchange_server.admin.changes import Changes
from exchange_server.admin.http import admin_site
from exchange_server.admin.metrics import ExchangeMetrics, JournalFigures
from exchange_server.admin.reports import MOST_HASHED, Connection, Face, Playing, Reports

__all__ = [
    "MOST_HASHED",
    "Changes",
    "Connection",
    "ExchangeMetrics",
    "Face",
    "JournalFigures",
    "Playing",
    "Reports",
    "admin_site",
]
