"""A deterministic simulation of the exchange: one seed, one history of clients, faults, crashes and restarts.

```
World ── one act after another, chosen by the seed ───────────────────────────────────────────┐
  │ clients.py, traders.py  lines, packets, OUCH ──▶ Link ──▶ TextServer, OuchServer, ItchServer │ real
  │ vandals.py  clients that send wrong data ─────▶ Link ──▶    │ Exchange, Market, encoders    │
  │ Clock: timers, market time ───────────────────────────────▶ │                              │
  │ SimulatedDisk: what a crash leaves of a Journal ◀────────────┘                              │
  │ Faults: kill at any operation of the disk, power cuts, errors, partitions, slow clients     │
  ▼                                                                                            │
audit.py: a Shadow applies the same inputs without any mishap ◀─────────────────────────────────┘
```

After every start and at the end: no executed input is lost; the state and every byte of every stream are the shadow's;
each client has received the beginning of its stream, without a gap or repetition, and in the end all of it. The
messages show that no order trades through a better price, orders of one price execute in the order of their arrival,
lots and money only change hands, and every open order agrees with its owner's messages.
``make simulate-exchange SEEDS=10000`` runs many seeds; a failure names its seed, and
``python -m tests.simulation.exchange --seed N -v`` shows its events.
"""
