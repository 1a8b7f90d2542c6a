"""A deterministic simulation of several runtimes that feed one: a tree of logs on one volume, one history per seed.

```
Market a ─▶ SimulatedFeed ─▶ runtime a ──log──┐  Follower.look, when the world says so
Market b ─▶ SimulatedFeed ─▶ runtime b ──log──┴▶ runtime main ──log──▶ Audit: main's relations are those of both
              each: EpochWriter, Ingest, snapshots,     ◀── consumers/ ──    markets up to the cuts that it names
              retention, a machine of its own that crashes, stops, loses power, is taken over by another process
```

``make simulate-upstreams SEEDS=20000`` runs many seeds; ``python -m tests.simulation.upstreams --seed N -v`` shows one.
"""
