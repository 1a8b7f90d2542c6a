"""All figures of the ingest, one after another."""

from __future__ import annotations

import gc
import tempfile
from pathlib import Path

from bench.ingest.epochs import measure_commits, measure_epochs
from bench.ingest.material import material_of, wide_material
from bench.ingest.plan import FORMATS, Plan, plan_of
from bench.ingest.rates import measure_itchfeed, measure_projection, measure_rates, measure_tiled
from bench.ingest.sources import measure_memory, measure_sources
from bench.ingest.tables import print_rates
from bench.report import Record

__all__ = ["run"]


def run(quick: bool) -> list[Record]:
    """Measure formats, projections, epochs, sources and memory; raise `WrongCountError` if rows are missing."""
    plan = plan_of(quick)
    records: list[Record] = []
    for name in FORMATS:
        records += _format(name, plan)
    records += [measure_projection(wide_material(name, plan), plan) for name in ("csv", "json")]
    records += measure_epochs(plan) + measure_commits(plan)
    for count in plan.sources:
        records += measure_sources(count, plan)
    return records + measure_memory(plan)


def _format(name: str, plan: Plan) -> list[Record]:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        material = material_of(name, plan, Path(folder))
        records = measure_rates(material, plan)
        if name == "itch":
            records += measure_itchfeed(material, plan, records)
        if name == "native":
            records += measure_tiled(material, plan, records)
    print_rates(name, records)
    del material
    gc.collect()
    return records
