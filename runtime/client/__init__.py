"""Client of a runtime's results service, over HTTP.

```
connect ──▶ Client ──▶ View ──▶ CursorPages          one request, one answer
              ├──▶ Asked                             a SELECT over relations and views, at one epoch
              └──▶ ChangeStream ──▶ Change           endless: reconnects, and resumes exactly where it was
```

The client needs only pyarrow, msgspec and, from this project, `deltabook.wire`.
"""

from deltabook.wire.catalogue import Changed, ChangedView
from deltabook.wire.http.peer import (
    ClientError,
    ConnectionFailedError,
    GoneError,
    NotFoundError,
    ProtocolError,
    RefusedError,
)
from deltabook.wire.readers import (
    ChangedReader,
    FileConnection,
    NewColumn,
    NewReader,
    ReaderStatus,
    RowsKept,
    SocketConnection,
)
from deltabook.wire.service import RuntimeStatus, Statistics, ViewLine
from runtime.client.changes import By, Change, ChangeStream, Patience
from runtime.client.client import Asked, Client, connect
from runtime.client.view import CursorPages, View

__all__ = [
    "Asked",
    "By",
    "Change",
    "ChangeStream",
    "Changed",
    "ChangedReader",
    "ChangedView",
    "Client",
    "ClientError",
    "ConnectionFailedError",
    "CursorPages",
    "FileConnection",
    "GoneError",
    "NewColumn",
    "NewReader",
    "NotFoundError",
    "Patience",
    "ProtocolError",
    "ReaderStatus",
    "RefusedError",
    "RowsKept",
    "RuntimeStatus",
    "SocketConnection",
    "Statistics",
    "View",
    "ViewLine",
    "connect",
]
