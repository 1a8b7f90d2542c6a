"""PostgreSQL's protocol: relations and views for psql, drivers and tools, and the changes of views by COPY.

```
 connection ─▶ server.py ─limits, TLS, scram.py─▶ session.py ─▶ parsing.py         what a text asks for
                (messages.py: bytes ⇄ messages)      │
                                                     ├─ SELECT ─▶ rewriting.py ─▶ service/asking, at one version
                                                     │             └ system_tables.py: pg_catalog, information_schema
                                                     ├─ rows ─▶ answers.py ─▶ encoding.py, types.py: columns ─▶ bytes
                                                     ├─ COPY (SUBSCRIBE …) ─▶ subscribing.py ◀── hub, service/stream
                                                     └─ SET, SHOW ─▶ settings.py
```

A session belongs to the reactor's thread and does one message after the other; what takes long is done on others.
Nothing that a client sends is kept without a bound: messages, statements, portals, answers, connections, in number and
in bytes. Every SELECT is a question in a sandbox of its own, as those over HTTP are.
"""

from runtime.service.postgres.parts import PostgresParts
from runtime.service.postgres.server import PostgresFactory

__all__ = ["PostgresFactory", "PostgresParts"]
