"""``python -m bench.market``: print the table of docs/market.md and draw its picture. BENCH_QUICK=1: from less."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from bench.market.drawing import draw
from bench.market.figures import markdown
from bench.market.observing import watch_agents, watch_capture
from deltabook.demo.captures import capture_file
from exchange_server.agents import PRESETS

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "market.png"


def main() -> None:
    """The recording once, each preset with several seeds."""
    quick = os.environ.get("BENCH_QUICK", "") not in ("", "0")
    capture = watch_capture(capture_file(os.environ))
    seconds, seeds = (300, range(1, 2)) if quick else (1_785, range(1, 6))
    agents = {
        name: [watch_agents(f"agents, {name}", settings, seconds, seed) for seed in seeds]
        for name, settings in sorted(PRESETS.items())
    }
    columns = {"BTC/USD, recorded": [capture], **{f"agents, {name}": seen for name, seen in agents.items()}}
    sys.stdout.write(markdown(columns) + "\n")
    if not quick:
        draw([capture, *(seen[0] for seen in agents.values())], PICTURE)


if __name__ == "__main__":
    main()
