"""Live runtime with its ports.

```
inputs/, readers/ ──▶ Ingest (runtime.engine) ──▶ lanes/ ──▶ results/ ──▶ subscriptions/ ──▶ http/, postgres/
                        │                           ▲                      asking.py (ad-hoc questions) ─▲
                        ▼                        catalogue.py (changes)      │
                      rundir/ (state, log, upkeep)                         sandbox/ (processes of questions)
                                                 health/ (lag, figures, metrics)
```

parts.py builds all parts; live.py owns, starts and stops them; config.py configures them; listening.py opens ports. For
the answers to questions, at_epochs.py returns the rows of relations and views at an epoch, and moments.py writes dates
and times. waiting.py returns Deferreds that fire once workers have sealed an epoch. interpreter.py tunes Python for low
latency. scripts/ runs a SQL script to the end of its input, without ports.
"""

__all__: list[str] = []
