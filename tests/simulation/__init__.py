"""A deterministic simulation of the runtime: one seed, one history of data, faults, crashes and restarts.

```
World ── one act after another, chosen by the seed ──────────────────────────────────────────┐
  │ market: requests, heartbeats ──▶ FeedServer ──▶ Link ──▶ TextFeedSource ─▶ Inlet, Ingest │ real
  │ files ───────────────────────────────────────▶ SimulatedFile ───────────────▶   │        │
  │ Stepping: the engine's tasks, one at a time ────────────────────────────────────┤        │
  │ SimulatedReactor: the clock, calls from threads; Threads: the upkeep's          ▼        │
  │ SimulatedDisk, SimulatedStore ◀── epochs, snapshots, results, state ── EpochWriter, Upkeep│
  │ SimulatedSpark, Executors: batches, tasks ───▶ EpochReader, ShardProcessor, SparkLane, Hub │
  │ Faults: kill at any operation, errors of the disk, no space                               │
  ▼                                                                                           │
Audit: looks at the disk after every act, and compares with Book and views in plain Python ◀──┘
```

Code between the edges is the runtime's own. A killed process leaves all of its writes; a stopped machine leaves the
synced data and any part of the rest. ``make simulate SEEDS=20000`` runs many seeds; a failure names its seed, and
``python -m tests.simulation --seed N -v`` shows its events.
"""
