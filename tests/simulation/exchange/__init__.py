"""A deterministic simulation of the exchange: one seed, one history of clients, faults, crashes and restarts.

```
World ── one act after another, chosen by the seed ───────────────────────────────────────────┐
  │ clients.py, traders.py  lines, packets, OUCH ──▶ Link ──▶ TextServer, OuchServer, ItchServer │ real
  │ vandals.py  who come to break things ─────────▶ Link ──▶    │ Exchange, Market, encoders    │
  │ Clock: timers, market time ───────────────────────────────▶ │                              │
  │ SimulatedDisk: what a crash leaves of a Journal ◀────────────┘                              │
  │ Faults: kill at any operation of the disk, power cuts, errors, partitions, slow clients     │
  ▼                                                                                            │
audit.py: a Shadow applies the same inputs without any mishap ◀─────────────────────────────────┘
```

What must hold after every start and at the end: nothing that was carried out is lost; the state and every byte of every
stream are the shadow's; each client has been told the beginning of its stream, without a gap and nothing twice, and in
the end all of it. And of what was said: no order trades at a worse price than there was, first come is first served
within a price, lots and money only change hands, and every open order is as its owner was told.

``make simulate-exchange SEEDS=10000`` runs many seeds; a failure names its seed, and
``python -m tests.simulation.exchange --seed N -v`` shows what happened in it.
"""
