"""Results and control over HTTP: one table of routes builds the site and its description.

```
 connection ─▶ site.py ─limits.py, deltabook.wire.access─▶ routes.py ─▶ views.py    ──▶ hub, control   what views say
                 │                                         (the table)  cursors.py  ──▶ cursors        page by page
                 │                                            │         changes.py  ──▶ hub            as they change
                 │                                            │         asking.py   ──▶ asker          any SELECT
                 │                                            │         readers.py  ──▶ readers        what is read
                 ◀── sending.py ◀── Reply ◀── rows.py ◀───────┤         reports.py  ──▶ status         how it stands
                     (piece by piece)  (JSON, Arrow)          └─▶ openapi.py: /v1/openapi.json
```

A handler is given values that are checked and gives a record back; none but `site` and `sending` writes a request. What
it cannot do it raises: a `Refusal` with its status, or an error of the service or of the compiler.
"""

from runtime.service.http.limits import SiteLimits
from runtime.service.http.site import ResultsSite
from runtime.service.http.table import ServiceParts, results_site

__all__ = ["ResultsSite", "ServiceParts", "SiteLimits", "results_site"]
