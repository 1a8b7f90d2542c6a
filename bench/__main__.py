"""``python -m bench [NAME...]``: run benchmarks; BENCH_QUICK=1 gives the same keys on less data."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path
from typing import Final

from bench.report import print_table, write_records

BENCHMARKS: Final = {
    "ingest": "bench.ingest.benchmark",
    "views": "bench.views",
    "engine": "bench.engine.benchmark",
    "exchange": "bench.exchange.benchmark",
    "market": "bench.market.benchmark",
    "trading": "bench.trading.benchmark",
    "cluster": "bench.cluster.benchmark",
}
GRID: Final = re.compile(r"\.batch_|\.(4k|64k|256k|1m)\.|\.cpu_us_per_message$")
"""Pattern of the names of figures that a benchmark has printed in its own table."""
OUT: Final = Path(__file__).resolve().parent / "out"


def main(names: list[str]) -> int:
    """Run these benchmarks, or all without names; return 2 for an unknown name."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.stderr.write(f"bench: expected names out of {', '.join(BENCHMARKS)}, was {', '.join(unknown)}\n")
        return 2
    quick = os.environ.get("BENCH_QUICK", "") not in ("", "0")
    for name in names or BENCHMARKS:
        records = importlib.import_module(BENCHMARKS[name]).run(quick)
        path = write_records(OUT, name, records)
        print_table(name, [r for r in records if not GRID.search(r.what)])
        sys.stdout.write(f"bench: {name}: {len(records)} figures in {path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
