"""Results and control of a runtime over HTTP. The site and its description are built from one table of routes.

```
 connection ─▶ site.py ─limits.py, deltabook.wire.access─▶ routes.py ─▶ views.py    ──▶ hub, control   results, changes
                 │                                         (the table)  cursors.py  ──▶ cursors        results in pages
                 │                                            │         changes.py  ──▶ hub            subscriptions
                 │                                            │         asking.py   ──▶ asker          any SELECT
                 │                                            │         readers.py  ──▶ readers        inputs
                 ◀── sending.py ◀── Reply ◀── rows.py ◀───────┤         reports.py  ──▶ status         status, metrics
                     (piece by piece)  (JSON, Arrow)          └─▶ openapi.py: /v1/openapi.json
```

A handler receives checked values and returns a record; only `site` and `sending` write to a request. A handler raises a
`Refusal` with its status, or an error of the service or of the compiler.
"""

from runtime.service.http.limits import SiteLimits
from runtime.service.http.site import ResultsSite
from runtime.service.http.table import ServiceParts, results_site

__all__ = ["ResultsSite", "ServiceParts", "SiteLimits", "results_site"]
