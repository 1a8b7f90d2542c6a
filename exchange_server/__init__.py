"""The market: order books and their rules, a journal, NASDAQ's protocols and a text one, and flow to trade against.

```
 text clients ──▶ text/ ─────────┐                                   ┌──▶ text/ ──▶ listeners, clients
 OUCH clients ──▶ nasdaq/ouch/ ──┤                                   ├──▶ nasdaq/itch, mold, glimpse ──▶ listeners
 agents/, replay/ ───────────────┼─▶ Input ─▶ exchange.py ─▶ streams ┤
 day.py  clock, phases ──────────┤                │                  └──▶ nasdaq/ouch/ ──▶ OUCH clients
 admin/  the operator ───────────┘                │   (readers.py: readers of streams)
                                                  ▼
                 journal/  inputs, snapshots, streams        ◀──▶ matching/  the market, pure
 logins.py  users and passwords    config.py  settings      app.py, process.py  the process
 faces.py   the ports              upkeep.py  snapshots, syncs
 outputs.py the encoders of the feed and the protocols of accounts
```

Nothing is imported here: `exchange_server.matching` is the market alone, for use in process, and
`exchange_server.app` runs the complete process.
"""
