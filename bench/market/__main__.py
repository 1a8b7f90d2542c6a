"""``python -m bench.market``: print the table of docs/market.md and draw its plot. BENCH_QUICK=1 uses less data."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from PIL import Image

from bench.market.observing import watch_agents
from bench.market.tables import markdown
from deltabook.demo.captures import capture_file
from deltabook.facts import draw, watch_capture
from exchange_server.agents import PRESETS

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "market.png"


def main() -> None:
    """Observe the recording once, and each preset with several seeds."""
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
        # This takes a quarter of the bytes: lines on white need few colours.
        Image.open(PICTURE).convert("RGB").quantize(64).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
