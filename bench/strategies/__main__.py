"""``python -m bench.strategies``: play all cases, draw them, and put their tables into docs/strategies.md.

BENCH_QUICK=1 plays only the beginning of the recording and writes the tables to standard output.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from bench.strategies.cases import CASES, Recording
from bench.strategies.drawing import draw
from bench.strategies.playing import play
from bench.strategies.tables import markdown, placed
from deltabook.demo.captures import capture_file

DOCS = Path(__file__).resolve().parents[2] / "docs"


def main() -> None:
    """Play all cases, two at a time."""
    quick = os.environ.get("BENCH_QUICK", "") not in ("", "0")
    capture_file(os.environ)  # fetched once, before the processes start
    page = DOCS / "strategies.md"
    text = page.read_text(encoding="utf-8")
    with ProcessPoolExecutor(2) as pool:
        recordings: tuple[Recording, ...] = ("capture", "trace")
        for recording in recordings:
            results = list(pool.map(partial(play, recording=recording, quick=quick), CASES))
            table = markdown(list(zip(CASES, results, strict=True)))
            sys.stdout.write(f"{table}\n\n")
            text = placed(text, recording, table)
            if recording == "capture" and not quick:
                for case, result in zip(CASES, results, strict=True):
                    if result.fills:
                        draw(case, result, DOCS / "strategies" / f"{case.name}.png")
    if not quick:
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
