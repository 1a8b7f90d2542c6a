"""PostgreSQL's protocol: relations and views for psql, drivers and tools, and the changes of views by COPY.

```
 connection ─▶ server.py ─limits, TLS, scram.py─▶ session.py ─▶ parsing.py         statements of a text
                (messages.py: bytes ⇄ messages)      │
                                                     ├─ SELECT ─▶ rewriting.py ─▶ service/asking.py, at one version
                                                     │             └ system_tables.py: pg_catalog, information_schema
                                                     ├─ rows ─▶ portals.py ─▶ encoding.py, types.py: columns ─▶ bytes
                                                     ├─ COPY (SUBSCRIBE …) ─▶ subscribing.py ◀── results.Hub
                                                     └─ SET, SHOW ─▶ settings.py
```

A session belongs to the reactor's thread and executes one message at a time (execution.py); slow work runs on other
threads. Messages, statements, portals, answers and connections are bounded in number and in bytes. Every SELECT is a
question in its own sandbox, as over HTTP.
"""

from runtime.service.postgres.parts import PostgresParts
from runtime.service.postgres.server import PostgresFactory

__all__ = ["PostgresFactory", "PostgresParts"]
